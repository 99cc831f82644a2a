// The task interpreter runs a program on virtual devices. Every device's shard of every buffer is a
// dense array of its own; tasks run one after another, and collectives literally follow their
// definitions. It is the oracle for lowering: its results, assembled by their layouts, must equal
// those of the sequential interpreter. It shares the term evaluator with that interpreter, and no
// code with graph/virtual_devices or the runtime.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/sequential.h"
#include "lower/program.h"
#include "tensor/dense.h"

namespace tandem::lower {

// The buffers of all virtual devices after a run.
template <class T>
struct Execution {
  // Contents after the last step, by buffer and slot. A buffer that exists once per step has only
  // the first micro-batch's slots. Data is empty if the slot holds no shard, or if no task has
  // written it.
  std::vector<std::vector<Dense<T>>> buffers;
};

// Runs one step of `program` and returns its buffers. `sources` gives the whole value of an input
// or weight of `program.pcg`; a partial source has it as its first summand. The update is plain
// SGD, weight - learning_rate * gradient, or SGD with momentum. Adam's update is not defined in the
// field, so under kAdam weights and states do not change.
//
// CHECKs that every task reads only what an earlier one has written. Operands that a backward task
// does not list contain garbage, so that a missing operand would spoil the result.
template <class T>
Execution<T> run_program(const Program& program, const graph::SourceValues<T>& sources,
                         T learning_rate);

// Like run_program for several steps, which overlap with delayed updates. `sources` gives weights
// only for the first step.
template <class T>
Execution<T> run_steps(const Program& program, const graph::StepValues<T>& sources,
                       std::int64_t steps, T learning_rate);

// Returns the whole tensor of a buffer: the first replica, concatenated over dimensions and summed
// over partial digits. Sets `replicas_agree`, if given, to false if another replica differs.
template <class T>
Dense<T> assemble(const Program& program, const Execution<T>& execution, BufferId buffer,
                  bool* replicas_agree = nullptr);

// The results of a training step. assemble_step_result returns those of the last step.
template <class T>
struct StepResult {
  Dense<T> loss;
  std::map<std::string, Dense<T>> gradients;  // by weight: the gradient that its update reads
  std::map<std::string, Dense<T>> weights;    // by weight: after the update
  bool replicas_agree = true;                 // in all of these
};
template <class T>
StepResult<T> assemble_step_result(const Program& program, const Execution<T>& execution);

}  // namespace tandem::lower
