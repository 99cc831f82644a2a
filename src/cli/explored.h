// What `explore` explores: the cases of its flags, and the points that it lists.
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
  std::vector<std::string> machines;    // each may be several, with commas
  std::vector<std::string> strategies;  // groups or texts; empty: all
  std::vector<std::string> scales;
  std::vector<std::string> vary;
  unsigned threads = 0;  // 0: as many as there are
  std::size_t top = 15;
  bool fits = false;     // list only what does
  std::string csv, svg;  // files; empty: none
};

// A case with what it points to.
struct Prepared {
  Job job;
  Setup setup;
  strategies::Problem problem;
  VariantSettings settings;

  explicit Prepared(const Variant& variant)
      : job(variant.job),
        setup(resolve(job)),
        problem(setup.graph, setup.digits),
        settings(settings_of(variant, problem)) {}
};

// A combination of values that there cannot be.
struct Impossible {
  search::Values values;
  UserError error;
};

struct Explored {
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<search::Case> cases;
  search::Exploration result;
  std::vector<Impossible> impossible;
  bool is_complete = true;
  // What strategies are tried on: cases without the settings of strategies that tell them apart.
  std::vector<search::Values> runs;
  std::vector<std::size_t> run_of_case;
  std::vector<std::vector<std::size_t>> of_case;  // its points, which other cases may share
  std::size_t without_fit = 0;                    // points that --fits leaves out

  // Combinations of values and strategies that there cannot be.
  [[nodiscard]] std::size_t skipped() const { return impossible.size() + result.refused.size(); }
};

// Explores all cases. Combinations that there cannot be are left out, unless there is no other:
// then throws the first one's UserError. Equal points are listed once.
Explored explore_all(const ExploreFlags& flags);

}  // namespace tandem::cli
