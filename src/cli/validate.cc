// tandem validate: compares predictions with published measurements.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "report/validation.h"
#include "validate/fit.h"

namespace tandem::cli {

namespace {

using validate::Record;

struct ValidateFlags {
  bool json = false;
  bool markdown = false;
  std::string file;
  std::string group;  // empty: all groups
  std::size_t limit = 0;
  unsigned threads = 0;
  bool fit = false;
  std::string parameters;  // empty: all parameters
  std::string leave_out;
  std::size_t fit_records = 120;
};

std::vector<Record> select_records(const ValidateFlags& flags) {
  auto records = validate::parse_records(read_file(flags.file), flags.file);
  if (!flags.group.empty()) {
    std::vector<std::string> groups;
    groups.reserve(records.size());
    for (const auto& r : records) groups.push_back(r.group);
    if (std::ranges::find(groups, flags.group) == groups.end()) {
      const auto near = find_nearest(flags.group, groups);
      throw UserError("flag", "--group", fmt::format("there is no group '{}'", flags.group),
                      near.empty() ? "" : "did you mean '" + near + "'?");
    }
    std::erase_if(records, [&](const Record& r) { return r.group != flags.group; });
  }
  if (flags.limit > 0 && records.size() > flags.limit) records.resize(flags.limit);
  return records;
}

using Fits = std::map<validate::Stack, validate::StackFit>;

Json sections_json(const Fits& fits) {
  auto out = Json::array();
  for (const auto& [stack, fit] : fits) {
    Json numbers;
    for (const auto& n : fit.numbers) numbers[std::string(n.parameter->name)] = n.value;
    out.push_back({{"machine", stack.family},
                   {"software", stack.software},
                   {"records", fit.n},
                   {"numbers", numbers}});
  }
  return out;
}

void print(const validate::ValidationReport& report, const Fits& fits, const ValidateFlags& flags) {
  if (flags.json) {
    auto json = report::validation_json(report);
    if (flags.fit) json["software"] = sections_json(fits);
    return print_json(json);
  }
  for (const auto& [stack, fit] : fits) {
    if (fit.n > 0) std::cout << validate::format_software_profile(stack, fit) << "\n";
  }
  std::cout << (flags.markdown ? report::validation_markdown(report)
                               : report::validation_text(report));
}

void run(const ValidateFlags& flags) {
  const auto records = select_records(flags);
  const auto threads = resolve_thread_count(flags.threads);
  validate::RunOptions options;
  options.threads = threads;
  Progress progress;
  options.progress = [&](std::size_t done, std::size_t all) {
    progress.show(fmt::format("{} of {} records", done, all));
  };
  Fits fits;
  if (flags.fit) {
    fits = validate::fit(
        records, {.parameters = validate::parse_parameters(flags.parameters),
                  .most = flags.fit_records,
                  .threads = threads,
                  .leave_one_out = !flags.leave_out.empty(),
                  .progress = [&](const std::string& what) { progress.show("fitting " + what); }});
    options.predictor = validate::make_fitted_predictor(fits);
  }
  print(validate::validate(records, options), fits, flags);
}

}  // namespace

void add_validate(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ValidateFlags>();
  auto* command = add_command(app, "validate", "compare predictions with published measurements",
                              "validate tests/validation/published.json", flags->json);
  command
      ->add_option("file", flags->file,
                   "JSON file of records (docs/reference/validation-format.md)")
      ->required();
  command->add_option("--group", flags->group, "use only the records of this group");
  command->add_option("--limit", flags->limit, "use only the first N records")->check(kPositive);
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->add_flag("--markdown", flags->markdown, "print Markdown tables");
  auto* fit = command->add_flag(
      "--fit", flags->fit,
      "first fit each machine and software profile to its records, and print the numbers");
  command
      ->add_option("--parameters", flags->parameters,
                   "parameters to fit, comma-separated; default: all")
      ->needs(fit);
  command
      ->add_option("--leave-one-out", flags->leave_out,
                   "predict each record by a fit without the records of its model size")
      ->check(CLI::IsMember({"size"}))
      ->needs(fit);
  command
      ->add_option("--fit-records", flags->fit_records,
                   "limit of records to fit for each machine and software profile")
      ->check(kPositive)
      ->capture_default_str();
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
