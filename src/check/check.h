// `tandem check` verifies that a plan computes its model.
//
// It checks three things. The plan's graph without parallelization operators must equal the model
// after the plan's derivation. The steps that parallelize the graph must replay to it. The plan's
// program must compute on small tensors what one device computes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/replay_parallelization.h"
#include "machine/machine.h"
#include "plan/plan.h"

namespace tandem::check {

struct Report {
  bool ok = false;
  std::string where = {};                  // name of a node; empty if ok
  std::string message = {};                // empty if ok
  std::size_t steps = 0;                   // steps of the derivation, all replayed
  std::vector<std::string> unproved = {};  // rules of the plan that are not proved
  std::size_t values = 0;                  // number of tensors compared
  double worst_error = 0;                  // largest relative error
  bool whole = false;        // whether the whole program ran; if not, operator by operator
  std::int64_t devices = 0;  // largest number of virtual devices
  std::int64_t micro_batches = 1;
  std::size_t programs = 0;  // number of programs that ran
  Replayed parallel = {};    // rules that shard its operators and bring their results together
};

// Checks a plan that plan/json.h has read, so that it is legal. `model` is the model that the plan
// names, built for the plan's batch and element type. The rules in the plan file are proved again.
// An unproved rule makes the plan wrong, unless `allow_unproved` is set. `tell` receives progress
// messages.
Report check_plan(const plan::Plan& plan, const machine::Digits& digits, const graph::Graph& model,
                  bool allow_unproved = false,
                  const std::function<void(const std::string&)>& tell = {});

}  // namespace tandem::check
