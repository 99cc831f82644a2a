// Expresses a plan as degrees of parallelism, the only input of other frameworks' launchers. A plan
// has this form if a known strategy maps its network the same way: the same layout of every tensor,
// the same schedule, the same recomputation. A plan that was searched tensor by tensor usually has
// not; the error then names the first tensor that differs.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "strategies/setting.h"

namespace tandem::frameworks {

struct Degrees {
  strategies::Setting setting;  // complete; of the plan's network
  std::int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::int64_t zero = 0;  // 3: weights are gathered for every use, as in FSDP
  std::int64_t micro_batches = 1;
  std::int64_t samples = 1;  // per micro-batch and device

  // Number of layers of each pipeline stage of a network with attention. Empty if a stage begins
  // inside a layer, or there is one stage.
  std::vector<std::int64_t> layers;
  bool is_transformer = false;
};

// Returns the degrees of `plan`. Throws UserError of kind `target` ("megatron") that names the
// tensor that differs, and why.
Degrees find_degrees(const plan::Plan& plan, const machine::Machine& machine,
                     const std::string& target);

// Describes `layout` in words: "replicated over gpu 4, sharded in dimension 0 over node 2".
std::string describe_layout(const machine::Layout& layout, const machine::Machine& machine,
                            const machine::Digits& digits);

// Throws UserError of kind `target` if the plan rewrites the model's graph.
void check_not_rewritten(const plan::Plan& plan, const std::string& target);

}  // namespace tandem::frameworks
