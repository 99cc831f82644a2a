// Converts the digits that a strategy names for every operator to choices. A strategy only names
// the digits that split the batch and those that split the layer itself. This file finds the
// factors to split, and the layouts of the operators that follow.
//
// An operator stays split along the factor that already splits its activations. If there is none,
// or it may not be split, a layer with weights starts a new group. So two successive matmuls are
// column-parallel, then row-parallel (Megatron), and an activation function between them stays
// split. Digits that divide nothing compute redundantly, or do what `rest` says.
//
// Example: two devices split linear 1 (w1 [4096, 1024]), relu and linear 2 (w2 [1024, 4096]). Each
// device has [2048, 1024] of w1, computes 2048 columns up to the relu, and has [1024, 2048] of w2.
// The results of linear 2 are partial sums.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "plan/parallelize.h"
#include "strategies/problem.h"

namespace tandem::strategies {

// The factor that a layer with weights is split on first.
enum class Start : std::uint8_t {
  kColumns,  // columns or heads, which its activations lack
  kParts,    // tables or experts; else columns; else rows
};

// The use of digits that cannot split an operator.
enum class Rest : std::uint8_t {
  kRedundant,
  kSequence,
  kBatch,
  kIdle,  // one place computes it: tables that do not divide, packed by size (strategies/packing.h)
};

// The digits of one operator. Digits in none of the masks compute redundantly.
struct OperatorDigits {
  machine::DigitMask data = 0;      // along the batch
  machine::DigitMask sequence = 0;  // along the sequence, for any operator
  machine::DigitMask split = 0;     // the layer itself
  Start start = Start::kColumns;
  Rest rest = Rest::kRedundant;
  // Digits that shard its weights, as far as they would replicate them. The weights are gathered
  // for use.
  machine::DigitMask stored = 0;
};

// The reason why a strategy is impossible, and what would help.
struct Refusal {
  std::string message;
  std::string hint;
};

using Choices = std::vector<plan::Choice>;

// Returns the choices of `jobs`, which are by node. Refuses only if the batch does not divide.
std::variant<Choices, Refusal> spread(const Problem& problem,
                                      const std::vector<OperatorDigits>& jobs);

// Returns the innermost digits of `among` whose sizes together divide `size`.
//   digits of sizes 2, 2 and 3: size 12 -> all, size 6 -> the last two
machine::DigitMask find_dividing_digits(const machine::Digits& digits, machine::DigitMask among,
                                        std::int64_t size);

}  // namespace tandem::strategies
