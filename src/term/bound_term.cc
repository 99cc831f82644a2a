#include "term/bound_term.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/check.h"
#include "base/text.h"

namespace tandem::term {

namespace {

class Binder {
 public:
  explicit Binder(const IndexMap& map) : map_(map) {}

  std::uint32_t add(const Term& term) {
    if (const auto known = done_.find(term.get()); known != done_.end()) return known->second;
    BoundNode node{.kind = term->kind,
                   .function = term->function,
                   .has_gradient = term->has_gradient,
                   .has_guard = term->kind == Kind::kMax && term->children.size() > 1,
                   .constant = term->constant,
                   .input = term->input,
                   .origin = term->origin};
    if (node.has_a()) node.free |= out_.nodes[node.a = add(term->children[0])].free;
    if (node.has_b()) node.free |= out_.nodes[node.b = add(term->children[1])].free;
    switch (term->kind) {
      case Kind::kIndex:
      case Kind::kKeep:
        node.dims = parse_factors(term->factors);
        for (auto f : node.dims) node.free |= bit(f);
        break;
      case Kind::kInput:
      case Kind::kInside:
        bind_read(*term, node);
        break;
      case Kind::kExtent:
      case Kind::kSum:
      case Kind::kMax:
        for (auto f : parse_factors(term->factors)) node.over |= bit(f);
        node.free &= ~node.over;
        break;
      default:
        break;
    }
    out_.nodes.push_back(std::move(node));
    const auto id = static_cast<std::uint32_t>(out_.nodes.size() - 1);
    done_.emplace(term.get(), id);
    return id;
  }

  BoundTerm take() { return std::move(out_); }

 private:
  FactorId find_factor(std::string_view name) const {
    const int id = map_.find(name);
    CHECK(id >= 0, "no factor", name);
    return static_cast<FactorId>(id);
  }

  // Returns the factors that `text` names. "... c" expands to the leading factors d0 d1 ... and c.
  std::vector<FactorId> parse_factors(std::string_view text) const {
    std::vector<FactorId> out;
    for (auto word : split_words(text)) {
      if (word != "...") {
        out.push_back(find_factor(word));
        continue;
      }
      for (int d = 0, id = 0; (id = map_.find(fmt::format("d{}", d))) >= 0; ++d) {
        out.push_back(static_cast<FactorId>(id));
      }
    }
    return out;
  }

  void bind_read(const TermNode& term, BoundNode& node) const {
    CHECK(term.input < map_.inputs.size());
    if (term.factors.empty()) {
      for (const auto& dim : map_.inputs[term.input]) node.at.push_back(dim.at);
    } else {
      node.at = parse_read(term.factors, map_);
    }
    CHECK(node.at.size() == map_.inputs[term.input].size(), term.factors);
    for (const auto& index : node.at) {
      for (const auto& part : index.parts) node.free |= bit(part.factor);
    }
  }

  const IndexMap& map_;
  BoundTerm out_;
  std::unordered_map<const TermNode*, std::uint32_t> done_;
};

}  // namespace

BoundTerm bind(const Term& term, const IndexMap& map) {
  Binder binder(map);
  binder.add(term);
  return binder.take();
}

}  // namespace tandem::term
