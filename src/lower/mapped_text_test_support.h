// Test support: builds a mapped graph from text.
#pragma once

#include <map>
#include <string>

#include "graph/text.h"
#include "machine/layout.h"
#include "plan/plan.h"

namespace tandem::lower {

// Returns the parallel computation graph `text` with the layout of each node from `layouts`, by
// name.
inline plan::MappedGraph parse_mapped(const std::string& text,
                                      const std::map<std::string, std::string>& layouts) {
  plan::MappedGraph out;
  out.pcg = graph::parse_graph(text);
  for (auto id : out.pcg.ids()) {
    out.layouts.push_back(machine::parse_layout(layouts.at(out.pcg.node(id).name)).value());
  }
  out.stage.resize(out.pcg.size());
  out.recompute.resize(out.pcg.size());
  return out;
}

}  // namespace tandem::lower
