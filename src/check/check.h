// tandem check: is a plan what its model computes? Its graph without parallelization operators must
// be what its derivation makes of the model, the steps that make it parallel must lead to it, and
// what its program does to small tensors must be what one device does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine/machine.h"
#include "plan/parallelization.h"
#include "plan/plan.h"

namespace tandem::check {

struct Report {
  bool ok = false;
  std::string where = {};                  // a node; empty if ok
  std::string message = {};                // empty if ok
  std::size_t steps = 0;                   // of the derivation, all replayed
  std::vector<std::string> unproved = {};  // rules among them that are not proved
  std::size_t values = 0;                  // tensors compared
  double worst_error = 0;                  // relative
  bool whole = false;                      // the whole program was run; else operator by operator
  std::int64_t devices = 0;                // virtual ones, at the most
  std::int64_t micro_batches = 1;
  std::size_t programs = 0;      // run
  plan::Replayed parallel = {};  // the rules by which its operators are cut and brought together
};

// Of a plan that plan/json.h has read, so that it is legal. `model` is what it names, built for its
// batch and element type. The rules that the plan brings with it are proved anew; one that is not
// proved makes the plan wrong, unless that is allowed. `tell` hears how far it is.
Report check_plan(const plan::Plan& plan, const machine::Digits& digits, const graph::Graph& model,
                  bool allow_unproved = false,
                  const std::function<void(const std::string&)>& tell = {});

}  // namespace tandem::check
