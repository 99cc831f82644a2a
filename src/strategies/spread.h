// From what a strategy says about every operator to choices. A strategy only names, for each
// operator, the digits that run along the batch and those that split the layer itself; which
// factors those are, and what follows for the operators after it, is found here.
//
// Splitting a layer: an operator goes on along the factor that its activations are already split
// on; where there is none, or it may not be cut, a layer with weights starts anew. So two products
// in a row are split by columns, then by rows (Megatron), and an activation between them stays
// split. Digits that divide nothing compute redundantly, or do what `rest` says.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "plan/parallelize.h"
#include "strategies/problem.h"

namespace tandem::strategies {

// Which of its factors a layer with weights is split on first.
enum class Start : std::uint8_t {
  kColumns,  // what its activations lack: columns, heads
  kParts,    // what it has several of: tables, experts; else columns; else rows
};

// What the digits do that cannot split an operator.
enum class Rest : std::uint8_t {
  kRedundant,
  kSequence,
  kBatch,
  kIdle,  // only one place has it: tables that do not divide, spread by size (strategies/packing.h)
};

// For one operator. Digits in neither mask compute redundantly.
struct Job {
  machine::DigitMask data = 0;      // along the batch
  machine::DigitMask sequence = 0;  // along the sequence, whatever the operator
  machine::DigitMask split = 0;     // the layer itself
  Start start = Start::kColumns;
  Rest rest = Rest::kRedundant;
  // Its weights are stored in parts over these digits, as far as they would be replicated there,
  // and gathered where they are used.
  machine::DigitMask stored = 0;
};

// Why a strategy cannot be had, and what would help.
struct Refusal {
  std::string message;
  std::string hint;
};

using Choices = std::vector<plan::Choice>;

// Refused only where the batch does not divide.
std::variant<Choices, Refusal> spread(const Problem& problem, const std::vector<Job>& jobs);

// The digits of `among`, from the innermost, whose sizes together divide `size`.
machine::DigitMask dividing_digits(const machine::Digits& digits, machine::DigitMask among,
                                   std::int64_t size);

}  // namespace tandem::strategies
