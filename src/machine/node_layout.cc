#include "machine/node_layout.h"

#include <algorithm>
#include <numeric>

namespace tandem::machine {

namespace {

DigitRole to_role(int dim, DigitRole otherwise) {
  return dim >= 0 ? DigitRole::dim(static_cast<std::size_t>(dim)) : otherwise;
}

DigitRole find_input_role(const ops::Signature& s, DigitUse use, std::size_t input) {
  if (use.is_factor()) {
    return to_role(s.map.find_input_dim(input, use.factor()), DigitRole::kReplica);
  }
  if (use.is_through()) {
    const bool carries = ((s.partial_inputs[use.through_set()] >> input) & 1U) != 0;
    return carries ? DigitRole::kPartial : DigitRole::kReplica;
  }
  return use.is_idle() ? DigitRole::idle(use.place()) : DigitRole::kReplica;
}

DigitRole find_output_role(const ops::Signature& s, DigitUse use) {
  if (use.is_factor()) {
    return to_role(s.map.find_output_dim(use.factor()), DigitRole::kPartial);
  }
  if (use.is_through()) return DigitRole::kPartial;
  return use.is_idle() ? DigitRole::idle(use.place()) : DigitRole::kReplica;
}

// Returns the use that explains digit `i` of the operands, given the uses before it in `node`. The
// first use that fits all operands is right. Two different uses differ in some operand, or they are
// factors of one product dimension, of which only one is next.
std::optional<DigitUse> find_digit_use(const ops::Signature& s, std::span<const Layout> inputs,
                                       const NodeLayout& node, const Digits& digits,
                                       std::size_t i) {
  const auto fits = [&](DigitUse use) {
    for (std::size_t n = 0; n < inputs.size(); ++n) {
      if (find_input_role(s, use, n) != inputs[n][i]) return false;
    }
    return true;
  };
  if (fits(DigitUse::kReplica)) return DigitUse::kReplica;
  if (const auto role = inputs[0][i]; role.is_idle()) {
    const auto use = DigitUse::idle(role.place());
    return fits(use) ? std::optional(use) : std::nullopt;
  }
  for (std::size_t set = 0; set < s.partial_inputs.size(); ++set) {
    if (fits(DigitUse::through(set))) return DigitUse::through(set);
  }
  for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
    if (fits(DigitUse::factor(f)) && may_cut_next(s, f, node, digits, i)) {
      return DigitUse::factor(f);
    }
  }
  return std::nullopt;
}

// Calls visit(major) for the factors before `f` in some dimension.
template <class Visit>
void for_each_before(const ops::Signature& s, ops::FactorId f, Visit&& visit) {
  const auto look = [&](const term::Dims& dims) {
    for (const auto& dim : dims) {
      const auto at = std::ranges::find(dim.carriers, f);
      if (at != dim.carriers.end()) std::for_each(dim.carriers.begin(), at, visit);
    }
  };
  std::ranges::for_each(s.map.inputs, look);
  look(s.map.output);
}

DigitMask find_digits_along(const NodeLayout& node, const Digits& digits, ops::FactorId f) {
  DigitMask mask = 0;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (node.uses[i] == DigitUse::factor(f)) mask |= DigitMask{1} << i;
  }
  return mask;
}

// Calls visit(dimension) for operand dimensions that are read in windows along `f`.
template <class Visit>
void for_each_windowed_dim(const ops::Signature& s, ops::FactorId f, Visit&& visit) {
  for (std::size_t i = 0; i < s.map.inputs.size(); ++i) {
    const int d = s.map.find_input_dim(i, f);
    if (d < 0) continue;
    const auto& dim = s.map.inputs[i][static_cast<std::size_t>(d)];
    if (!dim.exact) visit(dim);
  }
}

// Returns whether every window contains an element of the tensor (not so for a concatenation).
bool has_no_empty_window(const ops::IndexMap& map, const term::Dim& dim) {
  auto first_ends = dim.at.constant;  // last index that the first window reads
  auto last_begins = dim.at.constant;
  for (const auto& part : dim.at.parts) {
    const auto reach = part.coefficient * (map.factors[part.factor].size - 1);
    const bool moves = part.factor == dim.carriers[0];
    if (!moves) first_ends += std::max(reach, std::int64_t{0});
    last_begins += moves ? reach : std::min(reach, std::int64_t{0});
  }
  return first_ends >= 0 && last_begins < dim.size;
}

}  // namespace

bool may_cut(const ops::Signature& s, ops::FactorId f) {
  const auto use = s.use[f];
  if (use == ops::FactorUse::kWhole) return false;
  if (use == ops::FactorUse::kParallel) return true;  // not in windows
  bool reads = true;
  for_each_windowed_dim(
      s, f, [&](const term::Dim& dim) { reads = reads && has_no_empty_window(s.map, dim); });
  if (!reads) return false;
  return use != ops::FactorUse::kReducing || s.monoid != Monoid::kMax;
}

bool is_minor(const ops::Signature& s, ops::FactorId f) {
  bool found = false;
  for_each_before(s, f, [&](ops::FactorId) { found = true; });
  return found;
}

bool may_cut_next(const ops::Signature& s, ops::FactorId f, const NodeLayout& node,
                  const Digits& digits, std::size_t i) {
  if (s.map.factors[f].size % digits[i].size != 0 || !may_cut(s, f)) return false;
  const auto mask_before = (DigitMask{1} << i) - 1;
  const auto all = find_digits_along(node, digits, f);
  if (compute_divisible_size(s, f) % (digits.group_size(all) * digits[i].size) != 0) return false;
  bool used_up = true;
  for_each_before(s, f, [&](ops::FactorId major) {
    const auto degree = digits.group_size(find_digits_along(node, digits, major) & mask_before);
    used_up = used_up && degree == s.map.factors[major].size;
  });
  return used_up;
}

bool may_cut_in_shards(const ops::Signature& s, ops::FactorId f) {
  return s.use[f] != ops::FactorUse::kWindowed && may_cut(s, f);
}

std::int64_t compute_divisible_size(const ops::Signature& s, ops::FactorId f) {
  auto out = s.map.factors[f].size;
  if (s.use[f] == ops::FactorUse::kParallel) return out;
  for_each_windowed_dim(s, f, [&](const term::Dim& dim) { out = std::gcd(out, dim.size); });
  return out;
}

Layout compute_input_layout(const ops::Signature& s, const NodeLayout& node, std::size_t digits,
                            std::size_t input) {
  Layout out(digits, DigitRole::kIdle);
  for (std::size_t i = 0; i < digits; ++i) out.set(i, find_input_role(s, node.uses[i], input));
  return out;
}

Layout compute_output_layout(const ops::Signature& s, const NodeLayout& node, std::size_t digits) {
  Layout out(digits, DigitRole::kIdle);
  for (std::size_t i = 0; i < digits; ++i) out.set(i, find_output_role(s, node.uses[i]));
  return out;
}

std::optional<NodeLayout> infer_node_layout(const ops::Signature& s, std::span<const Layout> inputs,
                                            const Digits& digits) {
  NodeLayout out;
  for (std::size_t i = 0; i < inputs[0].count(); ++i) {
    const auto use = find_digit_use(s, inputs, out, digits, i);
    if (!use) return std::nullopt;
    out.uses[i] = *use;
  }
  return out;
}

std::vector<term::FactorRange> compute_slot_ranges(const ops::Signature& s, const NodeLayout& node,
                                                   const Digits& digits, std::int64_t slot) {
  std::vector<term::FactorRange> out;
  for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
    const auto mask = find_digits_along(node, digits, f);
    const auto size = s.map.factors[f].size;
    const auto local = size / digits.group_size(mask);
    out.push_back({local, size, digits.rank_in_group(slot, mask) * local});
  }
  return out;
}

}  // namespace tandem::machine
