// Describes how each machine level partitions one operator or stored tensor:
// "2 nodes: the batch split 2 ways",
// "4 gpus: n (dimension 0 of w1) split 4 ways, which shards dimension 1 of the result".
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"
#include "strategies/factor_kinds.h"

namespace tandem::report {

struct LevelWords {
  std::string level;               // "gpu"; "micro-batch"
  std::int64_t count = 1;          // number of units in the level
  std::vector<std::string> parts;  // what groups of its units do or hold

  [[nodiscard]] std::string text() const;  // "2 nodes: the batch split 2 ways"
};

// Returns what each level does for the compute node `id`. `analyzed` is the node's entry in the
// result of strategies::analyze for the program's PCG.
std::vector<LevelWords> operator_levels(const lower::Program& program,
                                        const machine::Machine& machine, graph::NodeId id,
                                        const strategies::AnalyzedNode& analyzed);
// Returns what each level holds of a tensor with this layout.
std::vector<LevelWords> storage_levels(const lower::Program& program,
                                       const machine::Machine& machine,
                                       const machine::Layout& layout);

// Returns a layout in one line: "dimension 0 sharded over gpu 4, replicated over node 2". Returns
// "" if the layout neither shards nor replicates the tensor.
std::string storage_text(const lower::Program& program, const machine::Machine& machine,
                         const machine::Layout& layout);

}  // namespace tandem::report
