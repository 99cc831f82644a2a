// The task interpreter: runs a program on virtual devices, every device's shard of every buffer a
// dense array of its own, tasks one after another and collectives literally by their definitions.
// The oracle for lowering: what it computes, put together by the meaning of a layout, must equal
// the sequential interpreter's result. It shares the evaluator of terms with that one, and nothing
// with graph/virtual_devices or the runtime.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/sequential.h"
#include "lower/program.h"
#include "tensor/dense.h"

namespace tandem::lower {

template <class T>
struct Execution {
  // As the last step has left them: by buffer, by slot (those of the first micro-batch, where there
  // is one buffer for the step). No data where the slot holds no shard, or no task has written.
  std::vector<std::vector<Dense<T>>> buffers;
};

// `sources` gives the whole value of an input or weight of `program.pcg`; where a source is partial
// its first summand is all of it. Plain SGD: weight - learning_rate * gradient. Adam's update has
// no meaning in the field, so under kAdam weights and states stay as they are.
// CHECKs that every task reads only what an earlier one has written. Operands that a backward task
// does not list hold garbage there: one that it needs all the same would spoil the result.
template <class T>
Execution<T> run_program(const Program& program, const graph::SourceValues<T>& sources,
                         T learning_rate);

// The same for several steps, which overlap where updates are delayed. Of weights only the first
// step's values are asked for.
template <class T>
Execution<T> run_steps(const Program& program, const graph::StepValues<T>& sources,
                       std::int64_t steps, T learning_rate);

// The whole tensor in a buffer: concatenated over dimensions, summed over partial digits, of the
// first replica. `replicas_agree`, when given, becomes false if some replica holds something else.
template <class T>
Dense<T> assemble(const Program& program, const Execution<T>& execution, BufferId buffer,
                  bool* replicas_agree = nullptr);

// What a training step is for: of the last one.
template <class T>
struct StepResult {
  Dense<T> loss;
  std::map<std::string, Dense<T>> gradients;  // by weight: what its update reads
  std::map<std::string, Dense<T>> weights;    // after the update
  bool replicas_agree = true;                 // in all of these
};
template <class T>
StepResult<T> step_result(const Program& program, const Execution<T>& execution);

}  // namespace tandem::lower
