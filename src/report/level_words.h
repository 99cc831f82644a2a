// What each level of the machine does to one operator or stored tensor, in sentences:
// "2 nodes: the batch halved", "4 gpus: n (dimension 0 of w1) in 4 parts, so dimension 1 of the
// result is, too".
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"
#include "strategies/factor_kinds.h"

namespace tandem::report {

struct LevelWords {
  std::string level;       // "gpu"; "micro-batch"
  std::int64_t count = 1;  // units of it that differ in what they do, or hold
  std::vector<std::string> parts;

  [[nodiscard]] std::string text() const;  // "2 nodes: the batch halved"
};

// Of a node that computes. `analyzed` is strategies::analyze's of the PCG.
std::vector<LevelWords> operator_levels(const lower::Program& program,
                                        const machine::Machine& machine, graph::NodeId id,
                                        const strategies::AnalyzedNode& analyzed);
// Of any tensor, by its layout.
std::vector<LevelWords> storage_levels(const lower::Program& program,
                                       const machine::Machine& machine,
                                       const machine::Layout& layout);

// In a line: "dimension 0 over gpu 4, copies over node 2". Of a tensor that is whole everywhere and
// nowhere else: "".
std::string storage_text(const lower::Program& program, const machine::Machine& machine,
                         const machine::Layout& layout);

}  // namespace tandem::report
