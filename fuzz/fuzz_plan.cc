// Fuzzing of the parser of a plan.
#include "plan/json.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) { plan::to_json(plan::parse_plan(input, "fuzz")); }
