// tandem rules import, export: collections of TASO and FlexFlow as rules in text form, and back.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/stop.h"
#include "cli/command.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/rules.h"
#include "rewrite/rule_text.h"

namespace tandem::cli {

namespace {

constexpr std::size_t kRulesBetweenNews = 256;

struct ConvertFlags {
  bool json = false;
  std::string input;
  std::string output;
};

Json lacking_json(const std::vector<rewrite::Imported>& lacking) {
  Json out = Json::array();
  for (const auto& rule : lacking) {
    out.push_back({{"name", rule.name}, {"reason", rule.lacking}});
  }
  return out;
}

void report_conversion(const ConvertFlags& flags, const std::string& what, std::size_t rules,
                       const std::vector<rewrite::Imported>& lacking) {
  if (flags.json) {
    print_json({{what, rules}, {"lacking", lacking_json(lacking)}});
    return;
  }
  print_lacking(lacking);
  // The rules themselves have the output where no file is named.
  auto& out = flags.output.empty() ? std::cerr : std::cout;
  out << fmt::format("{}: {} of {} rules {}\n", flags.input, rules, rules + lacking.size(), what);
}

// Where the rules go one by one: a file, the terminal, or nowhere beside --json.
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

 private:
  std::optional<NewFile> file_;
  bool to_terminal_;
};

void import_rules(const ConvertFlags& flags) {
  const auto text = read_rule_text(flags.input);
  if (!rewrite::is_collection_json(text)) {
    throw UserError("rules", flags.input, "is not JSON", "rules in text form need no import");
  }
  RuleStream stream(flags);
  std::string heading = fmt::format("# Imported from {}.\n", flags.input);
  std::size_t rules = 0;
  std::vector<rewrite::Imported> lacking;
  auto progress = std::make_optional<Progress>();
  rewrite::for_each_imported(text, flags.input, [&](rewrite::Imported rule) {
    stop_point();
    const auto read = rules + lacking.size() + 1;
    if (read % kRulesBetweenNews == 0) progress->show(fmt::format("read {} rules", read));
    if (!rule.rule) {
      lacking.push_back(std::move(rule));
      return;
    }
    // With the first rule, so that a file without any does no more than say what is wrong.
    stream.write(std::exchange(heading, "") + to_text(*rule.rule) + "\n");
    ++rules;
  });
  progress.reset();
  stream.write(heading);
  stream.finish();
  report_conversion(flags, "imported", rules, lacking);
}

// Twice through the text: whether it is of the form, and whether any rule has a parallel operator,
// must be known before the first is written.
void export_rules(const ConvertFlags& flags) {
  const auto text = read_rule_text(flags.input);
  if (rewrite::is_collection_json(text)) {
    throw UserError("rules", flags.input, "is JSON", "exported are rules in text form");
  }
  RuleStream stream(flags);
  const auto visit = [&](const std::string& what, const std::function<void(rewrite::Rule)>& use) {
    Progress progress;
    std::size_t count = 0;
    rewrite::for_each_rule(text, flags.input, [&](rewrite::Rule rule) {
      stop_point();
      use(std::move(rule));
      if (++count % kRulesBetweenNews == 0) progress.show(fmt::format("{} {} rules", what, count));
    });
  };
  bool parallel = false;
  visit("read", [&](const rewrite::Rule& rule) {
    parallel = parallel || rewrite::has_parallel_operator(rule);
  });
  std::vector<rewrite::Imported> lacking;
  rewrite::CollectionWriter writer(parallel, [&](std::string_view part) { stream.write(part); });
  visit("exported", [&](const rewrite::Rule& rule) {
    if (auto why = writer.add(rule)) lacking.push_back({rule.name, std::nullopt, *why});
  });
  writer.end();
  stream.finish();
  report_conversion(flags, "exported", writer.rules(), lacking);
}

void add_conversion(CLI::App& rules, const std::string& name, const std::string& doc,
                    const std::string& example, const std::string& input,
                    void convert(const ConvertFlags&)) {
  auto flags = std::make_shared<ConvertFlags>();
  auto* command = add_command(rules, name, doc, example, flags->json);
  command->add_option("file", flags->input, input)->required();
  command->add_option("-o,--output", flags->output, "where to write; default: the terminal");
  add_quiet_flag(*command);
  command->callback([flags, convert] { convert(*flags); });
}

}  // namespace

void print_lacking(const std::vector<rewrite::Imported>& lacking) {
  for (const auto& rule : lacking) std::cerr << fmt::format("{}: {}\n", rule.name, rule.lacking);
}

void add_rules_import(CLI::App& rules) {
  add_conversion(rules, "import", "turn a rule collection of TASO or FlexFlow into rules",
                 "rules import graph_subst.json -o taso.rules", "a collection in JSON",
                 import_rules);
}

void add_rules_export(CLI::App& rules) {
  add_conversion(rules, "export", "turn rules into such a collection",
                 "rules export taso.rules -o graph_subst.json", "rules", export_rules);
}

}  // namespace tandem::cli
