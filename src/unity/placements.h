// What the tasks of a parallel computation graph may run on, and what that costs: for every kind of
// operator its placements, the digits of the machine that each degree of its task grid may run
// along, and for two neighbours what the tensor between them costs to bring from one's placement to
// the other's. Each is computed once; graphs that are alike ask for the same.
//
// Costs are Unity's: seconds that add up, forward and backward pass, gradient synchronisation and
// update, nothing beside anything else.
#pragma once

#include <limits>
#include <unordered_map>
#include <vector>

#include "ops/task_grid.h"
#include "predict/tables.h"
#include "unity/region.h"

namespace tandem::unity {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

// An operator on operands of given parallel types; or a tensor of one, at the border of a piece.
using KindId = std::uint32_t;

struct Operator {
  ops::Op op;
  std::vector<TensorType> operands;  // parallel
  TensorType result;                 // parallel
  ops::InputMask differentiated = 0;
  ops::InputMask trained = 0;  // weights whose gradients are summed for this operator

  bool operator==(const Operator&) const = default;
};

struct Placement {
  machine::NodeLayout node;  // of an operator
  std::vector<predict::CostModel::LayoutId> in;
  predict::CostModel::LayoutId out = 0;
  double seconds = 0;
};

// Row-major, by placements of two neighbours.
struct CostTable {
  std::size_t rows = 0, cols = 0;
  std::vector<double> seconds;

  [[nodiscard]] double at(std::size_t r, std::size_t c) const { return seconds[r * cols + c]; }
};

// What a graph is of a step: all of it, or a micro-batch of a pipeline.
struct Pass {
  machine::DigitMask ranks = 0;  // digits whose places are stages: an operator is on one of them
  std::int64_t times = 1;        // a step; weights are summed and updated once
};

class Placements {
 public:
  Placements(const machine::Digits& digits, predict::CostModel& costs, const Pass& pass = {})
      : digits_(digits), costs_(costs), pass_(pass), regions_(digits, pass.ranks) {}

  KindId kind_of(const Operator& op);
  // Of the tensor's type alone.
  KindId kind_of_tensor(const TensorType& type);

  // Empty where the region has too few devices, or devices in no such number.
  const std::vector<Placement>& of(KindId kind, RegionId region);
  // From a placement of `from` to one of `to`, which reads it as this operand; gradients back.
  const CostTable& between(KindId from, RegionId from_region, KindId to, RegionId to_region,
                           std::size_t operand);

  Regions& regions() { return regions_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  // Digits that operators are spread over.
  [[nodiscard]] machine::DigitMask free() const { return digits_.space() & ~pass_.ranks; }

 private:
  struct Kind {
    Operator op;
    bool is_tensor = false;
    const ops::Signature* signature = nullptr;
    std::vector<TensorType> whole;  // operands, undivided
    TensorType whole_result;
    std::optional<ops::TaskGrid> grid;  // none: no layouts mean it
    std::unordered_map<RegionId, std::vector<Placement>> placements = {};
  };

  std::vector<Placement> operator_placements(const Kind& kind, const Region& region);
  std::vector<Placement> tensor_placements(const Kind& kind, const Region& region);
  double seconds_of(const Kind& kind, const machine::NodeLayout& layout);
  double transfer(const TensorType& tensor, predict::CostModel::LayoutId from,
                  predict::CostModel::LayoutId wanted, bool has_gradient);
  predict::CostModel::LayoutId id_of(const machine::Layout& layout);

  const machine::Digits& digits_;
  predict::CostModel& costs_;
  Pass pass_;
  Regions regions_;
  std::vector<Kind> kinds_;
  std::unordered_map<Hash, std::vector<KindId>> by_hash_;
  std::unordered_map<Hash, CostTable> between_;
  std::vector<machine::DigitMask> partial_;  // by layout
};

}  // namespace tandem::unity
