// Terms: the one place where an operator's meaning is written.
//
// A term is the scalar at one index of the output, over the factors of the operator's index text:
//
//   linear   sum("k", input(0) * input(1))
//   softmax  exp(x - max) / sum("c", exp(x - max))
//
// Evaluators read terms: numbers (term/evaluate.h, in double and in a prime field), structure
// (term/structure.h: what is linear, what may be summed in parts, how many operations), text.
// `input(i)` reads input i where its index text says; reads outside an input are zero, so padding
// and concatenation are sums of shifted reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::term {

enum class Kind : std::uint8_t {
  kConstant,  // a number
  kExtent,    // the global size of a factor, or of several together
  kIndex,     // the global index along a factor
  kInput,     // an element of an input
  kInside,    // 1 where that read is inside the input, else 0
  kKeep,      // 1 with a given probability, else 0: a function of seed, step and global index
  kAdd,
  kMul,
  kDiv,
  kEqual,     // 1 where both sides are equal, else 0
  kLess,      // 1 where the left side is less, else 0
  kFunction,  // a scalar function
  kSum,       // over one or more factors
  kMax,       // over one or more factors, where a guard is not 0
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

using InputMask = std::uint64_t;  // a set of operands, a bit each

struct TermNode {
  Kind kind = Kind::kConstant;
  double constant = 0;  // kConstant; kKeep: the probability
  Function function = Function::kRelu;
  std::size_t input = 0;    // kInput, kInside
  std::int64_t origin = 0;  // kKeep
  // kMax: is the gradient that of the first largest element? Else the maximum counts as a constant.
  bool has_gradient = false;
  // kIndex: the factor. kExtent, kSum, kMax, kKeep: the factors, separated by blanks; "..." is all
  // leading ones. kInput, kInside: empty for the index text's own, else an index per dimension.
  std::string factors = {};
  std::vector<Term> children = {};
};

Term constant(double value);
Term extent(std::string factors);
Term index_of(std::string factor);
Term input(std::size_t i);
// Input i read at the index `at`, written as in index text: input_at(1, "b c-4") is in1[b, c - 4].
Term input_at(std::size_t i, std::string at);
// 1 where input(i), or input_at(i, at), reads an element, 0 where it reads beyond the edge.
Term inside(std::size_t i, std::string at = "");
// 1 with probability `p`. Equal for equal seed, step, `origin` and global index over `factors`.
Term keep(double p, std::int64_t origin, std::string factors);

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term equal(Term a, Term b);
Term less(Term a, Term b);
// Where `condition` (0 or 1) is 1 `a`, else `b`. Both are evaluated.
Term where(const Term& condition, Term a, Term b);
Term apply(Function f, Term a);
Term relu(Term a);
Term exp(Term a);
Term sqrt(Term a);
Term sum(std::string factors, Term body);
// A constant in the backward pass: for shifting exponents. Points where `guard` is 0 do not count.
Term max_over(std::string factors, Term body, Term guard = nullptr);
// The gradient goes to the first largest element, in the order of `factors`.
Term pick_max(std::string factors, Term body, Term guard = nullptr);

// "sum[k](in0 * in1)"
std::string to_text(const Term& term);

}  // namespace tandem::term
