// Calibrates machines to measurements. For every machine and software among the records it finds
// the machine numbers with which predictions come nearest to the measured iterations. All records
// of a machine and software share these numbers; nothing is fitted to a single record.
//
// Leave-one-model-out fits measure the error on held-out records.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "validate/parameters.h"
#include "validate/validate.h"

namespace tandem::validate {

// Machine and software that share one set of numbers: "dgx_a100", "megatron". Software profiles
// that differ only in one kernel are one stack; the numbers of that kernel are not fitted.
struct Stack {
  std::string family;
  std::string software;
  auto operator<=>(const Stack&) const = default;
};
Stack make_stack(const ValidationJob& job);

struct FittedNumber {
  const Parameter* parameter;
  double value;
};
using FittedNumbers = std::vector<FittedNumber>;

// Returns `machine` with these numbers in place of its own.
machine::Machine with_numbers(machine::Machine machine, const FittedNumbers& numbers);

struct FitOptions {
  std::vector<const Parameter*> parameters;
  std::size_t most =
      120;  // fitted records per stack, balanced over model sizes; all records are judged
  int iterations = 15;
  unsigned threads = 1;
  bool leave_one_out = false;
  std::function<void(const std::string&)> progress;
};

struct StackFit {
  std::size_t n = 0;  // records fitted
  FittedNumbers numbers;
  // Numbers fitted without the records of a model size, by size; empty unless requested.
  std::map<std::string, FittedNumbers> without;
};

// Fits every stack among the records.
std::map<Stack, StackFit> fit(const std::vector<Record>& records, const FitOptions& options);

// Predicts with fitted numbers. Uses those fitted without the record's model size if there are
// such.
Predictor make_fitted_predictor(const std::map<Stack, StackFit>& fits);

// Returns the software profile of a fit in the format of machine files.
std::string format_software_profile(const Stack& stack, const StackFit& fit);

}  // namespace tandem::validate
