// tandem rules verify: proves or refutes rules, one by one. With --proofs, what was found is kept
// for the shipped rules (rewrite/collection.h).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/command.h"
#include "cli/derived.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/rules.h"
#include "verify/verdict.h"

namespace tandem::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct VerifyFlags {
  bool json = false;
  bool strict = false;
  std::vector<std::string> files;
  std::string proofs;
  bool derive = false;
  std::vector<std::string> known;  // files, for derive
  std::size_t graphs = 100'000;
  unsigned threads = 0;
};

struct Judged {
  std::string name;
  Hash hash = 0;
  rewrite::Proof proof;
  std::string counterexample;
  std::string reason;                     // of one that is unproved, or applies nowhere
  std::optional<std::size_t> steps = {};  // in which the shipped rules derive it
};

// `derivers`, if any, are asked whether their rules derive a rule that is proved.
Judged judge(const rewrite::Rule& rule, Derivers* derivers, std::size_t graphs) {
  const auto verdict = verify::verify(rule);
  Judged out{.name = rule.name,
             .hash = hash_of(rule),
             .proof = verdict.proof,
             .counterexample = verdict.counterexample,
             .reason = verdict.reason};
  if (!is_proved(out.proof.status) || derivers == nullptr) return out;
  out.steps = steps_to_derive(verify::with_condition(rule, verdict), *derivers, {.graphs = graphs});
  return out;
}

struct Verified {
  std::vector<Judged> rules;
  std::vector<rewrite::Imported> lacking;
  double seconds = 0;
  bool derive = false;

  [[nodiscard]] std::size_t count(rewrite::Status status) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        rules, [&](const Judged& rule) { return rule.proof.status == status; }));
  }
  [[nodiscard]] std::size_t derived() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(rules, [](const Judged& rule) { return rule.steps.has_value(); }));
  }
  [[nodiscard]] std::size_t proved() const {
    return count(rewrite::Status::kProved) + count(rewrite::Status::kProvedIf);
  }
  // Of the proved ones, those whose source is legal nowhere: there is nothing to derive.
  [[nodiscard]] std::size_t nowhere() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        rules, [](const Judged& rule) { return rule.proof.prover == verify::kProvedByLayouts; }));
  }
};

Verified judge_files(const VerifyFlags& flags) {
  std::vector<rewrite::Rule> rules;
  Verified out;
  out.derive = flags.derive;
  for (const auto& path : flags.files) {
    auto file = read_rules(path);
    std::ranges::move(file.rules, std::back_inserter(rules));
    std::ranges::move(file.lacking, std::back_inserter(out.lacking));
  }
  const auto start = Clock::now();
  Progress progress;
  out.rules.resize(rules.size());
  std::atomic<std::size_t> done = 0;
  std::atomic<std::size_t> next = 0;
  const auto threads = threads_of(flags.threads);
  parallel_for(threads, threads, [&](std::size_t) {
    std::optional<Derivers> derivers;
    if (flags.derive) derivers.emplace(flags.known);
    for (auto i = next++; i < rules.size(); i = next++) {
      out.rules[i] = judge(rules[i], derivers ? &*derivers : nullptr, flags.graphs);
      progress.show(fmt::format("{} of {} rules", ++done, rules.size()));
    }
  });
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return out;
}

Json result_json(const Verified& result) {
  Json rules = Json::array();
  for (const auto& rule : result.rules) {
    Json entry = {{"name", rule.name}, {"status", name(rule.proof.status)}};
    if (!rule.proof.prover.empty()) entry["prover"] = rule.proof.prover;
    if (!rule.proof.condition.empty()) entry["condition"] = rule.proof.condition;
    if (!rule.counterexample.empty()) entry["counterexample"] = rule.counterexample;
    if (rule.steps) entry["derived"] = {{"steps", *rule.steps}};
    if (!rule.reason.empty()) entry["reason"] = rule.reason;
    rules.push_back(std::move(entry));
  }
  Json lacking = Json::array();
  for (const auto& rule : result.lacking) {
    lacking.push_back({{"name", rule.name}, {"reason", rule.lacking}});
  }
  Json out = {{"proved", result.proved()},
              {"proved_if", result.count(rewrite::Status::kProvedIf)},
              {"nowhere", result.nowhere()},
              {"refuted", result.count(rewrite::Status::kRefuted)},
              {"unproved", result.count(rewrite::Status::kUnproved)},
              {"lacking", lacking},
              {"seconds", result.seconds},
              {"rules", rules}};
  if (result.derive) out["derived"] = result.derived();
  return out;
}

void print(const Verified& result) {
  print_lacking(result.lacking);
  std::size_t widest = 0;
  for (const auto& rule : result.rules) widest = std::max(widest, rule.name.size());
  for (const auto& rule : result.rules) {
    auto line = fmt::format("{:<{}}  {:<9}", rule.name, widest, name(rule.proof.status));
    if (rule.steps)
      line +=
          fmt::format("  derived in {}", counted(static_cast<std::int64_t>(*rule.steps), "step"));
    for (const auto& what :
         {rule.proof.prover, rule.proof.condition, rule.counterexample, rule.reason}) {
      if (!what.empty()) line += "  " + what;
    }
    while (line.ends_with(' ')) line.pop_back();
    std::cout << line << "\n";
  }
  const auto n = std::ssize(result.rules);
  std::cout << fmt::format("{} proved ({} of them with a condition), {} refuted, {} unproved of {}",
                           result.proved(), result.count(rewrite::Status::kProvedIf),
                           result.count(rewrite::Status::kRefuted),
                           result.count(rewrite::Status::kUnproved), counted(n, "rule"));
  if (result.nowhere() > 0) {
    std::cout << fmt::format("; {} of those proved {} nowhere", result.nowhere(),
                             result.nowhere() == 1 ? "applies" : "apply");
  }
  if (!result.lacking.empty()) {
    std::cout << fmt::format("; {} more cannot be said here", result.lacking.size());
  }
  if (result.derive) {
    std::cout << fmt::format("; the shipped rules derive {}", result.derived());
  }
  std::cout << fmt::format(" ({:.2f} s)\n", result.seconds);
}

std::string proofs_text(const Verified& result) {
  std::string out =
      "# What is known of the shipped rules: name, hash, status, prover, condition.\n"
      "# Written by `tandem rules verify FILE --proofs FILE`.\n";
  for (const auto& rule : result.rules) {
    auto proof = rule.proof;
    if (proof.prover.empty()) proof.prover = "none";
    std::ranges::replace(proof.prover, ' ', '-');  // one word
    out += to_text(rewrite::ProofLine{rule.name, rule.hash, proof}) + "\n";
  }
  return out;
}

int run(const VerifyFlags& flags) {
  std::optional<NewFile> proofs;
  if (!flags.proofs.empty()) proofs.emplace(flags.proofs);
  const auto result = judge_files(flags);
  if (proofs) {
    proofs->write(proofs_text(result));
    proofs->finish();
  }
  if (flags.json) {
    print_json(result_json(result));
  } else {
    print(result);
  }
  const bool all = result.proved() == result.rules.size() && result.lacking.empty();
  return flags.strict && !all ? ExitCode::kCannot : ExitCode::kDone;
}

}  // namespace

void add_rules_verify(CLI::App& rules, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  auto* command = add_command(rules, "verify", "prove rules, or refute them",
                              "rules verify my.rules --strict", flags->json);
  command->add_option("file", flags->files, "rules, or a collection of TASO or FlexFlow in JSON")
      ->required();
  command->add_flag("--strict", flags->strict, "exit code 1 where one is not proved");
  command->add_flag("--derive", flags->derive,
                    "do the shipped rules derive those that are proved?");
  command->add_option("--rules", flags->known,
                      "for --derive: files of rules; default: those shipped");
  command->add_option("--graphs", flags->graphs, "for --derive: how many to look at for each rule")
      ->capture_default_str()
      ->check(kPositive);
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->add_option("--proofs", flags->proofs, "where to keep what was found, for shipped rules");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tandem::cli
