// Describes a plan's layouts by block. Repeated layers are one block, and nodes with the same
// layout share a line.
//
//   7 times, i from 2:
//     batch over node 4, row-parallel (k) over node 2: linear{i}
//     stored: dimension 1 sharded over node 2, replicated over node 4: w{i}
#pragma once

#include <string>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

struct BlockWords {
  struct Line {
    bool stored = false;             // whether these are weights and inputs, not operators
    std::string how;                 // "batch over node 4, replicated over gpu 6"
    std::vector<std::string> nodes;  // names as in graph text: "linear{i}"
  };
  std::int64_t count = 1;
  std::int64_t from = 0;  // first value of the variable if the block repeats
  std::string variable;   // "i"
  std::vector<Line> lines;
  std::vector<BlockWords> blocks;  // nested blocks
};

std::vector<BlockWords> describe_blocks(const PlanView& view);

std::string block_text(const std::vector<BlockWords>& blocks);

}  // namespace tandem::report
