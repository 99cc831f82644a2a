// A plan as degrees of parallelism, which is all that launchers of other frameworks are told. A
// plan has that form if a known strategy makes the same of its network: every tensor where the plan
// has it, the same schedule, the same made again in the backward pass. What was searched tensor by
// tensor mostly has not, and then the first tensor that lies otherwise is named.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "strategies/setting.h"

namespace tandem::frameworks {

struct Degrees {
  strategies::Setting setting;  // complete; whose network it is
  std::int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::int64_t zero = 0;  // 3: weights gathered for every use, which is FSDP
  std::int64_t micro_batches = 1;
  std::int64_t samples = 1;  // of a micro-batch on one device

  // Of a network with attention: by pipeline stage, how many layers it has. Empty where a stage
  // begins inside of a layer, or there is one stage.
  std::vector<std::int64_t> layers;
  bool is_transformer = false;
};

// Throws UserError of kind `target` ("megatron") that names the tensor, and why there is no form.
Degrees degrees_of(const plan::Plan& plan, const machine::Machine& machine,
                   const std::string& target);

// "with dimension 0 over node 2, in copies over gpu 4".
std::string layout_words(const machine::Layout& layout, const machine::Machine& machine,
                         const machine::Digits& digits);

// Throws UserError of kind `target` where the plan's graph is not the model's own.
void check_not_rewritten(const plan::Plan& plan, const std::string& target);

}  // namespace tandem::frameworks
