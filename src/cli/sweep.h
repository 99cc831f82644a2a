// Runs the sweep of `tandem explore`: the cases that its flags ask for, and the points that it
// lists.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/vary.h"

namespace tandem::cli {

struct ExploreFlags {
  bool json = false;
  Job job;
  std::vector<std::string> machines;    // each may list several, with commas
  std::vector<std::string> strategies;  // groups or texts; empty: all
  std::vector<std::string> scales;
  std::vector<std::string> vary;
  unsigned threads = 0;  // 0: one per core
  std::size_t top = 15;
  bool fits = false;     // list only points that fit
  std::string csv, svg;  // files; empty: none
};

// The objects that a case refers to.
struct Prepared {
  Job job;
  Setup setup;
  strategies::Problem problem;
  VariantSettings settings;

  explicit Prepared(const Variant& variant)
      : job(variant.job),
        setup(resolve(job)),
        problem(setup.graph, setup.digits),
        settings(list_settings(variant, problem)) {}
};

// A combination of values that is not possible, with the reason.
struct Impossible {
  search::Values values;
  UserError error;
};

struct SweepResult {
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<search::Case> cases;
  search::Exploration result;
  std::vector<Impossible> impossible;
  bool is_complete = true;
  // Values of the cases without settings of strategies. Cases that differ only in those share a
  // run.
  std::vector<search::Values> runs;
  std::vector<std::size_t> run_of_case;
  std::vector<std::vector<std::size_t>> of_case;  // points of each case; cases may share points
  std::size_t without_fit = 0;                    // points that --fits excludes

  // Returns the number of impossible combinations of values and strategies.
  [[nodiscard]] std::size_t count_skipped() const {
    return impossible.size() + result.refused.size();
  }
};

// Explores all cases. Skips impossible combinations; throws the UserError of the first one if no
// combination is possible. Lists equal points once.
SweepResult explore_all(const ExploreFlags& flags);

}  // namespace tandem::cli
