#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>

#include "cli/command.h"
#include "cli/rules.h"
#include "generate/generate.h"
#include "rewrite/rule_text.h"

namespace tandem::cli {

namespace {

struct Flags {
  bool json = false;
  std::size_t max_ops = 3;
  std::string ops = "all";
  std::string output;
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

// One line on the error stream, written over and over, from the first second on.
class ProgressLine {
 public:
  explicit ProgressLine(std::chrono::steady_clock::time_point begin) : begin_(begin) {}
  ~ProgressLine() {
    if (shown_) std::cerr << "\r\033[K";
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    const auto now = seconds_since(begin_);
    constexpr double kEvery = 0.2;
    if (isatty(STDERR_FILENO) == 0 || now < 1 || now - last_ < kEvery) return;
    last_ = now;
    shown_ = true;
    std::cerr << fmt::format("\r\033[K{:.0f} s  {}", now, line) << std::flush;
  }

 private:
  std::chrono::steady_clock::time_point begin_;
  std::mutex mutex_;
  double last_ = 0;
  bool shown_ = false;
};

std::string file_text(const Flags& flags, const generate::Generated& generated) {
  auto out =
      fmt::format("# tandem rules generate --max-ops {} --ops {}\n", flags.max_ops, flags.ops);
  for (const auto& rule : generated.rules) out += rewrite::to_text(rule) + "\n";
  return out;
}

void run(const Flags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  const auto set = generate::operator_set(flags.ops);
  generate::Generated generated;
  {
    ProgressLine line(begin);
    generated = generate::generate(
        set, {.max_ops = flags.max_ops, .progress = [&](const std::string& s) { line.show(s); }});
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
  auto flags = std::make_shared<Flags>();
  auto* command = add_command(rules, "generate", "find rules by comparing all small graphs",
                              "rules generate --max-ops 2 -o small.rules", flags->json);
  command->add_option("--max-ops", flags->max_ops, "operators of a graph")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  command->add_option("--ops", flags->ops, "the operators to use")
      ->check(CLI::IsMember({"taso", "all"}))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "file for the rules")->required();
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
