// Builds a small plan that acts like a large one: fewer digits, micro-batches and elements, but the
// same operators, layouts and movements. An error of one shows in the other, unless it takes more
// devices or elements than are left.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"

namespace tandem::check {

// The digits of a plan that are retained, with their new sizes.
struct RetainedDigits {
  struct RetainedDigit {
    std::size_t digit = 0;
    std::int64_t size = 1;
  };
  std::vector<RetainedDigit> space;
  std::int64_t micro_batches = 1;
};

constexpr std::int64_t kMostDevices = 64;
constexpr std::int64_t kFewestDevices = 4;

// Returns all digits if they make at most `most_devices` devices. Otherwise keeps the pipeline's
// digits, and one digit of each set that acts equally on every tensor. If these are still too many,
// groups them and returns a choice for every two groups, so that any two digits meet in one choice.
std::vector<RetainedDigits> choose_digits(const plan::MappedGraph& mapped,
                                          const machine::Digits& digits,
                                          std::int64_t most_devices = kMostDevices);

struct Small {
  plan::MappedGraph mapped;
  machine::Digits digits;
};

// Builds a small copy of a plan. Each dimension becomes the least multiple of the degrees along it
// and along all dimensions tied to it by operators. `twice` doubles that size if the original is as
// large. Tied dimensions of different sizes (windows, concatenations) shrink by a common divisor.
// Dimensions that an attribute fixes keep their size. Returns nullopt if an operator cannot be made
// small.
std::optional<Small> shrink(const plan::MappedGraph& mapped, const RetainedDigits& retained,
                            bool twice);

// Returns roughly how many terms all devices together evaluate in a forward pass.
double estimate_work(const Small& small);

}  // namespace tandem::check
