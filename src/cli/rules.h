// What the subcommands of `tandem rules` share. Each is a function here, in a file of its own or in
// rules.cc, rules_convert.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "rewrite/collection.h"
#include "rewrite/collection_json.h"

namespace tandem::cli {

void add_rules_derive(CLI::App& rules, int& exit_code);
void add_rules_generate(CLI::App& rules);
void add_rules_import(CLI::App& rules);
void add_rules_export(CLI::App& rules);
void add_rules_show(CLI::App& rules);
void add_rules_verify(CLI::App& rules, int& exit_code);

// `rules verify --properties`, in rules_properties.cc.
struct PropertyFlags {
  bool json = false;
  bool strict = false;
  std::vector<std::string> files;
  double seconds = 60;  // to look for a contradiction
  unsigned threads = 0;
};
int verify_properties(const PropertyFlags& flags);

// The rules of a file in text form, or of a collection, one at a time, so that there may be any
// number; of a collection also what is none here.
void visit_rules(const std::string& path, const std::function<void(rewrite::Imported)>& visit);

// All of them at once. Throws UserError where they are too many for that.
struct RuleFile {
  std::vector<rewrite::Rule> rules;
  std::vector<rewrite::Imported> lacking;
};
RuleFile read_rules(const std::string& path);

// The text of a file of rules or of a collection. Throws UserError where it is no text.
std::string read_rule_text(const std::string& path);

// The rules of a collection that are none here, with the reason: on stderr.
void print_lacking(const std::vector<rewrite::Imported>& lacking);

}  // namespace tandem::cli
