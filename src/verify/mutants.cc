#include "verify/mutants.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ops/registry.h"

namespace tandem::verify {

namespace {

using rewrite::Operation;
using rewrite::Rule;
using rewrite::Value;

class Mutator {
 public:
  explicit Mutator(const Rule& rule) : rule_(rule) {}

  std::vector<Rule> run() {
    for (std::size_t n = 0; n < rule_.target.nodes.size(); ++n) {
      const auto& node = rule_.target.nodes[n];
      if (node.is_variable()) {
        change_variable(n);
        continue;
      }
      change_operator(n);
      if (node.inputs.size() == 2 && node.inputs[0] != node.inputs[1]) {
        add_mutant(
            [&](Rule& r) { std::swap(r.target.nodes[n].inputs[0], r.target.nodes[n].inputs[1]); });
      }
      for (std::size_t a = 0; a < node.attributes.size(); ++a) change_attribute(n, a);
    }
    return std::move(out_);
  }

 private:
  template <class Change>
  void add_mutant(Change&& change) {
    Rule mutant = rule_;
    change(mutant);
    mutant.name = fmt::format("{}-mutant-{}", rule_.name, out_.size());
    if (mutant.target == rule_.target) return;
    try {
      rewrite::check_bound(mutant);
    } catch (const UserError&) {
      return;
    }
    out_.push_back(std::move(mutant));
  }

  void change_variable(std::size_t n) {
    for (std::size_t v = 0; v < rule_.tensors.size(); ++v) {
      add_mutant([&](Rule& r) { r.target.nodes[n].variable = static_cast<std::uint16_t>(v); });
    }
  }

  // Changes the operator to the next two in the registry's order with the same attributes and the
  // same number of operands.
  void change_operator(std::size_t n) {
    const auto& spec = *rule_.target.nodes[n].spec;
    const auto all = ops::all_ops();
    const auto self = std::ranges::find(all, &spec) - all.begin();
    int found = 0;
    for (std::size_t i = 1; i < all.size() && found < 2; ++i) {
      const auto* other = all[(static_cast<std::size_t>(self) + i) % all.size()];
      const bool is_compatible =
          other->role == spec.role && other->attributes == spec.attributes &&
          other->attributes_type == spec.attributes_type &&
          other->index_inputs == spec.index_inputs &&
          std::ranges::count(other->index, ',') == std::ranges::count(spec.index, ',');
      if (!is_compatible) continue;
      ++found;
      add_mutant([&](Rule& r) { r.target.nodes[n].spec = other; });
    }
  }

  void change_attribute(std::size_t n, std::size_t a) {
    const auto& e = rule_.target.nodes[n].attributes[a];
    if (e.operation != Operation::kLiteral) return;
    const auto to = [&](const Value& value) {
      try {
        (void)rule_.target.nodes[n].spec->parse(
            {{rule_.target.nodes[n].spec->attributes[a].first, rewrite::to_text(value)}});
      } catch (const UserError&) {
        return;
      }
      add_mutant([&](Rule& r) { r.target.nodes[n].attributes[a].literal = value; });
    };
    if (const auto* i = std::get_if<std::int64_t>(&e.literal)) {
      to(*i + 1);
      to(*i - 1);
    } else if (const auto* text = std::get_if<std::string>(&e.literal)) {
      for (const auto* other : {"relu", "none", "true", "false", "mean", "sum", "\"eye\""}) {
        if (*text != other) to(std::string(other));
      }
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&e.literal)) {
      for (std::size_t d = 0; d < list->size(); ++d) {
        auto changed = *list;
        ++changed[d];
        to(changed);
      }
    }
  }

  const Rule& rule_;
  std::vector<Rule> out_;
};

}  // namespace

std::vector<Rule> make_mutants(const Rule& rule) { return Mutator(rule).run(); }

}  // namespace tandem::verify
