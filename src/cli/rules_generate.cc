#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "cli/command.h"
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

std::int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr std::int64_t kKilobyte = 1024;
  return usage.ru_maxrss * kKilobyte;
}

// Keeps what is proved, each rule with all the conditions that its proof needs.
void keep_proved(generate::Generated& generated, unsigned threads, Progress& progress) {
  auto& rules = generated.rules;
  std::vector<std::optional<rewrite::Rule>> proved(rules.size());
  std::array<std::atomic<std::size_t>, 4> counts = {};  // by status
  std::atomic<std::size_t> done = 0;
  parallel_for(rules.size(), threads, [&](std::size_t i) {
    const auto verdict = verify::verify(rules[i]);
    const auto status = verdict.proof.status;
    ++counts[static_cast<std::size_t>(status)];
    if (is_proved(status)) proved[i] = verify::with_condition(rules[i], verdict);
    progress.show(fmt::format("judged {} of {}", ++done, rules.size()));
  });
  const auto count = [&](const std::string& what, rewrite::Status status) {
    generated.left.emplace_back(what, counts[static_cast<std::size_t>(status)]);
  };
  count("refuted, and dropped", rewrite::Status::kRefuted);
  count("unproved, and dropped", rewrite::Status::kUnproved);
  count("that got a condition", rewrite::Status::kProvedIf);
  rules.clear();
  for (auto& rule : proved) {
    if (rule) rules.push_back(std::move(*rule));
  }
  generated.left.emplace_back("proved", rules.size());
}

std::string file_text(const GenerateFlags& flags, const generate::Generated& generated) {
  auto out = fmt::format("# tandem rules generate --max-ops {} --ops {}{}\n", flags.max_ops,
                         flags.ops, flags.prove ? " --prove" : "");
  for (const auto& rule : generated.rules) out += rewrite::to_text(rule) + "\n";
  return out;
}

// The name of a set, or a file of one.
generate::OperatorSet operators_of(const std::string& ops) {
  const bool is_file = std::filesystem::is_regular_file(ops);
  return is_file ? generate::parse_operator_set(read_file(ops)) : generate::operator_set(ops);
}

void run(const GenerateFlags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  const auto set = operators_of(flags.ops);
  generate::Generated generated;
  {
    Progress progress;
    generated =
        generate::generate(set, {.max_ops = flags.max_ops,
                                 .threads = threads_of(flags.threads),
                                 .progress = [&](const std::string& s) { progress.show(s); }});
    if (flags.prove) keep_proved(generated, threads_of(flags.threads), progress);
  }
  write_file(flags.output, file_text(flags, generated));
  const auto seconds = seconds_since(begin);
  if (flags.json) {
    Json left = Json::object();
    for (const auto& [what, n] : generated.left) left[what] = n;
    return print_json({{"graphs", generated.graphs},
                       {"candidates", generated.candidates},
                       {"rules", generated.rules.size()},
                       {"seconds", seconds},
                       {"peak_bytes", peak_bytes()},
                       {"left", left}});
  }
  std::cout << fmt::format("{} graphs\n", generated.graphs);
  for (const auto& [what, n] : generated.left) std::cout << fmt::format("{:>10} {}\n", n, what);
  std::cout << fmt::format("{} rules in {}; {:.3g} s, {:.3g} MB\n", generated.rules.size(),
                           flags.output, seconds, static_cast<double>(peak_bytes()) / 1e6);
}

}  // namespace

void add_rules_generate(CLI::App& rules) {
  auto flags = std::make_shared<GenerateFlags>();
  auto* command = add_command(rules, "generate", "find rules by comparing all small graphs",
                              "rules generate --max-ops 2 -o small.rules", flags->json);
  command->add_option("--max-ops", flags->max_ops, "operators of a graph")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  command->add_option("--ops", flags->ops, "taso, all, or a file of operators (docs/rules.md)")
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "file for the rules")->required();
  command->add_flag("--prove", flags->prove, "keep what is proved, under the condition it needs");
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
