// tandem rules: lists the shipped rules. Subcommands show, convert, generate, verify and derive
// rules.
#include "cli/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "report/rule_drawing.h"
#include "rewrite/rule_text.h"

namespace tandem::cli {

namespace {

// Returns the rule's text without its name.
std::string to_text_without_name(const rewrite::Rule& rule) {
  return to_text(rule).substr(rule.name.size() + std::string_view(": ").size());
}

Json rule_json(const rewrite::ProvedRule& rule) {
  Json out = {{"name", rule.rule.name},
              {"text", to_text(rule.rule)},
              {"status", name(rule.proof.status)},
              {"origin", rule.origin}};
  if (!rule.proof.prover.empty()) out["prover"] = rule.proof.prover;
  if (!rule.proof.condition.empty()) out["condition"] = rule.proof.condition;
  return out;
}

struct ListFlags {
  bool json = false;
  bool generated = false;
};

void list_rules(const ListFlags& flags) {
  const auto& rules = flags.generated ? rewrite::generated_rules() : rewrite::shipped_rules();
  if (flags.json) {
    Json out = Json::array();
    for (const auto& rule : rules) out.push_back(rule_json(rule));
    return print_json(out);
  }
  TextTable table({{}, {}, {}}, 0);
  std::size_t proved = 0;
  for (const auto& rule : rules) {
    if (rule.is_proved()) ++proved;
    table.add(
        {rule.rule.name, std::string(name(rule.proof.status)), to_text_without_name(rule.rule)});
  }
  std::cout << table.to_text();
  std::cout << fmt::format("{}, {} proved; `tandem rules show NAME` draws a rule{}\n",
                           pluralize(std::ssize(rules), "rule"), proved,
                           flags.generated ? "" : ", `tandem rules --generated` lists more rules");
}

// --- show ---------------------------------------------------------------------------------------

struct ShowRuleFlags {
  bool json = false;
  std::string name;
  std::string file;
};

rewrite::ProvedRule find_rule(const ShowRuleFlags& flags) {
  if (flags.file.empty()) return rewrite::find_shipped_rule(flags.name);
  std::vector<std::string> names;
  std::optional<rewrite::ProvedRule> found;
  visit_rules(flags.file, [&](import::Imported rule) {
    if (rule.name == flags.name && !rule.rule) throw UserError("rule", rule.name, rule.lacking);
    if (rule.name == flags.name) found = {std::move(*rule.rule), {}, flags.file};
    if (rule.rule && !found) names.push_back(std::move(rule.name));
  });
  if (found) return *found;
  const auto near = find_nearest(flags.name, names);
  throw UserError("rule", flags.name, fmt::format("there is no such rule in {}", flags.file),
                  near.empty() ? "" : "did you mean '" + near + "'?");
}

// Returns the status of a proof: "proved by sums", or "proved if dim(?x, 0) == 2, by z3".
std::string proof_text(const rewrite::ProvedRule& rule) {
  const auto& proof = rule.proof;
  auto out = proof.condition.empty() ? std::string(name(proof.status))
                                     : fmt::format("proved if {},", proof.condition);
  if (!proof.prover.empty()) out += " by " + proof.prover;
  return out;
}

void show_rule(const ShowRuleFlags& flags) {
  const auto found = find_rule(flags);
  if (flags.json) return print_json(rule_json(found));
  const auto& rule = found.rule;
  std::cout << fmt::format("{}: {}\n  from {}\n\n{}\n", rule.name, proof_text(found), found.origin,
                           report::draw_rule(rule));
  if (!rule.choices.empty()) {
    std::vector<std::string> symbols;
    symbols.reserve(rule.choices.size());
    for (auto choice : rule.choices) symbols.push_back("?" + rule.symbols[choice]);
    std::cout << fmt::format("choose  {}\n", join(symbols, ", "));
  }
  for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
    std::cout << fmt::format("{}  {}\n", i == 0 ? "if    " : "and   ",
                             to_text(rule, rule.conditions[i]));
  }
}

}  // namespace

std::string read_rule_text(const std::string& path) {
  auto text = read_file(path);
  if (text.find('\0') != std::string::npos) {
    throw UserError("rules", path, "is a binary file",
                    "give rules in text form, or a JSON collection of TASO or FlexFlow");
  }
  return text;
}

void visit_rules(const std::string& path, const std::function<void(import::Imported)>& visit) {
  const auto text = read_rule_text(path);
  if (import::is_collection_json(text, path))
    return import::for_each_imported_rule(text, path, visit);
  rewrite::for_each_rule(text, path, [&](rewrite::Rule rule) {
    auto name = rule.name;
    visit({.name = std::move(name), .rule = std::move(rule), .lacking = ""});
    return true;
  });
}

RuleFile read_rules(const std::string& path) {
  constexpr std::size_t kMaxRules = 200'000;
  RuleFile out;
  visit_rules(path, [&](import::Imported rule) {
    if (rule.rule) {
      out.rules.push_back(std::move(*rule.rule));
    } else {
      out.lacking.push_back(std::move(rule));
    }
    if (out.rules.size() + out.lacking.size() <= kMaxRules) return;
    throw UserError("rules", path, fmt::format("has more than {} rules", kMaxRules),
                    "split it into several files");
  });
  return out;
}

void add_rules_show(CLI::App& rules) {
  auto flags = std::make_shared<ShowRuleFlags>();
  auto* command = add_command(rules, "show", "draw a rule with its conditions and its proof",
                              "rules show fuse-linear-relu", flags->json);
  command->add_option("name", flags->name, "name of a rule")->required();
  command->add_option("--file", flags->file,
                      "file of rules, or a JSON collection; default: the shipped rules");
  command->callback([flags] { show_rule(*flags); });
}

void add_rules(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ListFlags>();
  auto* command = add_command(app, "rules", "list, show, convert and verify rewrite rules",
                              "rules show fuse-linear-relu", flags->json);
  command->add_flag("--generated", flags->generated,
                    "list the rules found by `rules generate --prove`, not the handwritten ones");
  command->require_subcommand(0, 1);
  add_rules_show(*command);
  add_rules_import(*command);
  add_rules_export(*command);
  add_rules_generate(*command);
  add_rules_verify(*command, exit_code);
  add_rules_derive(*command, exit_code);
  command->callback([command, flags] {
    if (command->get_subcommands().empty()) list_rules(*flags);
  });
}

}  // namespace tandem::cli
