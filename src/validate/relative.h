// Memory stated as a part of another run's: "activation_pct_of_tp_baseline", in percent of what
// tensor parallelism alone holds. Such records (figure 7 of arXiv:2205.05198) name the model, and
// the last word of their id the technique: seq, sel, seqsel or full.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "validate/record.h"

namespace tandem::validate {

bool is_relative(std::string_view metric);

// What such records leave out is that of the first record of the same source (its first word) that
// states the sizes of a model of this name.
void complete_relative(std::vector<Record>& records);

// The run that the record's number is a part of: nothing recomputed, sequences not divided.
Record baseline_of(Record record);

}  // namespace tandem::validate
