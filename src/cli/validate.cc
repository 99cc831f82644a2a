// tandem validate: predictions against published measurements.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "report/validation.h"

namespace tandem::cli {

namespace {

using validate::Record;

struct Flags {
  bool json = false;
  bool markdown = false;
  std::string file;
  std::string group;  // empty: all
  std::size_t limit = 0;
  unsigned threads = 0;
};

std::vector<Record> selected(const Flags& flags) {
  auto records = validate::parse_records(read_file(flags.file), flags.file);
  if (!flags.group.empty()) {
    std::vector<std::string> groups;
    for (const auto& r : records) groups.push_back(r.group);
    if (std::ranges::find(groups, flags.group) == groups.end()) {
      const auto near = nearest(flags.group, groups);
      throw UserError("flag", "--group", fmt::format("there is no group '{}'", flags.group),
                      near.empty() ? "" : "did you mean '" + near + "'?");
    }
    std::erase_if(records, [&](const Record& r) { return r.group != flags.group; });
  }
  if (flags.limit > 0 && records.size() > flags.limit) records.resize(flags.limit);
  return records;
}

// On standard error once it has run for a second: a line that is overwritten on a terminal, else
// one every ten seconds.
std::function<void(std::size_t, std::size_t)> progress() {
  using Clock = std::chrono::steady_clock;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  return [terminal, last = Clock::now()](std::size_t done, std::size_t all) mutable {
    const auto now = Clock::now();
    if (now - last < (terminal ? std::chrono::seconds(1) : std::chrono::seconds(10))) return;
    last = now;
    std::cerr << fmt::format("{}{} of {} records{}", terminal ? "\r" : "", done, all,
                             terminal ? "  \r" : "\n")
              << std::flush;
  };
}

void run(const Flags& flags) {
  const auto records = selected(flags);
  validate::RunOptions options;
  options.threads =
      flags.threads > 0 ? flags.threads : std::max(1U, std::thread::hardware_concurrency());
  options.progress = progress();
  const auto report = validate::validate(records, options);
  if (flags.json) {
    print_json(report::validation_json(report));
  } else if (flags.markdown) {
    std::cout << report::validation_markdown(report, flags.file);
  } else {
    std::cout << report::validation_text(report);
  }
}

}  // namespace

void add_validate(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<Flags>();
  auto* command =
      add_command(app, "validate", "Hold predictions against published measurements.",
                  "validate tests/validation/published.json", flags->json);
  command->add_option("file", flags->file, "records as JSON (docs/validation-format.md)")
      ->required();
  command->add_option("--group", flags->group, "records of this group only");
  command->add_option("--limit", flags->limit, "the first N records only")->check(kPositive);
  command->add_option("--threads", flags->threads, "default: one for each core")->check(kPositive);
  command->add_flag("--markdown", flags->markdown, "print tables for a page");
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
