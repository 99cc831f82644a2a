// Turns the digits that a strategy names for every operator into choices. A strategy only names the
// digits that split the batch and those that split the layer itself. This file finds the factors to
// split, and the layouts of the operators that follow.
//
// An operator stays split along the factor that already splits its activations. If there is none,
// or it may not be split, a layer with weights starts anew. So two successive matmuls are
// column-parallel, then row-parallel (Megatron), and an activation function between them stays
// split. Digits that divide nothing compute redundantly, or do what `rest` says.
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
machine::DigitMask find_dividing_digits(const machine::Digits& digits, machine::DigitMask among,
                                        std::int64_t size);

}  // namespace tandem::strategies
