// Returns the content of mapped_text.h as JSON: the values of the keys "blocks", "communication"
// and "memory" of `tandem show --machine --json`.
//
//   {"count": 24, "nodes": [{"name", "op", "type", "split": {"batch": 8},
//                            "over": {"batch": {"node": 8}}, "bytes_per_device", ...}],
//    "moves": [{"to", "from", "kind", "over": {"gpu": 3}, "bytes", "times", "backward"}]}
//
// A block has either "nodes" and "moves", or "blocks".
#pragma once

#include <nlohmann/json.hpp>

#include "predict/memory.h"
#include "report/blocks.h"
#include "report/mapped_model.h"

namespace tandem::report {

using Json = nlohmann::ordered_json;

Json blocks_json(const MappedModel& mapped, const std::vector<FoldedBlock>& blocks,
                 const machine::Machine& machine, const machine::Digits& digits);
Json traffic_json(const std::vector<Traffic>& traffic, const machine::Machine& machine,
                  const machine::Digits& digits);
Json memory_json(const predict::Memory& memory);

}  // namespace tandem::report
