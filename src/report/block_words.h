// A plan's blocks in words: what repeats once, and in each block who does the same.
//
//   7 times, i from 2:
//     batch over node 4, k over node 2: linear{i}
//     stored: dimension 1 over node 2, copies over node 4: w{i}
#pragma once

#include <string>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

struct BlockWords {
  struct Line {
    bool stored = false;             // of weights and inputs: how they lie; else what is done
    std::string how;                 // "batch over node 4, copies over gpu 6"
    std::vector<std::string> nodes;  // names as graph text has them in the block
  };
  std::int64_t count = 1;
  std::int64_t from = 0;  // of the number in braces, where the block repeats
  std::string variable;   // "i"
  std::vector<Line> lines;
  std::vector<BlockWords> blocks;  // inside it
};

std::vector<BlockWords> block_words(const PlanView& view);

std::string block_text(const std::vector<BlockWords>& blocks);

}  // namespace tandem::report
