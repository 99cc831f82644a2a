// What a state or a transition costs in the search, in kinds that are priced apart (Prices).
// All of forward and backward together, on one device.
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
  Seconds update;    // optimizer: compute that can run while something else is sent
  Seconds blocking;  // communication that nothing can run beside
  Seconds async;     // other communication: gradients, resharding beside a parallel branch
  Bytes memory;
  Seconds outer;  // of all communication, what is on the outer stream (Transitions)
  // The forward pass's part of these.
  struct Forward {
    Seconds compute;
    Seconds blocking;
    Seconds outer;
  };
  Forward forward = {};

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
  // Of so many passes, of which so many have their results kept at once.
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

// What a second or a byte of each kind counts for.
struct Prices {
  double compute = 1;
  double update = 1;
  double blocking = 1;
  double async = 0.5;
  double per_byte = 0;
  double outer = 0;
  double rooted = 0;
  // What a second of the forward pass counts for beside that.
  struct Forward {
    double compute = 0;
    double blocking = 0;
    double outer = 0;
    double rooted = 0;
  };
  Forward forward = {};

  [[nodiscard]] double of(const Cost& c) const {
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

  // An operator's compute, and the tensor it leaves for the backward pass.
  // `differentiated`: operands that get a gradient. `role`: predict/kernels.h.
  Cost compute(const ops::Op& op, const ops::Signature& s, std::span<const TensorType> operands,
               const TensorType& result, const machine::NodeLayout& layout,
               ops::InputMask differentiated, const KernelRole& role = {}) const;

  // The compute of `compute`, by pass.
  struct PassTimes {
    Seconds forward;
    Seconds backward;
  };
  [[nodiscard]] PassTimes pass_times(const ops::Op& op, const ops::Signature& s,
                                     std::span<const TensorType> operands, const TensorType& result,
                                     const machine::NodeLayout& layout,
                                     ops::InputMask differentiated,
                                     const KernelRole& role = {}) const;

  // Does it not matter which device does something?
  [[nodiscard]] bool has_equal_devices() const { return machine_.groups.empty(); }

  [[nodiscard]] const machine::Software& software() const { return machine_.device.software; }

  // A weight stored in this layout: memory, gradient synchronisation, update.
  // `looked_up`: the shard of indices into a table whose gradient is row-sparse, else null.
  // `of_product`: of one user alone, once a step, that makes its gradient by a product.
  Cost weight(const Shape& sizes, DType dtype, const machine::Layout& layout,
              const Shape* looked_up = nullptr, bool of_product = false);

  // One that is not trained: memory alone.
  [[nodiscard]] Cost frozen_weight(const Shape& sizes, DType dtype,
                                   const machine::Layout& layout) const;

  // A weight that is used in several stages of a pipeline, and its gradient: from one of them to
  // another.
  [[nodiscard]] Cost sent_between_stages(const TensorType& weight, const machine::Layout& layout,
                                         machine::DigitMask stages) const;

  // What it costs more to store a weight that is used in `used` in the parts `stored`, its gradient
  // reduce-scattered: gathered once a step and kept, or for the forward pass and for the backward
  // pass anew.
  enum class Gathered : std::uint8_t { kOnce, kForEachPass };
  Cost stored_in_parts(const TensorType& weight, const machine::Layout& used,
                       const machine::Layout& stored, Gathered gathered);

  // What it costs more to compute an operator's result again for the backward pass than to keep it.
  Cost computed_again(const ops::Op& op, const ops::Signature& s,
                      std::span<const TensorType> operands, const TensorType& result,
                      const machine::NodeLayout& layout, const KernelRole& role = {}) const;

  using LayoutId = Transitions::LayoutId;
  LayoutId id_of(const machine::Layout& layout) { return transitions_.id_of(layout); }

  // A tensor brought from one layout to another, and its gradient brought back. `blocks`: nothing
  // can run beside it. `gradient`: its type, if it has one.
  Cost reshard(const TensorType& tensor, LayoutId from, LayoutId to, std::optional<DType> gradient,
               bool blocks);
  Cost reshard(const TensorType& tensor, const machine::Layout& from, const machine::Layout& to,
               std::optional<DType> gradient, bool blocks) {
    return reshard(tensor, id_of(from), id_of(to), gradient, blocks);
  }

  // Of a tensor of so many bytes in all. `from` has partial sums where `to` has some.
  Seconds time(const machine::Layout& from, const machine::Layout& to, double bytes);

  // The same for all pairs of two lists, row by row.
  struct Moved {
    Seconds time;  // infinite where it is impossible
    Bytes memory;
    Seconds outer = {};
    Seconds rooted = {};  // on one of the outer level's streams to a root or from it
    // The forward pass's part.
    Seconds forward = {};
    Seconds forward_outer = {};
    Seconds forward_rooted = {};
  };
  using LayoutList = Transitions::List;
  std::vector<Moved> reshard(const TensorType& tensor, const LayoutList& from, const LayoutList& to,
                             std::optional<DType> gradient);

  // An operand that lies in this layout brought into windows, and its gradient back from them.
  // Nothing where it is read in shards.
  Cost halo(const TensorType& tensor, const ops::Signature& s, std::size_t input,
            const machine::Layout& layout, bool gradient) const;

  [[nodiscard]] DType gradient_of_weight(DType weight) const { return precision_.gradient(weight); }

 private:
  // An operator's operands and result as one device has them.
  struct Parts {
    std::vector<TensorType> inputs;
    TensorType output;
    machine::Layout where;
  };
  [[nodiscard]] Parts parts_of(const ops::Signature& s, std::span<const TensorType> operands,
                               const TensorType& result, const machine::NodeLayout& layout) const;
  [[nodiscard]] PassTimes pass_times(const Parts& parts, const ops::Op& op, DType dtype,
                                     ops::InputMask differentiated, const KernelRole& role) const;
  [[nodiscard]] Moved moved(Transitions::Both both, double bytes,
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
