// Calibrates machines to measurements: for every machine and software among the records, the
// numbers of the machine that make predictions come nearest to the measured iterations. One set of
// numbers for all records of a machine and software; nothing is fitted to a single record.
//
// How well that predicts what was not fitted is judged by leaving out one model at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "validate/parameters.h"
#include "validate/validate.h"

namespace tandem::validate {

// Machine and software: "dgx_a100", "megatron". What one set of numbers is for. Sections that
// differ in one kernel are one stack: what they differ in is not fitted.
struct Stack {
  std::string family;
  std::string software;
  auto operator<=>(const Stack&) const = default;
};
Stack stack_of(const Job& job);

struct FittedNumber {
  const Parameter* parameter;
  double value;
};
using FittedNumbers = std::vector<FittedNumber>;

// A machine with these numbers in place of its own.
machine::Machine with_numbers(machine::Machine machine, const FittedNumbers& numbers);

struct FitOptions {
  std::vector<const Parameter*> parameters;
  std::size_t most = 120;  // records of a stack that are fitted, of each size alike; all are judged
  int iterations = 15;
  unsigned threads = 1;
  bool leave_one_out = false;
  std::function<void(const std::string&)> progress;
};

struct StackFit {
  std::size_t n = 0;  // records fitted
  FittedNumbers numbers;
  // By size of model, fitted without its records; empty unless asked for.
  std::map<std::string, FittedNumbers> without;
};

std::map<Stack, StackFit> fit(const std::vector<Record>& records, const FitOptions& options);

// Predicts with fitted numbers: those fitted without the record's model where there are such.
Predictor fitted_predictor(const std::map<Stack, StackFit>& fits);

// The lines of a software section of a machine file.
std::string section_text(const Stack& stack, const StackFit& fit);

}  // namespace tandem::validate
