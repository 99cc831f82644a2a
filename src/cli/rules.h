// Functions that the subcommands of `tandem rules` share. Each subcommand has a function
// add_rules_NAME, in its own file or in rules.cc or rules_convert.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "import/collection_json.h"
#include "rewrite/collection.h"

namespace tandem::cli {

void add_rules_derive(CLI::App& rules, int& exit_code);
void add_rules_generate(CLI::App& rules);
void add_rules_import(CLI::App& rules);
void add_rules_export(CLI::App& rules);
void add_rules_show(CLI::App& rules);
void add_rules_verify(CLI::App& rules, int& exit_code);

// Flags of `rules verify --properties`.
struct PropertyFlags {
  bool json = false;
  bool strict = false;
  std::vector<std::string> files;
  double seconds = 60;  // time limit for finding a contradiction
  unsigned threads = 0;
};
// Runs `rules verify --properties` (rules_properties.cc). Returns the exit code.
int verify_properties(const PropertyFlags& flags);

// Calls `visit` for each rule of the file, which has text form or is a JSON collection. Holds one
// rule at a time, so there may be any number. Also visits a collection's rules that have no
// equivalent here.
void visit_rules(const std::string& path, const std::function<void(import::Imported)>& visit);

// The rules of a file, and a collection's rules that have no equivalent here.
struct RuleFile {
  std::vector<rewrite::Rule> rules;
  std::vector<import::Imported> lacking;
};
// Reads all rules at once. Throws UserError if there are too many.
RuleFile read_rules(const std::string& path);

// Returns the text of a file of rules or of a collection. Throws UserError if the file is binary.
std::string read_rule_text(const std::string& path);

// Prints a collection's rules that have no equivalent here to stderr, with the reasons.
void print_lacking(const std::vector<import::Imported>& lacking);

}  // namespace tandem::cli
