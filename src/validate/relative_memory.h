// Memory stated relative to another run: "activation_pct_of_tp_baseline" is a percentage of the
// activations with tensor parallelism alone. Such records (figure 7 of arXiv:2205.05198) name the
// model. The last word of their id is the technique: seq, sel, seqsel or full.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "validate/record.h"

namespace tandem::validate {

bool is_relative(std::string_view metric);

// Fills in the fields that such records omit. They come from the first record of the same source
// (its first word) that states the sizes of the model of this name.
void complete_relative_records(std::vector<Record>& records);

// Returns the reference run of a record: no recomputation, no sequence parallelism.
Record make_baseline(Record record);

}  // namespace tandem::validate
