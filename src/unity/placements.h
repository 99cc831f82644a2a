// Placements of the tasks of a parallel computation graph, and their costs. A placement of an
// operator says which digits of the machine each degree of its task grid runs along. For two
// neighbours, a table holds the cost of resharding the tensor between their placements. Each is
// computed once, and similar graphs share them.
//
// Costs are Unity's: seconds of forward and backward pass, gradient synchronization and update,
// added without any overlap.
#pragma once

#include <limits>
#include <unordered_map>
#include <vector>

#include "ops/task_grid.h"
#include "predict/cost_model.h"
#include "unity/region.h"

namespace tandem::unity {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

// An operator on operands of given parallel types, or a tensor at the border of a piece.
using KindId = std::uint32_t;

struct Operator {
  ops::Op op;
  std::vector<TensorType> operands;  // parallel types
  TensorType result;                 // parallel type
  ops::InputMask differentiated = 0;
  ops::InputMask trained = 0;  // weights whose gradients are summed for this operator

  bool operator==(const Operator&) const = default;
};

struct Placement {
  machine::NodeLayout node;  // layout of an operator
  std::vector<predict::CostModel::LayoutId> in;
  predict::CostModel::LayoutId out = 0;
  double seconds = 0;
};

// Costs by the placements of two neighbours, row-major.
struct CostTable {
  std::size_t rows = 0, cols = 0;
  std::vector<double> seconds;

  [[nodiscard]] double at(std::size_t r, std::size_t c) const { return seconds[r * cols + c]; }
};

// The part of a step that a graph describes: the whole step, or a micro-batch of a pipeline.
struct UnityPass {
  machine::DigitMask ranks = 0;  // digits whose places are stages; an operator is on one of them
  std::int64_t times = 1;        // passes per step; weights are summed and updated once
};

class Placements {
 public:
  Placements(const machine::Digits& digits, predict::CostModel& costs, const UnityPass& pass = {})
      : digits_(digits), costs_(costs), pass_(pass), regions_(digits, pass.ranks) {}

  KindId find_or_add_kind(const Operator& op);
  // Returns the kind of a border tensor, by its type alone.
  KindId find_or_add_tensor_kind(const TensorType& type);

  // Returns the placements of the kind in the region. Returns none if no subset of the region's
  // digits matches the degrees.
  const std::vector<Placement>& get_placements(KindId kind, RegionId region);
  // Returns the costs of resharding from a placement of `from` to one of `to`, which reads the
  // tensor as `operand`. They include the way back of the gradient.
  const CostTable& get_reshard_costs(KindId from, RegionId from_region, KindId to,
                                     RegionId to_region, std::size_t operand);

  Regions& regions() { return regions_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  // Returns the digits that operators are spread over.
  [[nodiscard]] machine::DigitMask free_digits() const { return digits_.space() & ~pass_.ranks; }

 private:
  struct VertexKind {
    Operator op;
    bool is_tensor = false;
    const ops::Signature* signature = nullptr;
    std::vector<TensorType> whole;  // operands, undivided
    TensorType whole_result;
    std::optional<ops::TaskGrid> grid;  // nullopt: no layouts correspond to it
    std::unordered_map<RegionId, std::vector<Placement>> placements = {};
  };

  std::vector<Placement> operator_placements(const VertexKind& kind, const Region& region);
  std::vector<Placement> list_tensor_placements(const VertexKind& kind, const Region& region);
  double cost_operator(const VertexKind& kind, const machine::NodeLayout& layout);
  double cost_transfer(const TensorType& tensor, predict::CostModel::LayoutId from,
                       predict::CostModel::LayoutId wanted, bool has_gradient);
  predict::CostModel::LayoutId intern_layout(const machine::Layout& layout);

  const machine::Digits& digits_;
  predict::CostModel& costs_;
  UnityPass pass_;
  Regions regions_;
  std::vector<VertexKind> kinds_;
  std::unordered_map<Hash, std::vector<KindId>> by_hash_;
  std::unordered_map<Hash, CostTable> between_;
  std::vector<machine::DigitMask> partial_;  // by layout
};

}  // namespace tandem::unity
