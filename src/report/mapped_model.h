// A readable view of a plan: the model's nodes, each with its layout, its bytes per device and its
// communication. Parallelization operators are not nodes of this view. The communication of a chain
// of them becomes the moves of the node that reads the chain.
#pragma once

#include <vector>

#include "lower/program.h"
#include "predict/simulate.h"
#include "report/digit_text.h"

namespace tandem::report {

// A collective, or a send to another stage.
struct TensorMove {
  static constexpr std::size_t kResult = static_cast<std::size_t>(-1);

  std::size_t operand = 0;  // operand of the node, or kResult for its own result
  machine::Step kind = machine::Step::kAllReduce;
  machine::DigitMask digits = 0;
  Bytes bytes;              // lower::count_moved_bytes
  std::int64_t times = 1;   // transfers per step
  bool backward = false;    // whether it runs in the backward pass
  bool recomputed = false;  // whether it repeats a transfer of the forward pass for backward
  bool operator==(const TensorMove&) const = default;
};

struct MappedNode {
  TensorType type;                      // type of the result, with degrees
  std::vector<ParallelShape> operands;  // shapes that the operator reads
  std::vector<Use> uses;                // without the pipeline's digits; empty for sources
  Bytes result;                         // bytes of the result on one device
  Bytes weights;                        // bytes of the weights that it is the first to read
  std::uint16_t stage = 0;              // pipeline stage; 0 for sources
  bool recomputed = false;              // whether it is recomputed in the backward pass
  std::vector<TensorMove> moves;        // by operand, then in the program's order
  bool operator==(const MappedNode&) const = default;
};

struct MappedModel {
  graph::Graph model;
  std::vector<MappedNode> nodes;  // by node of the model
};

// Returns the view of a lowered program.
MappedModel make_mapped_model(const lower::Program& program);

// Communication of one kind, over the same levels, that one device takes part in per step.
struct Traffic {
  machine::Step kind = machine::Step::kAllReduce;
  machine::DigitMask digits = 0;
  bool backward = false;
  std::int64_t times = 0;
  Bytes bytes;
};

// Returns the communication of the busiest device: forward first, then by kind.
std::vector<Traffic> sum_traffic(const lower::Program& program,
                                 const predict::Simulation& simulation);

}  // namespace tandem::report
