#include "term/term.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace tandem::term {

std::string_view name(Function f) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "relu", "exp", "log", "sqrt", "tanh", "sigmoid", "erf", "sin", "cos", "abs"};
  return kNames[static_cast<std::size_t>(f)];
}

namespace {
Term make_term(TermNode node) { return std::make_shared<const TermNode>(std::move(node)); }

Term make_binary(Kind kind, Term a, Term b) {
  TermNode node{.kind = kind};
  node.children = {std::move(a), std::move(b)};
  return make_term(std::move(node));
}

Term make_reduction(TermNode node, Term body, Term guard) {
  node.children = {std::move(body)};
  if (guard) node.children.push_back(std::move(guard));
  return make_term(std::move(node));
}
}  // namespace

Term constant(double value) { return make_term({.kind = Kind::kConstant, .constant = value}); }
Term extent(std::string factors) {
  return make_term({.kind = Kind::kExtent, .factors = std::move(factors)});
}
Term index_along(std::string factor) {
  return make_term({.kind = Kind::kIndex, .factors = std::move(factor)});
}
Term input(std::size_t i) { return make_term({.kind = Kind::kInput, .input = i}); }
Term input_at(std::size_t i, std::string at) {
  return make_term({.kind = Kind::kInput, .input = i, .factors = std::move(at)});
}
Term inside(std::size_t i, std::string at) {
  return make_term({.kind = Kind::kInside, .input = i, .factors = std::move(at)});
}
Term keep(double p, std::int64_t origin, std::string factors) {
  return make_term(
      {.kind = Kind::kKeep, .constant = p, .origin = origin, .factors = std::move(factors)});
}

Term operator+(Term a, Term b) { return make_binary(Kind::kAdd, std::move(a), std::move(b)); }
Term operator-(Term a, Term b) { return std::move(a) + constant(-1) * std::move(b); }
Term operator*(Term a, Term b) { return make_binary(Kind::kMul, std::move(a), std::move(b)); }
Term operator/(Term a, Term b) { return make_binary(Kind::kDiv, std::move(a), std::move(b)); }
Term equal(Term a, Term b) { return make_binary(Kind::kEqual, std::move(a), std::move(b)); }
Term less(Term a, Term b) { return make_binary(Kind::kLess, std::move(a), std::move(b)); }
Term where(const Term& condition, Term a, Term b) {
  return condition * std::move(a) + (constant(1) - condition) * std::move(b);
}
Term apply(Function f, Term a) {
  TermNode node{.kind = Kind::kFunction, .function = f};
  node.children = {std::move(a)};
  return make_term(std::move(node));
}
Term relu(Term a) { return apply(Function::kRelu, std::move(a)); }
Term exp(Term a) { return apply(Function::kExp, std::move(a)); }
Term sqrt(Term a) { return apply(Function::kSqrt, std::move(a)); }
Term sum(std::string factors, Term body) {
  return make_reduction({.kind = Kind::kSum, .factors = std::move(factors)}, std::move(body),
                        nullptr);
}
Term max_over(std::string factors, Term body, Term guard) {
  return make_reduction({.kind = Kind::kMax, .factors = std::move(factors)}, std::move(body),
                        std::move(guard));
}
Term pick_max(std::string factors, Term body, Term guard) {
  return make_reduction({.kind = Kind::kMax, .has_gradient = true, .factors = std::move(factors)},
                        std::move(body), std::move(guard));
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
    case Kind::kInput:
    case Kind::kInside: {
      const auto read = term->factors.empty() ? fmt::format("in{}", term->input)
                                              : fmt::format("in{}[{}]", term->input, term->factors);
      return term->kind == Kind::kInput ? read : fmt::format("inside({})", read);
    }
    case Kind::kKeep:
      return fmt::format("keep({}, {})", term->constant, term->origin);
    case Kind::kAdd:
      return fmt::format("({} + {})", child(0), child(1));
    case Kind::kMul:
      return fmt::format("{} * {}", child(0), child(1));
    case Kind::kDiv:
      return fmt::format("{} / ({})", child(0), child(1));
    case Kind::kEqual:
      return fmt::format("[{} = {}]", child(0), child(1));
    case Kind::kLess:
      return fmt::format("[{} < {}]", child(0), child(1));
    case Kind::kFunction:
      return fmt::format("{}({})", name(term->function), child(0));
    case Kind::kSum:
      return fmt::format("sum[{}]({})", term->factors, child(0));
    case Kind::kMax:
      return fmt::format("{}[{}]({}{})", term->has_gradient ? "pick_max" : "max", term->factors,
                         child(0), term->children.size() > 1 ? " if " + child(1) : "");
  }
  CHECK(false);
}

}  // namespace tandem::term
