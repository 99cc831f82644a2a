#include "predict/fold/division.h"

#include <algorithm>
#include <numeric>

#include "strategies/stages.h"

namespace tandem::predict {

namespace {

// Returns the places of the whole network, including the layers that the folded one leaves out.
std::vector<SectionPlace> list_unfolded_places(const Pieces& pieces, std::int64_t layers) {
  std::vector<SectionPlace> out;
  for (std::size_t s = 0; s < kSections; ++s) {
    const auto section = static_cast<Section>(s);
    const auto times = section == Section::kMiddle ? layers - 2 : 1;
    for (std::int64_t i = 0; i < times; ++i) {
      for (std::uint8_t p = 0; p < pieces.count(s); ++p) out.push_back({section, p});
    }
  }
  return out;
}

// Collects the classes of stages in order.
class StageClasses {
 public:
  void add(RunCounts counts) {
    auto& known = out_.classes;
    const auto at = std::ranges::find(known, counts);
    out_.class_of_stage.push_back(static_cast<std::uint16_t>(at - known.begin()));
    if (at == known.end()) known.push_back(std::move(counts));
  }
  Division take() { return std::move(out_); }
  Division& division() { return out_; }

 private:
  Division out_;
};

}  // namespace

std::optional<Pieces> cut_into_pieces(const strategies::Problem& folded) {
  const auto& graph = folded.model;
  const auto sections = find_sections(graph);
  const auto cuts = strategies::find_cuts(folded);
  Pieces out;
  out.of_node.resize(graph.size());
  std::optional<Section> now;  // section of the current piece
  auto cut = cuts.begin();
  const auto consumers = graph.consumers();
  for (auto id : graph.ids()) {
    const auto n = id.index();
    const auto section = sections[n];
    auto& operations = out.operations[static_cast<std::size_t>(section)];
    if (!strategies::is_operator(folded, n)) continue;
    if (!now) {
      operations.push_back(0);
      now = section;
    }
    if (*now != section) return std::nullopt;
    operations.back() += folded.nodes[n].signature.flops.value;
    out.of_node[n] = {section, static_cast<std::uint8_t>(operations.size() - 1)};
    if (cut != cuts.end() && *cut == n) {
      now.reset();
      ++cut;
    }
  }
  for (auto id : graph.ids()) {
    const auto n = id.index();
    if (strategies::is_operator(folded, n)) continue;
    out.of_node[n].section = sections[n];
    if (consumers[n].empty()) continue;
    const auto& reader = out.of_node[consumers[n].front().index()];
    if (reader.section == sections[n]) out.of_node[n] = reader;
  }
  constexpr std::size_t kMost = 16;
  for (const auto& operations : out.operations) {
    if (operations.empty() || operations.size() > kMost) return std::nullopt;
  }
  return out;
}

const std::vector<Run>& whole_sections() {
  static const std::vector<Run> out = {{Section::kBefore, 0, 1},
                                       {Section::kFirst, 0, 1},
                                       {Section::kMiddle, 0, 1},
                                       {Section::kLast, 0, 1},
                                       {Section::kAfter, 0, 1}};
  return out;
}

// A stage may begin with the end of a layer, so these runs come first. Whole layers follow. Runs
// that are the beginning of a layer come last, since a stage may end with them.
std::vector<Run> list_runs(const Pieces& pieces) {
  std::vector<Run> out;
  for (std::size_t s = 0; s < kSections; ++s) {
    const auto count = pieces.count(s);
    const auto section = static_cast<Section>(s);
    for (std::uint8_t from = 1; from < count; ++from) out.push_back({section, from, count});
    out.push_back({section, 0, count});
    for (std::uint8_t from = 0; from < count; ++from) {
      for (std::uint8_t to = from + 1U; to < count; ++to) out.push_back({section, from, to});
    }
  }
  return out;
}

std::vector<std::size_t> find_whole_runs(const Pieces* pieces) {
  if (pieces == nullptr) return {0, 1, 2, 3, 4};
  const auto runs = list_runs(*pieces);
  std::vector<std::size_t> out;
  for (std::size_t s = 0; s < kSections; ++s) {
    const Run whole{static_cast<Section>(s), 0, pieces->count(s)};
    out.push_back(static_cast<std::size_t>(std::ranges::find(runs, whole) - runs.begin()));
  }
  return out;
}

std::vector<SectionPlace> find_places(const graph::Graph& graph, const Pieces* pieces) {
  std::vector<SectionPlace> out(graph.size());
  const auto sections = find_sections(graph);
  std::size_t next = 0;
  for (auto id : graph.ids()) {
    auto& place = out[id.index()];
    place.section = sections[id.index()];
    if (pieces != nullptr && !is_parallel(graph.node(id))) place = pieces->of_node[next++];
  }
  if (pieces == nullptr) return out;
  copy_places_from_readers(graph, out);
  return out;
}

Division make_division(const std::vector<std::int64_t>& layers) {
  StageClasses out;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const std::int64_t first = s == 0 ? 1 : 0;
    const std::int64_t last = s + 1 == layers.size() ? 1 : 0;
    out.add({first, first, layers[s] - first - last, last, last});
  }
  auto& division = out.division();
  division.ends.assign(layers.size(), {Section::kMiddle, 0});
  division.stages_after = {static_cast<std::uint16_t>(layers.size() - 1)};
  return out.take();
}

std::optional<Division> make_uneven_division(const Pieces& pieces, std::int64_t layers,
                                             const std::vector<double>& speeds) {
  const auto places = list_unfolded_places(pieces, layers);
  if (places.size() < speeds.size()) return std::nullopt;
  std::vector<double> until;
  until.reserve(places.size());
  double now = 0;
  for (const auto& place : places) {
    now += pieces.operations[static_cast<std::size_t>(place.section)][place.piece];
    until.push_back(now);
  }
  const auto runs = list_runs(pieces);
  StageClasses out;
  auto& division = out.division();
  std::size_t next = 0;
  for (const auto end : strategies::balance_ends(until, speeds)) {
    RunCounts counts(runs.size());
    while (next <= end) {
      const auto first = places[next];
      const auto left = static_cast<std::size_t>(
          pieces.count(static_cast<std::size_t>(first.section)) - first.piece);
      const auto last = std::min(end, next + left - 1);
      const Run run{first.section, first.piece, static_cast<std::uint8_t>(places[last].piece + 1)};
      ++counts[static_cast<std::size_t>(std::ranges::find(runs, run) - runs.begin())];
      next = last + 1;
    }
    const auto stage = static_cast<std::uint16_t>(division.ends.size());
    division.ends.push_back(places[end]);
    out.add(std::move(counts));
    for (auto n = division.stages_after.size(); n < pieces.count(kSections - 1); ++n) {
      const auto piece = places.size() - pieces.count(kSections - 1) + n;
      if (piece > end) break;
      division.stages_after.push_back(stage);
    }
  }
  return out.take();
}

}  // namespace tandem::predict
