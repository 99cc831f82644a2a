// tandem rules verify --properties: checks whether the operator properties given to Z3 are true and
// free of contradictions, and which of them follow from others. The three checks run in parallel.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <optional>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/rules.h"
#include "verify/properties.h"
#include "verify/property_check.h"

namespace tandem::cli {

namespace {

struct Checked {
  std::vector<verify::PropertyCheck> properties;
  // The result of looking for a contradiction; empty if built without Z3.
  std::optional<verify::SmtAnswer> contradiction;
  std::vector<verify::Redundant> redundant;
  double seconds = 0;

  [[nodiscard]] std::size_t count_holding() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        properties, [](const verify::PropertyCheck& check) { return check.holds(); }));
  }
  [[nodiscard]] bool has_contradiction() const { return contradiction && contradiction->proved; }
  [[nodiscard]] bool is_sound() const {
    return count_holding() == properties.size() && !has_contradiction();
  }
};

std::vector<rewrite::Rule> load_properties(const PropertyFlags& flags) {
  if (flags.files.empty()) return verify::all_properties();
  std::vector<rewrite::Rule> out;
  for (const auto& path : flags.files) {
    auto file = read_rules(path);
    print_lacking(file.lacking);
    std::ranges::move(file.rules, std::back_inserter(out));
  }
  return out;
}

Checked check_all(const std::vector<rewrite::Rule>& properties, const PropertyFlags& flags) {
  Checked out;
  out.properties.resize(properties.size());
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Progress progress;
  std::atomic<std::size_t> done = 0;
  // The two queries to Z3 come first, as they take long.
  const std::size_t of_smt = verify::SmtProver::is_available() ? 2 : 0;
  parallel_for(of_smt + properties.size(), resolve_thread_count(flags.threads), [&](std::size_t i) {
    if (of_smt > 0 && i == 0) {
      const verify::SmtProver prover(properties);
      out.contradiction = prover.find_contradiction(Seconds{flags.seconds});
    } else if (of_smt > 0 && i == 1) {
      out.redundant = verify::find_redundant(properties);
    } else {
      out.properties[i - of_smt] = verify::check_property(properties[i - of_smt]);
      ++done;
    }
    progress.show(fmt::format("{} of {} properties, {}", done.load(), properties.size(),
                              out.contradiction ? "Z3 is done" : "Z3 is running"));
  });
  out.seconds = seconds();
  return out;
}

const char* get_status(const verify::PropertyCheck& check) {
  if (!check.refuted.empty()) return "refuted";
  return check.holds() ? "holds" : "untried";
}

Json result_json(const Checked& result) {
  Json rules = Json::array();
  for (const auto& check : result.properties) {
    Json entry = {{"name", check.name},         {"status", get_status(check)},
                  {"patterns", check.patterns}, {"instances", check.instances},
                  {"divided", check.divided},   {"complete", check.complete}};
    if (!check.refuted.empty()) entry["counterexample"] = check.refuted;
    rules.push_back(std::move(entry));
  }
  Json out = {{"properties", result.properties.size()}, {"hold", result.count_holding()}};
  if (result.contradiction) {
    Json redundant = Json::array();
    for (const auto& [name, from] : result.redundant) {
      redundant.push_back({{"name", name}, {"follows_from", from}});
    }
    out["contradiction"] = result.has_contradiction();
    if (result.has_contradiction()) out["contradiction_from"] = result.contradiction->used;
    out["contradiction_s"] = result.contradiction->time.value;
    out["redundant"] = std::move(redundant);
  } else {
    out["contradiction"] = nullptr;
    out["redundant"] = nullptr;
  }
  out["seconds"] = result.seconds;
  out["rules"] = std::move(rules);
  return out;
}

void print(const Checked& result) {
  std::size_t widest = 0;
  for (const auto& check : result.properties) widest = std::max(widest, check.name.size());
  for (const auto& check : result.properties) {
    std::cout << fmt::format(
        "{:<{}}  {:<7}  {}\n", check.name, widest, get_status(check),
        check.refuted.empty()
            ? fmt::format("on {} instances, {} of them sharded{}", check.instances, check.divided,
                          check.complete ? ", with all small sizes" : "")
            : check.refuted);
  }
  for (const auto& [name, from] : result.redundant) {
    std::cout << fmt::format("{} follows from {}\n", name, join(from, ", "));
  }
  std::cout << fmt::format("{} of {} properties hold; ", result.count_holding(),
                           result.properties.size());
  if (!result.contradiction) {
    std::cout << "contradictions were not checked: built without Z3";
  } else if (result.has_contradiction()) {
    std::cout << "these contradict each other: " << join(result.contradiction->used, ", ");
  } else {
    std::cout << fmt::format("Z3 found no contradiction in {:.1f} s; {} {} from others",
                             result.contradiction->time.value, result.redundant.size(),
                             result.redundant.size() == 1 ? "follows" : "follow");
  }
  std::cout << fmt::format(" ({:.1f} s)\n", result.seconds);
}

}  // namespace

int verify_properties(const PropertyFlags& flags) {
  const auto result = check_all(load_properties(flags), flags);
  if (flags.json) {
    print_json(result_json(result));
  } else {
    print(result);
  }
  return flags.strict && !result.is_sound() ? ExitCode::kCannot : ExitCode::kDone;
}

}  // namespace tandem::cli
