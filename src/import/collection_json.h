// Import and export of TASO's and FlexFlow's rule collections (import/collection_schema.h).
//
// A collection with parallelization operators counts dimensions from the replica dimension:
// (replica, rows, columns). Any other collection counts from the first dimension of the tensor. A
// degree of 2 stands for any degree: all degrees of a rule are one symbol ?d. A split cuts where
// the concat before it joined its operands. A rule with an operator or parameter that does not
// exist here is reported; it is not an error.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/collection_schema.h"
#include "rewrite/rule.h"

namespace tandem::import {

// Returns whether `text`, read from file `path`, is a JSON collection and not rules in text
// form. A malformed collection counts as one.
bool is_collection_json(std::string_view text, std::string_view path = "");

// A rule, or the reason why it has no equivalent here.
struct Imported {
  std::string name;
  std::optional<rewrite::Rule> rule;
  std::string lacking;  // for example "OP_PIPELINE: micro-batches are ..."
};

// Calls `visit` for every rule of `text`. Holds one rule at a time, so that there may be any
// number of them. Gives the rules unique names. Throws UserError("rules", "source: rule 3
// ('name')", ...) if the text does not have the form of a collection.
void for_each_imported_rule(std::string_view text, const std::string& source,
                            const std::function<void(Imported)>& visit);

struct Collection {
  std::vector<rewrite::Rule> rules;
  std::vector<Imported> lacking;
};
Collection import_collection(std::string_view text, const std::string& source);

// A collection as text, with the rules that it can express. The others are listed in
// `lacking`. Importing the text gives the same rules again.
struct Exported {
  std::string text;
  std::size_t rules = 0;
  std::vector<Imported> lacking;
};
Exported export_collection(std::span<const rewrite::Rule> rules);

// Returns whether `rule` shards, replicates or joins tensors. A collection with any such rule
// counts dimensions from the replica dimension.
bool has_parallel_operator(const rewrite::Rule& rule);
// Returns whether any rule of `text` has a parallel operator. Stops at the first such rule, and
// parses nothing if the text contains none of their names. Throws UserError("rule") that names
// `source`.
bool has_parallel_rule(std::string_view text, const std::string& source);

// Writes a collection rule by rule, so that there may be any number of rules.
class CollectionWriter {
 public:
  // `parallel`: whether any of the rules has a parallel operator.
  CollectionWriter(bool parallel, std::function<void(std::string_view)> write);

  // Converts the rules with `threads` threads and writes them in this order. Returns for each rule
  // nullopt, or the reason why the collection cannot express it.
  std::vector<std::optional<std::string>> add(std::span<const rewrite::Rule> rules,
                                              unsigned threads = 1);
  void end();  // call after the last add()

  [[nodiscard]] std::size_t rule_count() const { return rules_; }

 private:
  Dimensions dimensions_;
  std::function<void(std::string_view)> write_;
  std::size_t rules_ = 0;
};

// Returns the rule as text, with variables and symbols renamed by their first use and conditions
// sorted. Rules that differ only in names have equal texts. Returns "" if the text would be too
// long.
std::string to_canonical_text(const rewrite::Rule& rule);

}  // namespace tandem::import
