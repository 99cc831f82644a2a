// Terms: the only definition of what an operator computes.
//
// A term gives the scalar at one index of the output, over the factors of the operator's index
// text:
//
//   linear   sum("k", input(0) * input(1))
//   softmax  exp(x - max) / sum("c", exp(x - max))
//
// Evaluators compute values from terms (term/evaluate.h, in double and in a prime field).
// term/term_analysis.h derives linearity, sums that devices can split, and operation counts.
// `input(i)` reads input i at the index that the index text gives. A read outside an input returns
// zero, so padding and concatenation are sums of shifted reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::term {

enum class Kind : std::uint8_t {
  kConstant,  // number
  kExtent,    // global size of a factor, or the product of several factors' sizes
  kIndex,     // global index along a factor
  kInput,     // element of an input
  kInside,    // 1 if the read is inside the input, else 0
  kKeep,      // 1 with a given probability, else 0: a function of seed, step and global index
  kAdd,
  kMul,
  kDiv,
  kEqual,     // 1 if both sides are equal, else 0
  kLess,      // 1 if the left side is less, else 0
  kFunction,  // scalar function
  kSum,       // sum over one or more factors
  kMax,       // maximum over one or more factors, of the points whose guard is not 0
};

enum class Function : std::uint8_t {
  kRelu,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kSigmoid,
  kErf,
  kSin,
  kCos,
  kAbs
};
std::string_view name(Function f);

struct TermNode;
using Term = std::shared_ptr<const TermNode>;

using InputMask = std::uint64_t;  // a set of inputs, one bit each

// A node of a term's tree. Comments name the kinds that use a field.
struct TermNode {
  Kind kind = Kind::kConstant;
  double constant = 0;  // kConstant; kKeep: the probability
  Function function = Function::kRelu;
  std::size_t input = 0;    // kInput, kInside
  std::int64_t origin = 0;  // kKeep
  // kMax: whether the gradient goes to the first largest element. If not, it is a constant.
  bool has_gradient = false;
  // kIndex: the factor. kExtent, kSum, kMax, kKeep: the factors, separated by blanks; "..." means
  // all leading ones. kInput, kInside: one index per dimension, or empty for the index of the index
  // text.
  std::string factors = {};
  std::vector<Term> children = {};
};

Term constant(double value);
Term extent(std::string factors);
Term index_along(std::string factor);
Term input(std::size_t i);
// Reads input i at the index `at`, written as in index text: input_at(1, "b c-4") is in1[b,c-4].
Term input_at(std::size_t i, std::string at);
// Returns 1 if input(i), or input_at(i, at), reads an element, and 0 if it reads beyond the edge.
Term inside(std::size_t i, std::string at = "");
// Returns 1 with probability `p`, else 0. Equal seed, step, `origin` and global index over
// `factors` give equal values.
Term keep(double p, std::int64_t origin, std::string factors);

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term equal(Term a, Term b);
Term less(Term a, Term b);
// Returns `a` if `condition` is 1 and `b` if it is 0. Both are evaluated.
Term where(const Term& condition, Term a, Term b);
Term apply(Function f, Term a);
Term relu(Term a);
Term exp(Term a);
Term sqrt(Term a);
Term sum(std::string factors, Term body);
// Takes a maximum that is a constant in the backward pass: for shifting exponents. Skips points
// whose `guard` is 0.
Term max_over(std::string factors, Term body, Term guard = nullptr);
// Takes a maximum whose gradient goes to the first largest element, in the order of
// `factors`.
Term pick_max(std::string factors, Term body, Term guard = nullptr);

// Returns the term as text: "sum[k](in0 * in1)".
std::string to_text(const Term& term);

}  // namespace tandem::term
