#include "term/term.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace tandem::term {

std::string_view name(Function f) {
  switch (f) {
    case Function::kRelu:
      return "relu";
    case Function::kExp:
      return "exp";
    case Function::kSqrt:
      return "sqrt";
  }
  CHECK(false);
}

namespace {
Term make(TermNode node) { return std::make_shared<const TermNode>(std::move(node)); }

Term binary(Kind kind, Term a, Term b) {
  TermNode node{.kind = kind};
  node.children = {std::move(a), std::move(b)};
  return make(std::move(node));
}

Term apply(Function f, Term a) {
  TermNode node{.kind = Kind::kFunction, .function = f};
  node.children = {std::move(a)};
  return make(std::move(node));
}

Term reduce(Kind kind, std::string factors, Term body) {
  TermNode node{.kind = kind, .factors = std::move(factors)};
  node.children = {std::move(body)};
  return make(std::move(node));
}
}  // namespace

Term constant(double value) { return make({.kind = Kind::kConstant, .constant = value}); }
Term extent(std::string factors) {
  return make({.kind = Kind::kExtent, .factors = std::move(factors)});
}
Term index_of(std::string factor) {
  return make({.kind = Kind::kIndex, .factors = std::move(factor)});
}
Term input(std::size_t i) { return make({.kind = Kind::kInput, .input = i}); }
Term input_at(std::size_t i, std::string factors, std::size_t shifted,
              std::vector<std::string> skip) {
  return make({.kind = Kind::kInput,
               .input = i,
               .factors = std::move(factors),
               .shifted = shifted,
               .skip = std::move(skip)});
}

Term operator+(Term a, Term b) { return binary(Kind::kAdd, std::move(a), std::move(b)); }
Term operator-(Term a, Term b) { return std::move(a) + constant(-1) * std::move(b); }
Term operator*(Term a, Term b) { return binary(Kind::kMul, std::move(a), std::move(b)); }
Term operator/(Term a, Term b) { return binary(Kind::kDiv, std::move(a), std::move(b)); }
Term equal(Term a, Term b) { return binary(Kind::kEqual, std::move(a), std::move(b)); }
Term relu(Term a) { return apply(Function::kRelu, std::move(a)); }
Term exp(Term a) { return apply(Function::kExp, std::move(a)); }
Term sqrt(Term a) { return apply(Function::kSqrt, std::move(a)); }
Term sum(std::string factors, Term body) {
  return reduce(Kind::kSum, std::move(factors), std::move(body));
}
Term max_over(std::string factors, Term body) {
  return reduce(Kind::kMax, std::move(factors), std::move(body));
}

std::string to_text(const Term& term) {
  const auto child = [&](std::size_t i) { return to_text(term->children[i]); };
  switch (term->kind) {
    case Kind::kConstant:
      return fmt::format("{}", term->constant);
    case Kind::kExtent:
      return fmt::format("|{}|", term->factors);
    case Kind::kIndex:
      return term->factors;
    case Kind::kInput: {
      if (term->factors.empty()) return fmt::format("in{}", term->input);
      std::string at = term->factors;
      if (!term->skip.empty()) at += fmt::format("; dim {}", term->shifted);
      for (const auto& s : term->skip) at += fmt::format(" - |{}|", s);
      return fmt::format("in{}[{}]", term->input, at);
    }
    case Kind::kAdd:
      return fmt::format("({} + {})", child(0), child(1));
    case Kind::kMul:
      return fmt::format("{} * {}", child(0), child(1));
    case Kind::kDiv:
      return fmt::format("{} / ({})", child(0), child(1));
    case Kind::kEqual:
      return fmt::format("[{} = {}]", child(0), child(1));
    case Kind::kFunction:
      return fmt::format("{}({})", name(term->function), child(0));
    case Kind::kSum:
      return fmt::format("sum[{}]({})", term->factors, child(0));
    case Kind::kMax:
      return fmt::format("max[{}]({})", term->factors, child(0));
  }
  CHECK(false);
}

}  // namespace tandem::term
