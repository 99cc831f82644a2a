// Describes the machine of a plan for its page (report_data.h): levels, links, devices, and
// equivalence classes of devices.
//
//   {"name", "devices", "levels": [{"name", "count", ...}], "groups": [...], "digits": [{"level",
//    "size"}], "class_digits": [...], "stage_digits": [...], "stages", "classes": [{...}] | null}
//
// A class's number is the mixed-radix number of a device's coordinates in `class_digits`, outermost
// first. Its pipeline rank is the same for `stage_digits`. A digit of time has level null.
#pragma once

#include <nlohmann/json.hpp>

#include "report/plan_view.h"

namespace tandem::report {

nlohmann::ordered_json report_machine(const PlanView& view);

}  // namespace tandem::report
