// Costs of states and transitions in the search, by kinds of cost that have separate prices
// (Prices). A cost is of one device, for forward and backward together.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "machine/machine.h"
#include "machine/node_layout.h"
#include "machine/window.h"
#include "plan/plan.h"
#include "predict/kernels.h"
#include "predict/transitions.h"
#include "strategies/factor_kinds.h"

namespace tandem::predict {

struct Cost {
  Seconds compute;   // operators, forward and backward
  Seconds update;    // optimizer: compute that can overlap communication
  Seconds blocking;  // communication that nothing can overlap
  Seconds async;     // other communication: gradients, resharding beside a parallel branch
  Bytes memory;
  Seconds outer;  // part of all communication on the outer stream (Transitions)
  // Part of the costs above that is in the forward pass.
  struct ForwardCost {
    Seconds compute;
    Seconds blocking;
    Seconds outer;
  };
  ForwardCost forward = {};

  Cost& operator+=(const Cost& other) {
    compute += other.compute;
    update += other.update;
    blocking += other.blocking;
    async += other.async;
    memory += other.memory;
    outer += other.outer;
    forward.compute += other.forward.compute;
    forward.blocking += other.forward.blocking;
    forward.outer += other.forward.outer;
    return *this;
  }
  Cost& operator-=(const Cost& other) {
    compute = compute - other.compute;
    update = update - other.update;
    blocking = blocking - other.blocking;
    async = async - other.async;
    memory = memory - other.memory;
    outer = outer - other.outer;
    forward.compute = forward.compute - other.forward.compute;
    forward.blocking = forward.blocking - other.forward.blocking;
    forward.outer = forward.outer - other.forward.outer;
    return *this;
  }
  // Returns the cost of `passes` passes, of which `kept` have results in memory at the
  // same time.
  [[nodiscard]] Cost times(double passes, double kept) const {
    return {passes * compute,
            passes * update,
            passes * blocking,
            passes * async,
            kept * memory,
            passes * outer,
            {passes * forward.compute, passes * forward.blocking, passes * forward.outer}};
  }
};

// Weight of a second or a byte of each kind of cost.
struct Prices {
  double compute = 1;
  double update = 1;
  double blocking = 1;
  double async = 0.5;
  double late = 0;  // at least this for gradients that are ready when the backward pass ends
  double per_byte = 0;
  double outer = 0;
  double rooted = 0;
  // Additional weight of a second of the forward pass.
  struct ForwardPrices {
    double compute = 0;
    double blocking = 0;
    double outer = 0;
    double rooted = 0;
  };
  ForwardPrices forward = {};

  [[nodiscard]] double price(const Cost& c) const {
    return compute * c.compute.value + update * c.update.value + blocking * c.blocking.value +
           async * c.async.value + per_byte * c.memory.value + outer * c.outer.value +
           forward.compute * c.forward.compute.value + forward.blocking * c.forward.blocking.value +
           forward.outer * c.forward.outer.value;
  }
};

class CostModel {
 public:
  CostModel(const machine::Machine& machine, const machine::Digits& digits,
            plan::Optimizer optimizer, const plan::Precision& precision = {})
      : machine_(machine),
        digits_(digits),
        optimizer_(optimizer),
        precision_(precision),
        transitions_(machine, digits) {}

  [[nodiscard]] std::size_t levels() const { return machine_.levels.size(); }

  // Returns an operator's compute and the memory of the result that it saves for backward.
  // `differentiated`: operands that get a gradient. `role`: see predict/kernels.h.
  Cost operator_cost(const ops::Op& op, const ops::Signature& s,
                     std::span<const TensorType> operands, const TensorType& result,
                     const machine::NodeLayout& layout, ops::InputMask differentiated,
                     const KernelRole& role = {}) const;

  // Times of `operator_cost`, by pass.
  struct PassTimes {
    Seconds forward;
    Seconds backward;
  };
  [[nodiscard]] PassTimes pass_times(const ops::Op& op, const ops::Signature& s,
                                     std::span<const TensorType> operands, const TensorType& result,
                                     const machine::NodeLayout& layout,
                                     ops::InputMask differentiated,
                                     const KernelRole& role = {}) const;

  // Returns whether all devices are equal, so that it does not matter which one runs a task.
  [[nodiscard]] bool has_equal_devices() const { return machine_.groups.empty(); }

  [[nodiscard]] const machine::Software& software() const { return machine_.device.software; }

  // Returns the cost of a weight stored in `layout`: memory, gradient synchronization and update.
  // `looked_up`: shard of the indices into a table with row-sparse gradient, else null.
  // `of_product`: the weight has a single use per step, and a matmul computes its gradient.
  Cost weight_cost(const Shape& sizes, DType dtype, const machine::Layout& layout,
                   const Shape* looked_up = nullptr, bool of_product = false);

  // Returns the cost of a weight that is not trained: its memory.
  [[nodiscard]] Cost frozen_weight_cost(const Shape& sizes, DType dtype,
                                        const machine::Layout& layout) const;

  // Returns the cost of sending a weight that several pipeline stages use, and its gradient, from
  // one stage to another.
  [[nodiscard]] Cost stage_send_cost(const TensorType& weight, const machine::Layout& layout,
                                     machine::DigitMask stages) const;

  // Returns the additional cost of a weight that is used in layout `used` and stored sharded in
  // `stored`, with reduce-scattered gradient. It is gathered once a step and retained, or gathered
  // separately for forward and backward.
  enum class Gathered : std::uint8_t { kOnce, kForEachPass };
  Cost sharded_storage_cost(const TensorType& weight, const machine::Layout& used,
                            const machine::Layout& stored, Gathered gathered);

  // Returns the additional cost of recomputing an operator's result for the backward pass instead
  // of saving it.
  Cost recompute_cost(const ops::Op& op, const ops::Signature& s,
                      std::span<const TensorType> operands, const TensorType& result,
                      const machine::NodeLayout& layout, const KernelRole& role = {}) const;

  using LayoutId = Transitions::LayoutId;
  LayoutId intern_layout(const machine::Layout& layout) {
    return transitions_.intern_layout(layout);
  }

  // Returns the cost of resharding a tensor and of resharding its gradient back. `blocks`: nothing
  // can overlap it. `gradient`: the gradient's type, if there is one.
  Cost reshard_cost(const TensorType& tensor, LayoutId from, LayoutId to,
                    std::optional<DType> gradient, bool blocks);
  Cost reshard_cost(const TensorType& tensor, const machine::Layout& from,
                    const machine::Layout& to, std::optional<DType> gradient, bool blocks) {
    return reshard_cost(tensor, intern_layout(from), intern_layout(to), gradient, blocks);
  }

  // Returns the time of resharding a tensor of `bytes` global bytes. If `to` has partial sums,
  // `from` must have them, too.
  Seconds reshard_time(const machine::Layout& from, const machine::Layout& to, double bytes);

  // Cost of one pair of layouts; `reshard` returns all pairs of two lists, row by row.
  struct ReshardCost {
    Seconds time;  // infinite if impossible
    Bytes memory;
    Seconds outer = {};
    Seconds rooted = {};  // time on one of the outer level's streams for rooted collectives
    // Part of these times in the forward pass.
    Seconds forward = {};
    Seconds forward_outer = {};
    Seconds forward_rooted = {};
  };
  using LayoutList = Transitions::LayoutIdList;
  std::vector<ReshardCost> reshard_costs(const TensorType& tensor, const LayoutList& from,
                                         const LayoutList& to, std::optional<DType> gradient);

  // Returns the cost of bringing an operand in `layout` into windows, and its gradient back.
  // Returns zero cost if the operand is read in shards.
  Cost halo_cost(const TensorType& tensor, const ops::Signature& s, std::size_t input,
                 const machine::Layout& layout, bool gradient) const;

  [[nodiscard]] DType gradient_dtype(DType weight) const { return precision_.gradient(weight); }

 private:
  // Types of an operator's operands and result on one device, and the layout of the result.
  struct ShardedTypes {
    std::vector<TensorType> inputs;
    TensorType output;
    machine::Layout where;
  };
  [[nodiscard]] ShardedTypes compute_sharded_types(const ops::Signature& s,
                                                   std::span<const TensorType> operands,
                                                   const TensorType& result,
                                                   const machine::NodeLayout& layout) const;
  [[nodiscard]] PassTimes pass_times(const ShardedTypes& parts, const ops::Op& op, DType dtype,
                                     ops::InputMask differentiated, const KernelRole& role) const;
  [[nodiscard]] ReshardCost pair_cost(Transitions::Both both, double bytes,
                                      std::optional<double> gradient_bytes) const;
  static std::optional<double> gradient_bytes(const TensorType& tensor,
                                              std::optional<DType> gradient);

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  plan::Optimizer optimizer_;
  plan::Precision precision_;
  Transitions transitions_;
};

}  // namespace tandem::predict
