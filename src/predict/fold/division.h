// Divides a network into pipeline stages; the network is given by its folded version. If the number
// of layers is not divisible by the number of stages, stages end inside layers
// (strategies/stages.h). Cuts then divide sections into pieces, and a stage has runs of pieces
// beside whole sections.
#pragma once

#include <optional>
#include <vector>

#include "predict/folded.h"
#include "strategies/problem.h"

namespace tandem::predict {

// Consecutive pieces of one section.
struct Run {
  Section section = Section::kBefore;
  std::uint8_t from = 0;
  std::uint8_t to = 1;  // one past the last
  bool operator==(const Run&) const = default;
};

// Position of a node or a task.
struct SectionPlace {
  Section section = Section::kBefore;
  std::uint8_t piece = 0;
};

// Pieces of all sections.
struct Pieces {
  // Flops of a forward pass, by section and piece.
  std::array<std::vector<double>, kSections> operations;
  std::vector<SectionPlace> of_node;  // by node of the folded network

  [[nodiscard]] std::uint8_t count(std::size_t section) const {
    return static_cast<std::uint8_t>(operations[section].size());
  }
};

// Returns the pieces of all sections. Returns nullopt if a piece would span two sections, or if a
// section has no piece or too many.
std::optional<Pieces> cut_into_pieces(const strategies::Problem& folded);

// Whether runs are whole sections, for stages that end between layers, or runs of pieces.
enum class Cut : std::uint8_t { kWhole, kInPieces };
inline constexpr std::size_t kCuts = 2;

// Returns the five sections as runs.
const std::vector<Run>& whole_sections();

// Returns all runs of pieces, in an order in which each stage's runs appear in execution order.
std::vector<Run> list_runs(const Pieces& pieces);

// Returns the indices of the five whole sections among list_runs. `pieces` is null if the runs are
// whole_sections.
std::vector<std::size_t> find_whole_runs(const Pieces* pieces);

// Returns the place of each node of a folded network's PCG. A parallelization operator has the
// place of its first reader. If `pieces` is null, each section is one piece.
std::vector<SectionPlace> find_places(const graph::Graph& graph, const Pieces* pieces);

// Number of times that a stage has each run.
using RunCounts = std::vector<std::int64_t>;

// Stages of a pipeline and their runs. Stages of one class have the same runs.
struct Division {
  std::vector<RunCounts> classes;
  std::vector<std::uint16_t> class_of_stage;
  std::vector<SectionPlace> ends;           // by stage: its last piece
  std::vector<std::uint16_t> stages_after;  // by piece of section kAfter: its stage

  // Returns whether counts are over list_runs instead of whole_sections.
  [[nodiscard]] bool is_in_pieces() const { return classes[0].size() != kSections; }
};

// Returns the division over whole_sections in which stage s has `layers[s]` layers.
Division make_division(const std::vector<std::int64_t>& layers);
// Returns a division over list_runs into stages that end inside layers. `speeds` are the relative
// speeds of the stages. Returns nullopt if there are fewer pieces than stages.
std::optional<Division> make_uneven_division(const Pieces& pieces, std::int64_t layers,
                                             const std::vector<double>& speeds);

}  // namespace tandem::predict
