#include "cli/idle_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tandem::cli {

namespace {

struct FlagUse {
  std::string flag;
  bool is_given;
  std::vector<std::string> searches;  // that use the flag
};

template <class List, class Value>
bool contains(const List& list, const Value& value) {
  return std::ranges::find(list, value) != list.end();
}

bool is_switched_off(const Job& job, std::string_view shortcut) {
  return !job.without.empty() && contains(split(job.without, ','), shortcut);
}

std::vector<FlagUse> list_flag_uses(const Job& job) {
  const std::vector<std::string> rewrite = {"joint", "sequential", "unity"};
  return {
      {"--k", job.least_nodes.has_value(), {"unity"}},
      {"--alpha", job.alpha.has_value(), rewrite},
      {"--max-rewrites", job.max_rewrites.has_value(), rewrite},
      {"--tolerance", job.tolerance.has_value(), {"joint", "sequential", "layouts", "mcmc"}},
      {"--seed", job.seed.has_value(), {"mcmc"}},
      {"--without cache", is_switched_off(job, "cache"), rewrite},
      {"--without split", is_switched_off(job, "split"), rewrite},
      {"--without dp", is_switched_off(job, "dp"), {"joint", "sequential", "layouts", "unity"}},
  };
}

// Appends the flags that have no effect with --stale-weights. Omits those that find_idle_flags
// reports for another reason.
void add_idle_with_delayed_updates(const Job& job, std::vector<std::string>& out) {
  std::vector<std::string> idle;
  if (job.search == "mcmc") idle.emplace_back("--search mcmc");
  for (const auto& use : list_flag_uses(job)) {
    const bool is_idle = use.flag != "--tolerance" && contains(use.searches, job.search);
    if (use.is_given && is_idle) idle.push_back(use.flag);
  }
  for (const auto& flag : idle) {
    out.push_back(
        fmt::format("{}: has no effect with --stale-weights, which compares known pipelines only "
                    "(--search unity searches for others)",
                    flag));
  }
}

}  // namespace

std::vector<std::string> find_idle_flags(const Job& job) {
  std::vector<std::string> out;
  for (const auto& use : list_flag_uses(job)) {
    if (!use.is_given || contains(use.searches, job.search)) continue;
    out.push_back(fmt::format("{}: has no effect with --search {} (only with --search {})",
                              use.flag, job.search, join(use.searches, ", ")));
  }
  if (job.stale_weights && job.search != "unity") add_idle_with_delayed_updates(job, out);
  return out;
}

}  // namespace tandem::cli
