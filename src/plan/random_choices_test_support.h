// Test support: small random models, random legal choices for them, and choices by the names of
// factors.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "graph/graph.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "plan/parallelize.h"

namespace tandem::plan {

// Returns a machine with one level for each count, and no performance figures.
inline machine::Machine make_machine(const std::vector<std::int64_t>& counts) {
  machine::Machine out;
  for (auto count : counts) out.levels.emplace_back().count = count;
  return out;
}
inline machine::Digits make_digits(const std::vector<std::int64_t>& counts,
                                   std::int64_t micro_batches = 1) {
  return machine::Digits(make_machine(counts), micro_batches);
}

// --- Models: `n` is the number of devices, which divides most sizes ------------------------------

inline graph::Graph random_mlp(std::int64_t n, std::mt19937_64& random) {
  graph::GraphBuilder b("mlp");
  auto h = b.input("x", {n, 2 * n}, DType::kFp32);
  const auto layers = 1 + random() % 3;
  std::int64_t width = 2 * n;
  for (std::uint64_t l = 0; l < layers; ++l) {
    const std::int64_t out = l + 1 == layers || random() % 2 == 0 ? 2 * n : n;
    const auto w = b.weight(fmt::format("w{}", l), {out, width}, DType::kFp32);
    const auto skip = h;
    switch (random() % 3) {
      case 0:
        h = b.add(ops::kLinear, {h, w});
        break;
      case 1:
        h = b.add(ops::make_op(ops::kLinear, ops::LinearAttributes{ops::Activation::kRelu}),
                  {h, w});
        break;
      default:
        h = b.add(ops::kLinear, {h, w, b.weight(fmt::format("b{}", l), {out}, DType::kFp32)});
    }
    if (out == width && random() % 2 == 0) h = b.add(ops::kAdd, {skip, h});
    width = out;
  }
  return b.finish({b.add(ops::kMse, {h, b.input("target", {n, width}, DType::kFp32)}, "loss")});
}

inline graph::Graph random_attention(std::int64_t n, std::mt19937_64& random) {
  graph::GraphBuilder b("attention");
  const std::int64_t d = 2;
  const std::int64_t e = random() % 2 == 0 ? n : 6;
  const auto x = b.input("x", {2, n, e}, DType::kFp32);
  const auto contract = [&](const char* index, graph::NodeId lhs, graph::NodeId rhs,
                            double scale = 1) {
    return b.add(ops::make_op(ops::kContract, ops::Contract{index, scale}), {lhs, rhs});
  };
  const auto scale = b.weight("scale", {e}, DType::kFp32);
  const auto shift = b.weight("shift", {e}, DType::kFp32);
  const auto normal = b.add(ops::kLayerNorm, {x, scale, shift});
  // There is one head of keys and values for each head of queries, or one for each group of them.
  const bool grouped = random() % 2 == 0;
  const std::int64_t kv = grouped && n % 2 == 0 ? 2 : n;
  const std::int64_t heads = grouped ? kv * std::max<std::int64_t>(n / kv, 2) : n;
  const auto project = [&](const char* name, std::int64_t count) {
    return contract("b s i, h d i -> b h s d", normal, b.weight(name, {count, d, e}, DType::kFp32));
  };
  const auto q = project("wq", heads);
  const auto k = project("wk", kv);
  const auto v = project("wv", kv);
  const auto* scores =
      grouped ? "b (kv g) s d, b kv t d -> b (kv g) s t" : "b h s d, b h t d -> b h s t";
  const auto* mixing =
      grouped ? "b (kv g) s t, b kv t d -> b (kv g) s d" : "b h s t, b h t d -> b h s d";
  const auto p = b.add(ops::kSoftmax, {contract(scores, q, k, 0.125)});
  const auto mixed = contract(mixing, p, v);
  const auto out =
      contract("b h s d, h d e -> b s e", mixed, b.weight("wo", {heads, d, e}, DType::kFp32));
  const auto sum = b.add(ops::kAdd, {x, out});
  return b.finish({b.add(ops::kMse, {sum, b.input("target", {2, n, e}, DType::kFp32)}, "loss")});
}

inline graph::Graph random_tables(std::int64_t n, std::mt19937_64& random) {
  graph::GraphBuilder b("tables");
  std::vector<graph::NodeId> parts;
  const auto count = 1 + random() % 3;
  for (std::uint64_t t = 0; t < count; ++t) {
    const std::int64_t rows = random() % 2 == 0 ? 2 * n : n;
    const auto index = b.input(fmt::format("i{}", t), {2 * n, 2}, DType::kInt64, rows);
    const auto table = b.weight(fmt::format("t{}", t), {rows, n}, DType::kFp32);
    parts.push_back(b.add(ops::kEmbeddingBag, {index, table}));
  }
  const auto all = b.add(ops::make_op(ops::kConcat, ops::Concat{1}), parts);
  const auto width = static_cast<std::int64_t>(count) * n;
  const auto h = b.add(ops::kLinear, {all, b.weight("w", {n, width}, DType::kFp32)});
  const auto y = b.add(ops::kRelu, {h});
  return b.finish({b.add(ops::kMse, {y, b.input("target", {2 * n, n}, DType::kFp32)}, "loss")});
}

// Returns a random network of convolutions and pooling; `n` divides most sides of its images.
inline graph::Graph random_image(std::int64_t n, std::mt19937_64& random,
                                 DType type = DType::kFp32) {
  graph::GraphBuilder b("image");
  const auto pick = [&](const std::vector<std::int64_t>& from) {
    return from[random() % from.size()];
  };
  auto h = b.input("x", {2, 2, n * pick({2, 3, 4}), n * pick({2, 3})}, type);
  const auto shape = [&] { return b.node(h).type.shape; };
  const auto layers = 1 + random() % 3;
  for (std::uint64_t l = 0; l < layers; ++l) {
    // Most kernels do not fit, or leave sides that cannot be partitioned.
    for (int attempt = 0; attempt < 40; ++attempt) {
      const bool pools = random() % 3 == 0;
      const ops::Sizes kernel = {pick({1, 2, 3, 5}), pick({1, 3})};
      const ops::Sizes stride = {pick({1, 2}), pick({1, 2})};
      const ops::Sizes dilation = {pools ? 1 : pick({1, 2}), 1};
      const ops::Sizes padding = {pick({0, 1, 2}), pick({0, 1})};
      const auto fits = [&](std::size_t d) {
        const auto room = shape().sizes[2 + d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
        return room >= 0 && (room / stride[d] + 1) % n == 0 && (!pools || padding[d] < kernel[d]);
      };
      if (!fits(0) || !fits(1)) continue;
      if (pools) {
        const ops::Pool2d pool{.kernel = kernel, .stride = stride, .padding = padding};
        h = b.add(ops::make_op(random() % 2 == 0 ? ops::kMaxPool2d : ops::kAvgPool2d, pool), {h});
      } else {
        const ops::Conv2d conv{.stride = stride, .padding = padding, .dilation = dilation};
        const auto w = b.weight(fmt::format("w{}", l), {2, 2, kernel[0], kernel[1]}, type);
        h = b.add(ops::make_op(ops::kConv2d, conv), {h, w});
      }
      break;
    }
    if (random() % 2 == 0) h = b.add(ops::kRelu, {h});
  }
  const auto size = shape().sizes;
  const auto shift = b.weight("shift", {size[1], size[2], size[3]}, type);
  h = b.add(ops::kAdd, {h, shift});
  return b.finish({b.add(ops::kMse, {h, b.input("target", shape(), type)}, "loss")});
}

// Returns one of the first three models.
inline graph::Graph random_model(std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  switch (seed % 3) {
    case 0:
      return random_mlp(n, random);
    case 1:
      return random_attention(n, random);
    default:
      return random_tables(n, random);
  }
}

// --- Random legal choices ------------------------------------------------------------------------

// Chooses a random legal layout for every node of a model.
class Chooser {
 public:
  Chooser(const graph::Graph& model, const machine::Digits& digits, std::uint64_t seed,
          const Schedule& schedule = {})
      : model_(model), digits_(digits), schedule_(schedule), random_(seed) {}

  std::vector<Choice> run() {
    layouts_.resize(model_.size());
    choose_stages();
    for (auto id : model_.ids()) {
      const bool source = model_.node(id).op.role() == ops::Role::kSource;
      choices_.push_back(source ? choose_source(id) : choose_compute(id));
      choices_.back().stage = stage_[id.index()];
      choices_.back().recompute = schedule_.micro_batches > 1 && chance(0.4);
    }
    return choices_;
  }
  // Returns the number of digits that carry partial sums through an operator.
  [[nodiscard]] int through_count() const { return through_count_; }

 private:
  bool chance(double p) { return static_cast<double>(random_() >> 11U) * 0x1p-53 < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }

  // Chooses stages such that no operator is in an earlier stage than its inputs. A source is in the
  // stage of its first user.
  void choose_stages() {
    const auto last = static_cast<std::uint16_t>(schedule_.stages - 1);
    stage_.assign(model_.size(), last);
    std::uint16_t now = 0;
    for (auto id : model_.ids()) {
      if (model_.node(id).op.role() == ops::Role::kSource) continue;
      if (now < last && chance(2.0 * last / static_cast<double>(model_.size()))) ++now;
      stage_[id.index()] = now;
      for (auto i : model_.inputs(id)) {
        if (model_.node(i).op.role() != ops::Role::kSource) continue;
        stage_[i.index()] = std::min(stage_[i.index()], now);
      }
    }
  }

  [[nodiscard]] std::optional<machine::DigitRole> fixed_role(graph::NodeId id, std::size_t digit) {
    if (digits_[digit].level == machine::kTimeLevel) {
      const auto& node = model_.node(id);
      return is_weight(node) ? machine::DigitRole::kReplica : machine::DigitRole::dim(0);
    }
    if ((schedule_.digits >> digit & 1U) == 0) return std::nullopt;
    const auto rank = stage_[id.index()] % digits_.group_size(schedule_.digits);
    return machine::DigitRole::idle(digits_.coordinate_of_rank(rank, schedule_.digits, digit));
  }

  // Returns the use of the time digit: micro-batches split the factor along which the operands are
  // split.
  [[nodiscard]] machine::DigitUse time_use(graph::NodeId id, const ops::Signature& s) const {
    for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
      const auto role = layouts_[model_.inputs(id)[i].index()][0];
      if (role.is_dim()) return machine::DigitUse::factor(s.map.inputs[i][role.dim()].carriers[0]);
    }
    return machine::DigitUse::kReplica;
  }

  std::int64_t random_place(std::size_t digit) {
    return static_cast<std::int64_t>(random_()) & 1 ? 0 : digits_[digit].size - 1;
  }

  Choice choose_source(graph::NodeId id) {
    Shape left = model_.node(id).type.shape.sizes;
    machine::Layout layout(digits_.count(), machine::DigitRole::kReplica);
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (const auto role = fixed_role(id, i)) {
        if (role->is_dim()) left[role->dim()] /= digits_[i].size;
        layout.set(i, *role);
        continue;
      }
      std::vector<machine::DigitRole> roles = {machine::DigitRole::kReplica,
                                               machine::DigitRole::idle(random_place(i))};
      for (std::size_t d = 0; d < left.rank(); ++d) {
        if (left[d] % digits_[i].size == 0)
          roles.insert(roles.end(), 2, machine::DigitRole::dim(d));
      }
      const auto role = pick(roles);
      if (role.is_dim()) left[role.dim()] /= digits_[i].size;
      layout.set(i, role);
    }
    layouts_[id.index()] = layout;
    return {.node = {}, .source = layout};
  }

  Choice choose_compute(graph::NodeId id) {
    std::vector<Shape> shapes;
    for (const auto& t : model_.input_types(id)) shapes.push_back(t.shape.sizes);
    const auto& s = ops::get_signature(model_.node(id).op, shapes);
    std::vector<std::int64_t> left;
    for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
      left.push_back(machine::compute_divisible_size(s, f));
    }
    // Partial sums pass through one set of operands only.
    const auto set = s.partial_inputs.empty() ? 0 : random_() % s.partial_inputs.size();
    Choice out;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      if (const auto role = fixed_role(id, i)) {
        auto& use = out.node.uses[i];
        use = role->is_idle() ? machine::DigitUse::idle(role->place()) : time_use(id, s);
        if (use.is_factor()) left[use.factor()] /= digits_[i].size;
        continue;
      }
      if (can_pass(id, s, set, i) && chance(0.6)) {
        out.node.uses[i] = machine::DigitUse::through(set);
        ++through_count_;
        continue;
      }
      std::vector<machine::DigitUse> uses = {machine::DigitUse::kReplica};
      if (chance(0.2)) uses.push_back(machine::DigitUse::idle(random_place(i)));
      for (ops::FactorId f = 0; f < left.size(); ++f) {
        if (may_cut_next(s, f, out.node, digits_, i)) {
          uses.insert(uses.end(), 2, machine::DigitUse::factor(f));
        }
      }
      out.node.uses[i] = pick(uses);
      if (out.node.uses[i].is_factor()) left[out.node.uses[i].factor()] /= digits_[i].size;
    }
    layouts_[id.index()] = compute_output_layout(s, out.node, digits_.count());
    return out;
  }

  // Returns whether partial sums may pass through the operands in `set`. They must be partial
  // already, because no operator makes a partial sum from a whole value.
  [[nodiscard]] bool can_pass(graph::NodeId id, const ops::Signature& s, std::size_t set,
                              std::size_t digit) const {
    if (s.partial_inputs.empty()) return false;
    for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
      const bool carries = ((s.partial_inputs[set] >> i) & 1U) != 0;
      const auto& layout = layouts_[model_.inputs(id)[i].index()];
      if (carries && layout[digit] != machine::DigitRole::kPartial) return false;
    }
    return true;
  }

  const graph::Graph& model_;
  const machine::Digits& digits_;
  const Schedule schedule_;
  std::mt19937_64 random_;
  std::vector<std::uint16_t> stage_;
  std::vector<machine::Layout> layouts_;
  std::vector<Choice> choices_;
  int through_count_ = 0;
};

inline std::vector<Choice> random_choices(const graph::Graph& model, const machine::Digits& digits,
                                          std::uint64_t seed) {
  return Chooser(model, digits, seed).run();
}

// --- Choices written out -------------------------------------------------------------------------

// Returns choices by node name, with one word for each digit: a factor of the operator, "*" for
// redundant, or "-" for idle. Operators not named compute redundantly. Sources have the layout that
// their first user needs.
inline std::vector<Choice> named_choices(const graph::Graph& model, const machine::Digits& digits,
                                         const std::map<std::string, std::string>& words_of) {
  std::vector<Choice> out(model.size());
  for (auto id : model.ids()) {
    out[id.index()].source = machine::Layout(digits.count(), machine::DigitRole::kIdle);
  }
  std::vector<bool> placed(model.size());
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (node.op.role() == ops::Role::kSource) continue;
    std::vector<Shape> shapes;
    for (const auto& t : model.input_types(id)) shapes.push_back(t.shape.sizes);
    const auto& s = ops::get_signature(node.op, shapes);
    auto& uses = out[id.index()].node.uses;
    std::fill_n(uses.begin(), digits.count(), machine::DigitUse::kReplica);
    if (const auto at = words_of.find(node.name); at != words_of.end()) {
      const auto list = split_words(at->second);
      CHECK(list.size() == digits.count(), node.name);
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i] == "*") continue;
        const int f = s.map.find(list[i]);
        CHECK(f >= 0 || list[i] == "-", node.name, list[i]);
        uses[i] = f >= 0 ? machine::DigitUse::factor(static_cast<ops::FactorId>(f))
                         : machine::DigitUse::kIdle;
      }
    }
    for (std::size_t i = 0; i < model.inputs(id).size(); ++i) {
      const auto source = model.inputs(id)[i].index();
      if (placed[source]) continue;
      placed[source] = true;
      out[source].source = compute_input_layout(s, out[id.index()].node, digits.count(), i);
    }
  }
  return out;
}

}  // namespace tandem::plan
