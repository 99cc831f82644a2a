// Terms: the one place where an operator's meaning is written.
//
// A term is the scalar at one index of the output, over the factors of the operator's index text:
//
//   linear   sum("k", input(0) * input(1))
//   softmax  exp(x - max) / sum("c", exp(x - max))
//
// Evaluators read terms: numbers (term/evaluate.h, in double and in a prime field), structure
// (term/structure.h: what is linear, what may be summed in parts, how many operations), text.
// `input(i)` reads input i at the factors its index text names; reads outside an input are zero,
// so padding and concatenation are sums of shifted reads.
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
  kAdd,
  kMul,
  kDiv,
  kEqual,     // 1 where both sides are equal, else 0
  kFunction,  // a scalar function
  kSum,       // over one or more factors
  kMax,       // over one or more factors; a constant in the backward pass
};

enum class Function : std::uint8_t { kRelu, kExp, kSqrt };
std::string_view name(Function f);

struct TermNode;
using Term = std::shared_ptr<const TermNode>;

using InputMask = std::uint64_t;  // a set of operands, a bit each

struct TermNode {
  Kind kind = Kind::kConstant;
  double constant = 0;
  Function function = Function::kRelu;
  std::size_t input = 0;
  // kIndex: the factor. kExtent, kSum, kMax: the factors, separated by blanks; "..." is all leading
  // ones. kInput: empty for the index text's own factors, else those to read at.
  std::string factors = {};
  // kInput read at other factors: the sizes of these are subtracted from the index of `shifted`.
  std::size_t shifted = 0;
  std::vector<std::string> skip = {};
  std::vector<Term> children = {};
};

Term constant(double value);
Term extent(std::string factors);
Term index_of(std::string factor);
Term input(std::size_t i);
// Input i read at `factors`, the index of dimension `shifted` lowered by the sizes of `skip`:
// input_at(1, "b c", 1, {"c0"}) is in1[b, c - |c0|].
Term input_at(std::size_t i, std::string factors, std::size_t shifted,
              std::vector<std::string> skip);

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term equal(Term a, Term b);
Term relu(Term a);
Term exp(Term a);
Term sqrt(Term a);
Term sum(std::string factors, Term body);
Term max_over(std::string factors, Term body);

// "sum[k](in0 * in1)"
std::string to_text(const Term& term);

}  // namespace tandem::term
