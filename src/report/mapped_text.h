// A plan's parallel computation graph in words, block by block.
//
//   24 times, i from 0 (in is tokens_embedded, then l{i}.ffn_norm):
//     l{i}.ffn2  linear  [16, 512, 1024]  5.59 MB  2.8 MB  batch over node 2, k over gpu 3
//     l{i}.sum   add     [16, 512, 1024]  5.59 MB          batch over node 2, copies over gpu 3
//       from l{i}.ffn2: all_reduce 5.59 MB over gpu 3 (forward)
#pragma once

#include <string>

#include "predict/memory.h"
#include "report/blocks.h"
#include "report/mapped_model.h"

namespace tandem::report {

// One line per operator that computes, and below it one for each operand that communicates.
std::string mapped_text(const MappedModel& mapped, const std::vector<Block>& blocks,
                        const machine::Machine& machine, const lower::Program& program);

// One line per kind of collective, levels and pass.
std::string traffic_text(const std::vector<Traffic>& traffic, const machine::Machine& machine,
                         const machine::Digits& digits);

// "41 kB: weights 32.8 kB, optimizer state 0 B, ...".
std::string memory_text(const predict::Memory& memory);

// "all_reduce 5.59 MB over gpu 3 (forward)".
std::string move_text(const Move& move, const machine::Machine& machine,
                      const machine::Digits& digits);

// Of one operand; levels are told once: "all_reduce 2 kB over gpu 3 (forward), all_reduce 2 kB
// (backward)".
std::string moves_text(const std::vector<Move>& moves, const machine::Machine& machine,
                       const machine::Digits& digits);

// "stage 1, batch over node 2, made again".
std::string work_text(const MappedNode& node, const machine::Machine& machine,
                      const lower::Program& program);

}  // namespace tandem::report
