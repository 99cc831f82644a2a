// Measured numbers in the units that papers give them, and predictions in the same.
//
// All numbers of time are one number, the iteration's, by conversions that the record's own sizes
// fix: Megatron's tables count operations by their own formula, MFU counts 6 for each parameter and
// token and 12 for each pair of layer and position.
#pragma once

#include <optional>
#include <string_view>
#include <variant>

#include "base/units.h"
#include "validate/predict.h"
#include "validate/record.h"
#include "validate/system.h"

namespace tandem::validate {

enum class MetricKind : std::uint8_t { kTime, kMemory, kRelativeMemory, kOom, kCurve, kOther };
MetricKind kind_of(std::string_view metric);

// Is `a` the better one to judge a record by, of two numbers of time? Shorter chains of conversion
// first.
bool is_better_time(std::string_view a, std::string_view b);

// The number under this name that an iteration of so long would have given; the measured iteration
// where the number is the measured one. Skipped where the record lacks what the conversion needs.
std::variant<double, Skipped> from_iteration(const Record& record, std::string_view metric,
                                             Seconds iteration);
std::variant<Seconds, Skipped> to_iteration(const Record& record, std::string_view metric,
                                            double value);

// In GiB.
std::variant<double, Skipped> from_memory(std::string_view metric, const Prediction& prediction);

// Operations of an iteration on all devices: products forward and backward, attention whole (not
// only its causal half), the forward pass twice where it is recomputed; as the constant models
// count them.
std::variant<Flops, Skipped> hardware_flops(const Record& record);

}  // namespace tandem::validate
