// A plan as people read it: the model's nodes, and for each what the devices do, what a device
// holds, and what is communicated for it. Parallelization operators are not nodes here; what their
// chains become are the moves of the node that reads them.
#pragma once

#include <vector>

#include "lower/program.h"
#include "predict/simulate.h"
#include "report/digit_text.h"

namespace tandem::report {

// A collective, or what is sent to another stage.
struct Move {
  static constexpr std::size_t kResult = static_cast<std::size_t>(-1);

  std::size_t operand = 0;  // of the node that it is for; kResult: the node's own result
  machine::Step kind = machine::Step::kAllReduce;
  machine::DigitMask digits = 0;
  Bytes bytes;             // lower::moved_bytes
  std::int64_t times = 1;  // a step
  bool backward = false;   // then it is the gradient that moves, or the operand is remade
  bool remade = false;
  bool operator==(const Move&) const = default;
};

struct MappedNode {
  TensorType type;                      // of the result, with degrees
  std::vector<ParallelShape> operands;  // as they are read
  std::vector<Use> uses;                // the pipeline's digits left out; empty for sources
  Bytes result;                         // that a device holds
  Bytes weights;                        // the same, of the weights that it is the first to read
  std::uint16_t stage = 0;              // of the pipeline; not told of sources
  bool remade = false;                  // made again in the backward pass
  std::vector<Move> moves;              // by operand, then in the program's order
  bool operator==(const MappedNode&) const = default;
};

struct MappedModel {
  graph::Graph model;
  std::vector<MappedNode> nodes;  // by its nodes
};

MappedModel mapped_model(const lower::Program& program);

// What one device takes part in, in one step.
struct Traffic {
  machine::Step kind = machine::Step::kAllReduce;
  machine::DigitMask digits = 0;
  bool backward = false;
  std::int64_t times = 0;
  Bytes bytes;
};

// Of the busiest device: forward first, then by kind.
std::vector<Traffic> traffic_of(const lower::Program& program,
                                const predict::Simulation& simulation);

}  // namespace tandem::report
