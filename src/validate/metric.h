// Converts between predictions and measured numbers in the units of papers.
//
// All numbers of time reduce to one, the iteration's. The record's sizes fix the conversion:
// Megatron's tables count operations by their own formula; MFU counts 6 for each parameter and
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
MetricKind find_metric_kind(std::string_view metric);

// Returns whether `a` is preferred to `b` to judge a record, both numbers of time. Shorter
// conversions are preferred.
bool is_better_time(std::string_view a, std::string_view b);

// Convert an iteration time to the metric of this name, and back. Skipped if the record lacks a
// number that the conversion needs.
std::variant<double, Skipped> from_iteration(const Record& record, std::string_view metric,
                                             Seconds iteration);
std::variant<Seconds, Skipped> to_iteration(const Record& record, std::string_view metric,
                                            double value);

// Returns a memory metric of `prediction` in GiB.
std::variant<double, Skipped> from_memory(std::string_view metric, const Prediction& prediction);

// Returns the operations of an iteration on all devices: forward and backward matmuls, full
// attention (not only its causal half), and a second forward pass if it is recomputed. The constant
// baselines use this count.
std::variant<Flops, Skipped> count_hardware_flops(const Record& record);

}  // namespace tandem::validate
