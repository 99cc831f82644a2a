// A small plan that does what a large one does: fewer digits, micro-batches and elements, the same
// operators, layouts and movements. What one of them computes wrongly the other does, too, unless
// it takes more devices or elements than are left to see it.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"

namespace tandem::check {

// Which digits of a plan are kept, and of what size.
struct KeptDigits {
  struct Kept {
    std::size_t digit = 0;
    std::int64_t size = 1;
  };
  std::vector<Kept> space;
  std::int64_t micro_batches = 1;
};

constexpr std::int64_t kMostDevices = 64;
constexpr std::int64_t kFewestDevices = 4;

// All digits, if that is at most so many devices. Else those of the pipeline, and one of those that
// do the same to every tensor. Where these are too many still, a choice for every two groups of
// them: any two digits are together in one.
std::vector<KeptDigits> choose_digits(const plan::MappedGraph& mapped,
                                      const machine::Digits& digits,
                                      std::int64_t most_devices = kMostDevices);

struct Small {
  plan::MappedGraph mapped;
  machine::Digits digits;
};

// Every dimension becomes the least multiple of the degrees along it, and along all dimensions tied
// to it by operators, times 2 with `twice` where it was so large. Dimensions of different sizes
// that are tied (windows, concatenations) shrink by a common divisor; those that an attribute fixes
// keep their size. Nothing where an operator cannot be made small.
std::optional<Small> shrink(const plan::MappedGraph& mapped, const KeptDigits& kept, bool twice);

// How many terms all devices together evaluate in a forward pass, about.
double work_of(const Small& small);

}  // namespace tandem::check
