// What this program predicts for measured curves of a collective over sizes.
#pragma once

#include <variant>
#include <vector>

#include "validate/record.h"
#include "validate/system.h"

namespace tandem::validate {

// One time for each point. The collective is what the record's id and group name, over all its
// devices.
std::variant<std::vector<Seconds>, Skipped> curve_times(const Record& record,
                                                        const std::vector<CurvePoint>& points);

}  // namespace tandem::validate
