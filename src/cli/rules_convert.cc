// tandem rules import, export: converts JSON collections of TASO and FlexFlow to rules in text
// form, and back.
#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "cli/command.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/rules.h"
#include "rewrite/rule_text.h"

namespace tandem::cli {

namespace {

using import::CollectionWriter;
using import::for_each_imported_rule;
using import::Imported;

constexpr std::size_t kRulesAtOnce = 512;

struct ConvertFlags {
  bool json = false;
  std::string input;
  std::string output;
  unsigned threads = 0;  // for export
};

Json lacking_json(const std::vector<Imported>& lacking) {
  Json out = Json::array();
  for (const auto& rule : lacking) {
    out.push_back({{"name", rule.name}, {"reason", rule.lacking}});
  }
  return out;
}

void report_conversion(const ConvertFlags& flags, const std::string& what, std::size_t rules,
                       const std::vector<Imported>& lacking) {
  if (flags.json) {
    print_json({{what, rules}, {"lacking", lacking_json(lacking)}});
    return;
  }
  print_lacking(lacking);
  // Without an output file the rules themselves go to stdout.
  auto& out = flags.output.empty() ? std::cerr : std::cout;
  out << fmt::format("{}: {} of {} rules {}\n", flags.input, rules, rules + lacking.size(), what);
}

// Output for rules, written one by one: a file, stdout, or nothing with --json.
class RuleStream {
 public:
  explicit RuleStream(const ConvertFlags& flags) : to_terminal_(!flags.json) {
    if (!flags.output.empty()) file_.emplace(flags.output);
  }

  void write(std::string_view text) {
    if (file_) {
      file_->write(text);
    } else if (to_terminal_) {
      std::cout << text;
    }
  }

  void finish() {
    if (file_) file_->finish();
  }

  [[nodiscard]] bool is_on_terminal() const { return !file_ && to_terminal_; }

 private:
  std::optional<NewFile> file_;
  bool to_terminal_;
};

void import_rules(const ConvertFlags& flags) {
  const auto text = read_rule_text(flags.input);
  if (!import::is_collection_json(text, flags.input)) {
    throw UserError("rules", flags.input, "is not JSON",
                    "import reads JSON collections; use rules in text form without import");
  }
  RuleStream stream(flags);
  std::string heading = fmt::format("# Imported from {}.\n", flags.input);
  std::size_t rules = 0;
  std::vector<Imported> lacking;
  auto progress = std::make_optional<Progress>();
  for_each_imported_rule(text, flags.input, [&](Imported rule) {
    throw_if_stopped();
    const auto read = rules + lacking.size() + 1;
    if (read % kRulesAtOnce == 0) progress->show(fmt::format("read {} rules", read));
    if (!rule.rule) {
      lacking.push_back(std::move(rule));
      return;
    }
    // Writes the heading with the first rule, so that a malformed file gives an error and no
    // output.
    stream.write(std::exchange(heading, "") + to_text(*rule.rule) + "\n");
    ++rules;
  });
  progress.reset();
  stream.write(heading);
  stream.finish();
  report_conversion(flags, "imported", rules, lacking);
}

// Exports the rules in batches, so that only some hundred are in memory.
void export_rules(const ConvertFlags& flags) {
  const auto text = read_rule_text(flags.input);
  if (import::is_collection_json(text, flags.input)) {
    throw UserError("rules", flags.input, "is JSON",
                    "export reads rules in text form; use `tandem rules import` for JSON");
  }
  RuleStream stream(flags);
  const bool parallel = import::has_parallel_rule(text, flags.input);
  // Output to stdout cannot be withdrawn, so all rules are parsed first to find malformed ones.
  if (stream.is_on_terminal()) {
    rewrite::for_each_rule(text, flags.input, [](const rewrite::Rule&) { return true; });
  }
  std::vector<Imported> lacking;
  CollectionWriter writer(parallel, [&](std::string_view part) { stream.write(part); });
  auto progress = std::make_optional<Progress>();
  std::vector<rewrite::Rule> some;
  const auto write = [&] {
    const auto why = writer.add(some, resolve_thread_count(flags.threads));
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (why[i]) lacking.push_back({std::move(some[i].name), std::nullopt, *why[i]});
    }
    some.clear();
    progress->show(fmt::format("exported {} rules", writer.rule_count()));
  };
  rewrite::for_each_rule(text, flags.input, [&](rewrite::Rule rule) {
    throw_if_stopped();
    some.push_back(std::move(rule));
    if (some.size() == kRulesAtOnce) write();
    return true;
  });
  write();
  progress.reset();
  writer.end();
  stream.finish();
  report_conversion(flags, "exported", writer.rule_count(), lacking);
}

using SharedFlags = std::shared_ptr<ConvertFlags>;
CLI::App* add_conversion(CLI::App& rules, const std::string& name, const std::string& doc,
                         const std::string& example, const std::string& input,
                         const SharedFlags& flags, void convert(const ConvertFlags&)) {
  auto* command = add_command(rules, name, doc, example, flags->json);
  command->add_option("file", flags->input, input)->required();
  command->add_option("-o,--output", flags->output, "write to this file; default: stdout")
      ->check(kFile);
  add_quiet_flag(*command);
  command->callback([flags, convert] { convert(*flags); });
  return command;
}

}  // namespace

void print_lacking(const std::vector<import::Imported>& lacking) {
  for (const auto& rule : lacking) std::cerr << fmt::format("{}: {}\n", rule.name, rule.lacking);
}

void add_rules_import(CLI::App& rules) {
  add_conversion(rules, "import", "convert a JSON collection of TASO or FlexFlow to rules",
                 "rules import graph_subst.json -o taso.rules", "JSON collection of rules",
                 std::make_shared<ConvertFlags>(), import_rules);
}

void add_rules_export(CLI::App& rules) {
  const auto flags = std::make_shared<ConvertFlags>();
  auto* command =
      add_conversion(rules, "export", "convert rules to a JSON collection of TASO or FlexFlow",
                     "rules export taso.rules -o graph_subst.json", "file of rules in text form",
                     flags, export_rules);
  add_threads_flag(*command, flags->threads);
}

}  // namespace tandem::cli
