// Predictions for curves of a collective measured over sizes.
#pragma once

#include <variant>
#include <vector>

#include "validate/record.h"
#include "validate/system.h"

namespace tandem::validate {

// Returns one time for each point. The record's group names the collective, which spans all its
// devices.
std::variant<std::vector<Seconds>, Skipped> predict_curve_times(
    const Record& record, const std::vector<CurvePoint>& points);

}  // namespace tandem::validate
