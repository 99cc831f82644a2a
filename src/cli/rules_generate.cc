// tandem rules generate: finds rules by comparing all small graphs, and proves them with --prove.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/rules.h"
#include "generate/generate.h"
#include "rewrite/rule_text.h"
#include "verify/verdict.h"

namespace tandem::cli {

namespace {

struct GenerateFlags {
  bool json = false;
  std::size_t max_ops = 3;
  std::string ops = "all";
  std::string output;
  bool prove = false;
  unsigned threads = 0;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::int64_t get_peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr std::int64_t kKilobyte = 1024;
  return usage.ru_maxrss * kKilobyte;
}

struct Proving {
  std::optional<rewrite::Rule> rule = {};  // with the conditions of its proof; empty: not proved
  rewrite::Status status = rewrite::Status::kUnproved;
  bool is_special = false;  // holds only for certain sizes or attributes: not worth a rule
};

// Returns whether a condition excludes by chance what refuted the rule: "?n != 4",
// "?stride == ?padding", "dim(?x, 3) % 2 == 1". Returns false for "same_shape(?x, ?y)".
bool is_special(std::string_view condition) {
  for (const auto part : split(condition, ' ')) {
    if (part == "%" || part == "!=") return true;
  }
  for (std::size_t at = 0; at != std::string_view::npos; at = condition.find(" and ", at)) {
    if (at > 0) at += std::string_view(" and ").size();
    const auto rest = condition.substr(at);
    if (rest.starts_with("?") && !rest.starts_with("?act == none")) return true;
  }
  return false;
}

// Tries to prove a rule. If it needs a condition, the returned rule has it.
Proving prove(const rewrite::Rule& rule, bool find_conditions = true) {
  const auto verdict =
      verify::verify(rule, {.find_conditions = find_conditions,
                            .long_sums = false});  // unproved rules are dropped, even if true
  Proving out{.status = verdict.proof.status};
  if (out.status != rewrite::Status::kProved && out.status != rewrite::Status::kProvedIf)
    return out;
  out.rule = verify::with_condition(rule, verdict);
  out.is_special = is_special(verdict.proof.condition);
  return out;
}

// Tries to prove a generated rule. If it does not hold in general, tries it with the attributes for
// which it was found. A parallel rule has several such forms; its own form with a condition is more
// general than any of them.
std::vector<Proving> prove(const generate::Generated& generated, std::size_t rule) {
  auto out = prove(generated.rules[rule]);
  if (out.status == rewrite::Status::kProved) return {out};
  const bool is_wanting = !out.rule || out.is_special;
  if (!is_wanting && generate::is_parallel_rule(generated, rule)) return {out};
  std::vector<Proving> others;
  for (const auto& literal : generate::make_literal_rules(generated, rule)) {
    auto other = prove(literal, is_wanting);
    const bool is_better = is_wanting || other.status == rewrite::Status::kProved;
    if (is_better) others.push_back(std::move(other));
  }
  return others.empty() ? std::vector{out} : others;
}

// Removes the rules that are not proved, and duplicates.
void keep_proved(generate::Generated& generated, unsigned threads, Progress& progress) {
  std::vector<std::vector<Proving>> by_rule(generated.rules.size());
  std::atomic<std::size_t> done = 0;
  parallel_for(by_rule.size(), threads, [&](std::size_t i) {
    by_rule[i] = prove(generated, i);
    progress.show(fmt::format("tried to prove {} of {} rules", ++done, by_rule.size()));
  });
  std::vector<Proving> proved;
  for (auto& of_rule : by_rule) std::ranges::move(of_rule, std::back_inserter(proved));
  const auto count = [&](const std::string& what, rewrite::Status status) {
    generated.left.emplace_back(what, std::ranges::count(proved, status, &Proving::status));
  };
  count("refuted, and dropped", rewrite::Status::kRefuted);
  count("unproved, and dropped", rewrite::Status::kUnproved);
  count("that got a condition", rewrite::Status::kProvedIf);
  generated.left.emplace_back("of these true of special cases only, and dropped",
                              std::ranges::count(proved, true, &Proving::is_special));
  generated.rules.clear();
  std::set<std::string> seen;  // texts without the rules' names
  for (auto& p : proved) {
    if (!p.rule || p.is_special) continue;
    const auto text = to_text(*p.rule);
    if (seen.insert(text.substr(text.find(": "))).second) {
      generated.rules.push_back(std::move(*p.rule));
    }
  }
  generated.left.emplace_back("different ones", generated.rules.size());
}

// Appends "-generated" to names that handwritten rules have, so that a name identifies one rule.
void make_names_unique(std::vector<rewrite::Rule>& rules) {
  std::set<std::string> taken;
  for (const auto& rule : rewrite::shipped_rules()) taken.insert(rule.rule.name);
  for (auto& rule : rules) {
    if (taken.contains(rule.name)) rule.name += "-generated";
  }
}

std::string file_text(const GenerateFlags& flags, const generate::Generated& generated) {
  auto out = fmt::format("# tandem rules generate --max-ops {} --ops {}{}\n", flags.max_ops,
                         flags.ops, flags.prove ? " --prove" : "");
  for (const auto& rule : generated.rules) out += rewrite::to_text(rule) + "\n";
  return out;
}

std::string validate_operators(const std::string& ops) {
  if (ops == "taso" || ops == "all" || std::filesystem::is_regular_file(ops)) return {};
  return fmt::format("unknown operator set '{}' (use taso, all, or a file)", ops);
}

// Returns the operator set with the name `ops`, or reads it from the file `ops`.
generate::OperatorSet parse_operators(const std::string& ops) {
  const bool is_file = std::filesystem::is_regular_file(ops);
  return is_file ? generate::parse_operator_set(read_file(ops)) : generate::operator_set(ops);
}

void run(const GenerateFlags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  const auto set = parse_operators(flags.ops);
  NewFile file(flags.output);
  auto generated = run_interruptible("rules generate", [&] {
    Progress progress;
    auto found =
        generate::generate(set, {.max_ops = flags.max_ops,
                                 .threads = resolve_thread_count(flags.threads),
                                 .progress = [&](const std::string& s) { progress.show(s); }});
    if (flags.prove) keep_proved(found, resolve_thread_count(flags.threads), progress);
    return found;
  });
  make_names_unique(generated.rules);
  file.write(file_text(flags, generated));
  file.finish();
  const auto seconds = seconds_since(begin);
  if (flags.json) {
    Json left = Json::object();
    for (const auto& [what, n] : generated.left) left[what] = n;
    return print_json({{"graphs", generated.graphs},
                       {"candidates", generated.candidates},
                       {"rules", generated.rules.size()},
                       {"seconds", seconds},
                       {"peak_bytes", get_peak_bytes()},
                       {"left", left}});
  }
  std::cout << fmt::format("{} graphs\n", generated.graphs);
  for (const auto& [what, n] : generated.left) std::cout << fmt::format("{:>10} {}\n", n, what);
  std::cout << fmt::format("Wrote {} rules to {} in {:.3g} s, with {:.3g} MB of memory.\n",
                           generated.rules.size(), flags.output, seconds,
                           static_cast<double>(get_peak_bytes()) / 1e6);
}

}  // namespace

void add_rules_generate(CLI::App& rules) {
  auto flags = std::make_shared<GenerateFlags>();
  auto* command = add_command(rules, "generate", "generate rules by comparing all small graphs",
                              "rules generate --max-ops 2 -o small.rules", flags->json);
  command->add_option("--max-ops", flags->max_ops, "maximum number of operators in a graph")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  command
      ->add_option("--ops", flags->ops,
                   "operator set: taso, all, or a file (docs/internals/rules.md)")
      ->check(CLI::Validator(validate_operators, "SET"))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "write the rules to this file")
      ->required()
      ->check(kFile);
  command->add_flag("--prove", flags->prove, "write only proved rules, with their conditions");
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
