// Completions of settings that leave something open, and the groups of devices of complete
// settings. strategies/families.h says which family has which.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "strategies/setting.h"

namespace tandem::strategies {

// Return the completions of a setting of the family. Throw UserError if the machine's devices
// cannot be grouped that way, and name the nearest possible number. complete_ep requires a model
// with experts.
std::vector<Setting> complete_megatron(const Setting& setting, const Problem& problem);
std::vector<Setting> complete_deepspeed(const Setting& setting);
std::vector<Setting> complete_ep(const Setting& setting, const Problem& problem);

// Returns the digits of a complete Megatron setting.
MegatronParts make_megatron_parts(const Setting& setting, const machine::Digits& digits);

// Returns the possible numbers of pipeline stages.
std::set<std::int64_t> list_rank_counts(const machine::Digits& digits);

// Returns every size that a tensor parallel group may have, with the innermost digits of that size.
std::vector<std::pair<std::int64_t, machine::DigitMask>> list_tensor_groups(
    const machine::Digits& digits);

// Returns the numbers of devices that may share a model's experts; only 1 if it has none.
std::set<std::int64_t> list_expert_degrees(const Problem& problem);

// Returns the digits of a context parallel group of `cp` devices: the innermost ones not in
// `taken`.
std::optional<machine::DigitMask> find_context_digits(const machine::Digits& digits,
                                                      std::int64_t cp, machine::DigitMask taken);

// Returns the tensor parallel digits of a complete Megatron setting.
machine::DigitMask find_tensor_digits(const Setting& setting, const machine::Digits& digits);

// Returns the data parallel digits of a complete Megatron setting.
machine::DigitMask find_data_digits(const Setting& setting, const machine::Digits& digits);

}  // namespace tandem::strategies
