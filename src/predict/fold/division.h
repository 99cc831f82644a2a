// How stages divide a network of which the folded one stands for all layers. Where stages do not
// divide the layers they end inside of some (strategies/stages.h): then sections are in pieces,
// from one cut to the next, and a stage has runs of pieces beside whole sections.
#pragma once

#include <optional>
#include <vector>

#include "predict/folded.h"
#include "strategies/problem.h"

namespace tandem::predict {

// Some pieces of a section, one after the other.
struct Run {
  Section section = Section::kBefore;
  std::uint8_t from = 0;
  std::uint8_t to = 1;  // one behind the last
  bool operator==(const Run&) const = default;
};

// Where a node or a task stands.
struct Place {
  Section section = Section::kBefore;
  std::uint8_t piece = 0;
};

struct Pieces {
  // By section and piece: what a forward pass takes.
  std::array<std::vector<double>, kSections> operations;
  std::vector<Place> of_node;  // by node of the folded network

  [[nodiscard]] std::uint8_t count(std::size_t section) const {
    return static_cast<std::uint8_t>(operations[section].size());
  }
};

// Nothing where one piece is in two sections.
std::optional<Pieces> pieces_of(const strategies::Problem& folded);

// Whole sections, for stages that end between layers; or pieces of them.
enum class Cut : std::uint8_t { kWhole, kInPieces };
inline constexpr std::size_t kCuts = 2;

// The five sections, whole.
const std::vector<Run>& whole_sections();

// All runs of pieces, in an order in which every stage has its own.
std::vector<Run> all_runs(const Pieces& pieces);

// By node of a folded network made parallel: parallelization operators are where what reads them
// is. Without `pieces` sections are of one piece.
std::vector<Place> places_of(const graph::Graph& graph, const Pieces* pieces);

// How many of each run a stage has.
using RunCounts = std::vector<std::int64_t>;

// Stages are of few classes: those of a class have the same.
struct Division {
  std::vector<RunCounts> classes;
  std::vector<std::uint16_t> class_of_stage;
  std::vector<Place> ends;                  // by stage: behind which piece it ends
  std::vector<std::uint16_t> stages_after;  // by piece of the section after the layers
};

// Of so many layers by stage, over whole sections.
Division division_of(const std::vector<std::int64_t>& layers);
// Where stages divide them in the middle of layers, over all_runs. Nothing where there are too few
// cuts.
std::optional<Division> uneven_division(const Pieces& pieces, std::int64_t layers,
                                        std::int64_t stages);

}  // namespace tandem::predict
