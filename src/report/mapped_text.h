// Prints a plan's parallel computation graph as text, block by block.
//
//   24 times, i from 0 (in: tokens_embedded, later the last round's l{i}.ffn_norm):
//     l{i}.ffn2  linear  [16, 512, 1024]  5.59 MB  2.8 MB  batch over node 2, row-parallel (k) ...
//     l{i}.sum   add     [16, 512, 1024]  5.59 MB          batch over node 2, replicated over gpu 3
//       from l{i}.ffn2: all_reduce 5.59 MB over gpu 3 (forward)
#pragma once

#include <string>

#include "predict/memory.h"
#include "report/blocks.h"
#include "report/mapped_model.h"

namespace tandem::report {

// Returns one line per compute operator, followed by a line for each operand that is communicated.
std::string mapped_text(const MappedModel& mapped, const std::vector<FoldedBlock>& blocks,
                        const machine::Machine& machine, const lower::Program& program);

// Returns one line per kind of collective, levels that it spans, and pass.
std::string traffic_text(const std::vector<Traffic>& traffic, const machine::Machine& machine,
                         const machine::Digits& digits);

// Returns the peak and its parts: "41 kB: weights 32.8 kB, optimizer state 0 B, ...".
std::string memory_text(const predict::Memory& memory);

// Returns "all_reduce 5.59 MB over gpu 3 (forward)".
std::string move_text(const TensorMove& move, const machine::Machine& machine,
                      const machine::Digits& digits);

// Returns the moves of one operand. Names the levels once for consecutive moves over the same ones:
// "all_reduce 2 kB over gpu 3 (forward), all_reduce 2 kB (backward)".
std::string moves_text(const std::vector<TensorMove>& moves, const machine::Machine& machine,
                       const machine::Digits& digits);

// Returns how a node is partitioned: "stage 1, batch over node 2, recomputed".
std::string work_text(const MappedNode& node, const machine::Machine& machine,
                      const lower::Program& program);

}  // namespace tandem::report
