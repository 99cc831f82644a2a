#include "unity/splitting.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::unity {

namespace {

using graph::NodeId;
using rewrite::Draft;
using rewrite::Match;
using rewrite::PatternId;
using rewrite::Slot;

constexpr std::size_t kBorderStates = 16;
constexpr std::size_t kFewStates = 2;
constexpr std::size_t kNoPosition = static_cast<std::size_t>(-1);

// Chooses cuts of the model. Its operators are in an order that keeps each branch together. For a
// cut after each operator, it counts the matches of rules that the cut would tear.
class Cuts {
 public:
  Cuts(const graph::Graph& model, Substitutions& substitutions)
      : model_(model), rules_(substitutions.rules()) {
    auto& dictionary = substitutions.dictionary();
    draft_ = Draft::from_graph(model, dictionary);
    position_.assign(draft_.slot_count(), kNoPosition);
    for (auto slot : draft_.order()) {
      if (dictionary.op(draft_.node(slot).op).role() != ops::Role::kCompute) continue;
      position_[slot] = operators_.size();
      operators_.push_back(slot);
    }
  }

  std::vector<NodeId> run(std::size_t least_nodes) {
    if (model_.outputs().size() == 1) {
      find_cuttable();
      count_torn_matches();
      divide(0, operators_.size(), least_nodes);
      std::ranges::sort(chosen_);
    }
    std::vector<NodeId> out;
    for (auto i : chosen_) out.push_back(draft_.node(operators_[i]).named_after);
    return out;
  }

 private:
  // Finds the operators after which the model may be cut: only their own result crosses the cut.
  void find_cuttable() {
    std::vector<std::size_t> farthest(operators_.size());
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      for (auto input : draft_.inputs(operators_[i])) {
        if (position_[input] != kNoPosition) farthest[position_[input]] = i;
      }
    }
    std::size_t reach = 0;
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      const auto& type = model_.node(draft_.node(operators_[i]).named_after).type;
      passed_.push_back(reach <= i && type.density == 1 && !is_integer(type.dtype));
      reach = std::max(reach, farthest[i]);
    }
  }

  void count_torn_matches() {
    torn_.assign(operators_.size(), 0);
    for (const auto& match : rewrite::Matches::find(rules_, draft_).all()) {
      std::size_t first = operators_.size();
      std::size_t last = 0;
      const auto& source = rules_.rules()[match.rule].source;
      const auto visit = [&](const auto& self, PatternId id, Slot slot) -> void {
        if (source.nodes[id].is_variable() || position_[slot] == kNoPosition) return;
        first = std::min(first, position_[slot]);
        last = std::max(last, position_[slot]);
        const auto inputs = draft_.inputs(slot);
        for (std::size_t i = 0; i < source.nodes[id].inputs.size(); ++i) {
          self(self, source.nodes[id].inputs[i], inputs[i]);
        }
      };
      for (std::size_t o = 0; o < source.outputs.size(); ++o) {
        visit(visit, source.outputs[o], match.outputs[o]);
      }
      for (auto i = first; i < last; ++i) ++torn_[i];
    }
  }

  // Cuts where the fewest matches are torn, and of such places nearest to the middle. Then divides
  // each side again.
  void divide(std::size_t from, std::size_t until, std::size_t least) {
    std::optional<std::size_t> best;
    const auto off_middle = [&](std::size_t i) {
      const auto twice = 2 * (i + 1);
      return twice > from + until ? twice - from - until : from + until - twice;
    };
    for (auto i = from + least - 1; i + least < until; ++i) {
      if (!passed_[i]) continue;
      const auto rank = [&](std::size_t at) { return std::pair(torn_[at], off_middle(at)); };
      if (!best || rank(i) < rank(*best)) best = i;
    }
    if (!best) return;
    chosen_.push_back(*best);
    divide(from, *best + 1, least);
    divide(*best + 1, until, least);
  }

  const graph::Graph& model_;
  const rewrite::RuleSet& rules_;
  Draft draft_;
  std::vector<std::size_t> position_;  // by slot: index in operators_
  std::vector<Slot> operators_;
  std::vector<bool> passed_;
  std::vector<std::size_t> torn_;
  std::vector<std::size_t> chosen_;
};

// Searches the pieces of the model between given borders, and finds the cheapest combination.
class PieceSearch {
 public:
  PieceSearch(const graph::Graph& model, const std::vector<NodeId>& cuts, const Substitution& how,
              Substitutions& substitutions)
      : model_(model),
        cuts_(cuts),
        how_(how),
        shared_(substitutions),
        gradient_(graph::mark_gradient_nodes(model)) {
    for (auto id : model.ids()) names_.insert(model.node(id).name);
    divide();
  }

  // Searches first with border tensors that are undivided, or split over all devices along one
  // dimension. Then searches all partitionings whose total may be within alpha of the best so far.
  SplitSolution run() {
    borders_ = {{std::nullopt}};
    for (std::size_t p = 0; p < members_.size(); ++p) borders_.push_back(list_borders(p));
    const auto few = find_cheapest(kFewStates, {});
    if (!how_.only_initial_layouts) find_cheapest(kBorderStates, few);
    return choose_pieces();
  }

 private:
  using Border = std::optional<Shape>;  // degrees; nullopt at the model's ends

  // Assigns to each piece everything that its last operator needs and no earlier piece has.
  void divide() {
    std::vector<bool> taken(model_.size());
    auto ends = cuts_;
    ends.push_back(model_.outputs()[0]);
    for (auto end : ends) {
      std::vector<bool> own(model_.size());
      std::vector<NodeId> stack = {end};
      while (!stack.empty()) {
        const auto id = stack.back();
        stack.pop_back();
        if (own[id.index()] || taken[id.index()]) continue;
        own[id.index()] = true;
        for (auto input : model_.inputs(id)) stack.push_back(input);
      }
      members_.emplace_back();
      for (auto id : model_.ids()) {
        if (!own[id.index()]) continue;
        members_.back().push_back(id);
        // A source that several pieces read belongs to each of them.
        taken[id.index()] = model_.node(id).op.role() != ops::Role::kSource;
      }
    }
  }

  std::vector<Border> list_borders(std::size_t p) {
    if (p == cuts_.size()) return {std::nullopt};
    const auto& sizes = model_.node(cuts_[p]).type.shape.sizes;
    if (how_.only_initial_layouts) return {compute_initial_border(cuts_[p])};
    std::vector<Border> out;
    const auto& placements = shared_.placements();
    const auto devices = placements.digits().group_size(placements.free_digits());
    for (const auto& degrees : list_border_states(sizes, devices, kBorderStates)) {
      out.emplace_back(degrees);
    }
    return out;
  }

  // Returns the seed's degrees at the border. Replicas and partial sums end there.
  Border compute_initial_border(NodeId cut) {
    const auto& digits = shared_.placements().digits();
    const auto layout = compute_output_layout(get_node_signature(model_, cut),
                                              how_.initial_layouts[0][cut.index()], digits.count());
    const auto& sizes = model_.node(cut).type.shape.sizes;
    const auto shape = compute_parallel_shape(layout, sizes, digits);
    return shape ? shape->degrees : ParallelShape(sizes).degrees;
  }

  // The cheapest costs from the first border to each border, as far as known, and the choice at the
  // border before it.
  struct CheapestPaths {
    std::vector<std::vector<double>> seconds = {{0}};  // by border, by partitioning
    std::vector<std::vector<std::size_t>> before;      // by piece, by partitioning behind it
  };

  // Searches pieces between the first `states` partitionings of each border. `known` holds the
  // costs of an earlier call; if it is not empty, partitionings that are too expensive are skipped.
  CheapestPaths find_cheapest(std::size_t states, const CheapestPaths& known) {
    CheapestPaths out;
    const auto rest = known.before.empty() ? std::vector<double>() : compute_rest(known);
    for (std::size_t p = 0; p < members_.size(); ++p) {
      const auto ins = std::min(states, borders_[p].size());
      const auto outs = std::min(states, borders_[p + 1].size());
      for (std::size_t i = 0; i < ins; ++i) {
        const auto so_far = out.seconds[p][i];
        const bool is_dear =
            !rest.empty() && so_far + rest[p] > how_.alpha * known.seconds.back()[0];
        for (std::size_t o = 0; o < outs && !is_dear; ++o) search_piece(p, i, o);
      }
      add_step(p, out);
    }
    return out;
  }

  // Returns, by border, the remaining cost of the cheapest combination.
  static std::vector<double> compute_rest(const CheapestPaths& known) {
    std::vector<double> out(known.before.size() + 1);
    std::size_t at = 0;
    for (std::size_t p = known.before.size(); p-- > 0;) {
      at = known.before[p][at];
      out[p] = known.seconds.back()[0] - known.seconds[p][at];
    }
    return out;
  }

  // Extends the costs by one piece, from the pieces that were searched.
  void add_step(std::size_t p, CheapestPaths& ways) {
    std::vector<double> next(borders_[p + 1].size(), kImpossible);
    ways.before.emplace_back(next.size());
    for (std::size_t i = 0; i < borders_[p].size(); ++i) {
      for (std::size_t o = 0; o < next.size(); ++o) {
        const auto* own = find_solution(p, i, o);
        if (own == nullptr || ways.seconds[p][i] + own->seconds >= next[o]) continue;
        next[o] = ways.seconds[p][i] + own->seconds;
        ways.before[p][o] = i;
      }
    }
    ways.seconds.push_back(std::move(next));
  }

  SplitSolution choose_pieces() {
    CheapestPaths ways;
    for (std::size_t p = 0; p < members_.size(); ++p) add_step(p, ways);
    SplitSolution out{{}, is_complete_};
    std::size_t at = 0;  // nothing is chosen behind the last piece
    for (std::size_t p = members_.size(); p-- > 0;) {
      const auto in = ways.before[p][at];
      auto solved = build_piece(p, borders_[p][in], borders_[p + 1][at]);
      if (const auto* known = find_solution(p, in, at)) solved.steps = known->steps;
      out.pieces.insert(out.pieces.begin(), std::move(solved));
      at = in;
    }
    return out;
  }

  // Returns null if the piece was not searched.
  const Found* find_solution(std::size_t p, std::size_t in, std::size_t out) {
    const auto at = found_.find(structures_[{p, in, out}]);
    return at == found_.end() ? nullptr : &at->second;
  }

  void search_piece(std::size_t p, std::size_t in, std::size_t out) {
    auto& structure = structures_[{p, in, out}];
    if (structure != 0 || (how_.is_over && how_.is_over())) return;
    const auto solved = build_piece(p, borders_[p][in], borders_[p + 1][out]);
    structure = compute_structure_hash(solved.piece);
    const auto [at, fresh] = found_.try_emplace(structure);
    if (!fresh) return;
    at->second = shared_.find_best(solved.piece, how_);
    is_complete_ = is_complete_ && at->second.is_complete;
  }

  PieceSolution build_piece(std::size_t p, const Border& in, const Border& out) {
    graph::GraphBuilder builder(model_.name());
    PieceSolution made;
    std::vector<NodeId> image(model_.size());
    const auto note = [&](NodeId model) {
      while (made.model_node.size() < builder.size()) made.model_node.push_back(model);
    };
    if (in) {
      const auto id = add_border(builder, cuts_[p - 1], *in);
      made.piece.border = {id, gradient_[cuts_[p - 1].index()]};
      image[cuts_[p - 1].index()] = add_parallel_operators(builder, ops::kCombine, id, *in);
      note(NodeId(model_.size()));
    }
    std::vector<NodeId> inputs;
    for (auto id : members_[p]) {
      inputs.clear();
      for (auto input : model_.inputs(id)) inputs.push_back(image[input.index()]);
      image[id.index()] = builder.copy_node(model_, id, inputs);
      note(id);
    }
    auto result = image[(p < cuts_.size() ? cuts_[p] : model_.outputs()[0]).index()];
    if (out) result = add_parallel_operators(builder, ops::kPartition, result, *out);
    note(NodeId(model_.size()));
    made.piece.has_border_output = out.has_value();
    made.piece.graph = builder.finish({result});
    add_initial_layouts(made);
    return made;
  }

  void add_initial_layouts(PieceSolution& made) const {
    for (const auto& seed : how_.initial_layouts) {
      InitialLayouts own;
      for (auto node : made.model_node) {
        own.push_back(node.index() < seed.size() ? seed[node.index()] : machine::NodeLayout{});
      }
      auto& seeds = made.piece.initial_layouts;
      if (std::ranges::find(seeds, own) == seeds.end()) seeds.push_back(std::move(own));
    }
  }

  NodeId add_border(graph::GraphBuilder& builder, NodeId cut, const Shape& degrees) {
    const auto& type = model_.node(cut).type;
    ParallelShape shape(type.shape.sizes);
    shape.degrees = degrees;
    std::string name = "border";
    while (names_.contains(name)) name += "_";
    return builder.input(name, shape, type.dtype);
  }

  static NodeId add_parallel_operators(graph::GraphBuilder& builder, const ops::OpSpec& spec,
                                       NodeId id, const Shape& degrees) {
    for (std::size_t d = 0; d < degrees.rank(); ++d) {
      if (degrees[d] == 1) continue;
      const ops::DimDegree change{static_cast<std::int64_t>(d), degrees[d]};
      id = builder.add(ops::make_op(spec, change), {id});
    }
    return id;
  }

  // Returns a hash of the structure. Pieces with the same structure and seeds have the same steps.
  static Hash compute_structure_hash(const ModelPiece& piece) {
    Hash h = piece.has_border_output ? 2 : 1;
    if (piece.border) h = hash_combine(h, piece.border->has_gradient ? 4 : 3);
    for (auto id : piece.graph.ids()) {
      h = hash_combine(h, piece.graph.node(id).op.hash());
      for (auto input : piece.graph.inputs(id)) h = hash_combine(h, input.value);
    }
    for (const auto& seed : piece.initial_layouts) {
      for (const auto& layout : seed) {
        for (auto use : layout.uses) h = hash_combine(h, std::bit_cast<std::uint8_t>(use));
      }
    }
    return h;
  }

  const graph::Graph& model_;
  const std::vector<NodeId>& cuts_;
  const Substitution& how_;
  Substitutions& shared_;
  std::vector<bool> gradient_;
  std::set<std::string> names_;
  std::vector<std::vector<NodeId>> members_;  // by piece
  std::vector<std::vector<Border>> borders_;  // before each piece, and behind the last
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, Hash> structures_;
  std::map<Hash, Found> found_;  // by structure
  bool is_complete_ = true;
};

}  // namespace

std::vector<NodeId> find_cuts(const graph::Graph& model, std::size_t least_nodes,
                              Substitutions& substitutions) {
  return Cuts(model, substitutions).run(least_nodes);
}

std::vector<Shape> list_border_states(const Shape& sizes, std::int64_t devices, std::size_t most) {
  std::vector<Shape> out;
  Shape degrees = sizes;
  for (auto& d : degrees) d = 1;
  const auto choose = [&](const auto& self, std::size_t d, std::int64_t left) -> void {
    if (d == sizes.rank()) {
      out.push_back(degrees);
      return;
    }
    for (std::int64_t n = 1; n <= left; ++n) {
      if (left % n != 0 || sizes[d] % n != 0) continue;
      degrees[d] = n;
      self(self, d + 1, left / n);
    }
    degrees[d] = 1;
  };
  choose(choose, 0, devices);
  const auto rank = [&](const Shape& s) {
    const auto cut = std::ranges::count_if(s, [](std::int64_t n) { return n > 1; });
    return std::tuple(cut > 0, devices / s.count(), cut);
  };
  std::ranges::stable_sort(out, {}, rank);
  out.resize(std::min(out.size(), most));
  return out;
}

SplitSolution solve_in_pieces(const graph::Graph& model, std::size_t least_nodes,
                              const Substitution& how, Substitutions& substitutions) {
  const auto cuts = find_cuts(model, least_nodes, substitutions);
  return PieceSearch(model, cuts, how, substitutions).run();
}

}  // namespace tandem::unity
