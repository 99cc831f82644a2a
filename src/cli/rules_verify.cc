// tandem rules verify: proves or refutes rules. With --proofs, the results are written to a file of
// proofs for the shipped rules (rewrite/collection.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "cli/command.h"
#include "cli/derivers.h"
#include "cli/interrupt.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/rules.h"
#include "verify/verdict.h"

namespace tandem::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct VerifyFlags : PropertyFlags {
  std::string proofs;
  bool properties = false;
  bool derive = false;
  std::vector<std::string> known;  // files of rules for --derive
  std::size_t graphs = 200'000;
};

// The verdict on one rule.
struct RuleResult {
  std::string name;
  Hash hash = 0;
  rewrite::Proof proof;
  std::string counterexample;
  std::string reason;                     // why it is unproved, or applies nowhere
  std::optional<std::size_t> steps = {};  // length of its derivation by the shipped rules
};

// Proves or refutes `rule`. If it is proved and `derivers` is not null, looks for a derivation by
// their rules, visiting at most `graphs` graphs.
RuleResult judge(const rewrite::Rule& rule, Derivers* derivers, std::size_t graphs) {
  const auto verdict = verify::verify(rule);
  RuleResult out{.name = rule.name,
                 .hash = compute_hash(rule),
                 .proof = verdict.proof,
                 .counterexample = verdict.counterexample,
                 .reason = verdict.reason};
  if (!is_proved(out.proof.status) || derivers == nullptr) return out;
  out.steps =
      count_steps_to_derive(verify::with_condition(rule, verdict), *derivers, {.graphs = graphs});
  return out;
}

struct Verified {
  std::array<std::size_t, 4> of_status = {};  // number of rules by status
  std::size_t count = 0;
  std::size_t derived = 0;
  std::size_t nowhere = 0;  // proved rules whose source is legal nowhere
  std::vector<import::Imported> lacking;
  std::vector<RuleResult> verdicts;  // all verdicts, for --json; empty without --json
  double seconds = 0;
  bool derive = false;

  void add(const RuleResult& rule) {
    ++of_status[static_cast<std::size_t>(rule.proof.status)];
    ++count;
    if (rule.steps) ++derived;
    if (rule.proof.prover == verify::kProvedByLayouts) ++nowhere;
  }
  [[nodiscard]] std::size_t get_count(rewrite::Status status) const {
    return of_status[static_cast<std::size_t>(status)];
  }
  [[nodiscard]] std::size_t count_proved() const {
    return get_count(rewrite::Status::kProved) + get_count(rewrite::Status::kProvedIf);
  }
};

std::string format_line(const RuleResult& rule, std::size_t widest) {
  auto line = fmt::format("{:<{}}  {:<9}", rule.name, widest, name(rule.proof.status));
  if (rule.steps) {
    line +=
        fmt::format("  derived in {}", pluralize(static_cast<std::int64_t>(*rule.steps), "step"));
  }
  for (const auto& what :
       {rule.proof.prover, rule.proof.condition, rule.counterexample, rule.reason}) {
    if (!what.empty()) line += "  " + what;
  }
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

std::string format_proof_line(const RuleResult& rule) {
  auto proof = rule.proof;
  if (proof.prover.empty()) proof.prover = "none";
  std::ranges::replace(proof.prover, ' ', '-');  // the file format has one word here
  return to_text(rewrite::ProofLine{rule.name, rule.hash, proof}) + "\n";
}

// Verifies rules in batches, so that there may be any number. Writes a line for each rule, and
// stores the verdicts only for --json.
class Verification {
 public:
  explicit Verification(const VerifyFlags& flags)
      : flags_(flags), derivers_(resolve_thread_count(flags.threads)) {
    out_.derive = flags.derive;
    if (flags.proofs.empty()) return;
    proofs_.emplace(flags.proofs);
    proofs_->write(
        "# What is known of the shipped rules: name, hash, status, prover, condition.\n"
        "# Written by `tandem rules verify FILE --proofs FILE`.\n");
  }

  Verified run() {
    read_all();
    if (!flags_.json) print_lacking(out_.lacking);
    const auto start = Clock::now();
    for (const auto& path : flags_.files) {
      visit_rules(path, [&](import::Imported rule) {
        if (!rule.rule) return;
        batch_.push_back(std::move(*rule.rule));
        if (batch_.size() == kBatch) judge_batch();
      });
    }
    judge_batch();
    out_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (proofs_) proofs_->finish();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kBatch = 2048;

  // Parses all files first, so that errors are reported before hours are spent on proofs.
  void read_all() {
    Progress progress;
    for (const auto& path : flags_.files) {
      visit_rules(path, [&](import::Imported rule) {
        throw_if_stopped();
        if (!rule.rule) {
          out_.lacking.push_back(std::move(rule));
          return;
        }
        widest_ = std::max(widest_, rule.name.size());
        if (++rules_ % 256 == 0) progress.show(fmt::format("read {} rules", rules_));
      });
    }
  }

  void judge_batch() {
    std::vector<RuleResult> judged(batch_.size());
    {
      Progress progress;
      std::atomic<std::size_t> next = 0;
      std::atomic<std::size_t> done = out_.count;
      parallel_for(derivers_.size(), static_cast<unsigned>(derivers_.size()), [&](std::size_t t) {
        auto& derivers = derivers_[t];
        if (flags_.derive && !derivers) derivers.emplace(flags_.known);
        for (auto i = next++; i < batch_.size(); i = next++) {
          judged[i] = judge(batch_[i], derivers ? &*derivers : nullptr, flags_.graphs);
          progress.show(fmt::format("{} of {} rules", ++done, rules_));
        }
      });
    }
    batch_.clear();
    for (auto& rule : judged) record(std::move(rule));
    std::cout.flush();
  }

  void record(RuleResult rule) {
    out_.add(rule);
    if (proofs_) proofs_->write(format_proof_line(rule));
    if (flags_.json) {
      out_.verdicts.push_back(std::move(rule));
    } else {
      std::cout << format_line(rule, widest_);
    }
  }

  const VerifyFlags& flags_;
  std::vector<std::optional<Derivers>> derivers_;  // by thread
  std::optional<NewFile> proofs_;
  std::vector<rewrite::Rule> batch_;
  std::size_t rules_ = 0;
  std::size_t widest_ = 0;
  Verified out_;
};

Json result_json(const Verified& result) {
  Json rules = Json::array();
  for (const auto& rule : result.verdicts) {
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
  Json out = {{"proved", result.count_proved()},
              {"proved_if", result.get_count(rewrite::Status::kProvedIf)},
              {"nowhere", result.nowhere},
              {"refuted", result.get_count(rewrite::Status::kRefuted)},
              {"unproved", result.get_count(rewrite::Status::kUnproved)},
              {"lacking", lacking},
              {"seconds", result.seconds},
              {"rules", rules}};
  if (result.derive) out["derived"] = result.derived;
  return out;
}

void print(const Verified& result) {
  const auto n = static_cast<std::int64_t>(result.count);
  std::cout << fmt::format("{} proved ({} with a condition), {} refuted, {} unproved, of {}",
                           result.count_proved(), result.get_count(rewrite::Status::kProvedIf),
                           result.get_count(rewrite::Status::kRefuted),
                           result.get_count(rewrite::Status::kUnproved), pluralize(n, "rule"));
  if (const auto n_nowhere = static_cast<std::int64_t>(result.nowhere); n_nowhere > 0) {
    std::cout << fmt::format("; {} proved {} nowhere", pluralize(n_nowhere, "rule"),
                             n_nowhere == 1 ? "applies" : "apply");
  }
  if (!result.lacking.empty()) {
    std::cout << fmt::format("; {} more could not be imported", result.lacking.size());
  }
  if (result.derive) {
    std::cout << fmt::format("; derivations found for {}", result.derived);
  }
  std::cout << fmt::format(" ({:.2f} s)\n", result.seconds);
}

int run(const VerifyFlags& flags) {
  if (flags.properties) return verify_properties(flags);
  if (flags.files.empty()) throw CLI::RequiredError("file");
  Verification verification(flags);
  const auto result = run_interruptible("rules verify", [&] { return verification.run(); });
  if (flags.json) {
    print_json(result_json(result));
  } else {
    print(result);
  }
  const bool all = result.count_proved() == result.count && result.lacking.empty();
  return flags.strict && !all ? ExitCode::kCannot : ExitCode::kDone;
}

}  // namespace

void add_rules_verify(CLI::App& rules, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  auto* command = add_command(rules, "verify", "prove or refute rules",
                              "rules verify my.rules --strict", flags->json);
  command->add_option("file", flags->files,
                      "files of rules, or JSON collections of TASO or FlexFlow");
  command->add_flag("--strict", flags->strict, "exit with code 1 if a rule is not proved");
  auto* derive = command->add_flag("--derive", flags->derive,
                                   "derive the proved rules from the shipped rules, if possible");
  command->add_option("--rules", flags->known,
                      "with --derive: files of rules instead of the shipped rules");
  command->add_option("--graphs", flags->graphs, "with --derive: limit of graphs per rule")
      ->capture_default_str()
      ->check(kPositive);
  auto* properties = command->add_flag(
      "--properties", flags->properties,
      "check the operator properties that Z3 uses, or the properties in the given files");
  properties->excludes(derive);
  command
      ->add_option("--seconds", flags->seconds,
                   "with --properties: time limit for finding a contradiction")
      ->capture_default_str()
      ->check(kPositive)
      ->needs(properties);
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->add_option("--proofs", flags->proofs, "write the proofs to this file, for shipped rules")
      ->excludes(properties)
      ->check(kFile);
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tandem::cli
