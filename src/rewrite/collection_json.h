// Import and export of TASO's and FlexFlow's rule collections (rewrite/collection_schema.h).
//
// A collection with parallelization operators counts dimensions from that of replicas, (replica,
// rows, columns), another from the first. A degree of 2 stands for any: all degrees of a rule are
// one symbol ?d. A split cuts where the concat before it was put together. What a rule says with
// operators or parameters that there are none of here is told, not fatal.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/collection_schema.h"
#include "rewrite/rule.h"

namespace tandem::rewrite {

// Is this a collection, also one that is malformed, as opposed to rules in text form? `path` is
// where it was read.
bool is_collection_json(std::string_view text, std::string_view path = "");

// A rule, or why it is none here.
struct Imported {
  std::string name;
  std::optional<Rule> rule;
  std::string lacking;  // "OP_PIPELINE: micro-batches are ..."
};

// Holds one rule at a time, so that it takes any number. Names are unique. Throws
// UserError("rules", "source: rule 3 ('name')", ...) where the text is not of the form.
void for_each_imported(std::string_view text, const std::string& source,
                       const std::function<void(Imported)>& visit);

struct Collection {
  std::vector<Rule> rules;
  std::vector<Imported> lacking;
};
Collection import_collection(std::string_view text, const std::string& source);

// The rules that can be said so; the others are told in `lacking`. What is written is imported
// again as the same rule.
struct Exported {
  std::string text;
  std::size_t rules = 0;
  std::vector<Imported> lacking;
};
Exported export_collection(std::span<const Rule> rules);

// Does it cut or copy tensors? A collection with any such rule counts dimensions otherwise.
bool has_parallel_operator(const Rule& rule);
// Does any rule of the text, `source`? Reads up to the first that does, and nothing where the text
// has none of their names. Throws UserError("rule").
bool has_parallel_rule(std::string_view text, const std::string& source);

// The same rule by rule, so that there may be any number of them.
class CollectionWriter {
 public:
  // `parallel`: has any of the rules a parallel operator?
  CollectionWriter(bool parallel, std::function<void(std::string_view)> write);

  // By several threads; in this order. Of each none, or why it cannot be said.
  std::vector<std::optional<std::string>> add(std::span<const Rule> rules, unsigned threads = 1);
  void end();  // behind the last

  [[nodiscard]] std::size_t rules() const { return rules_; }

 private:
  Dimensions dimensions_;
  std::function<void(std::string_view)> write_;
  std::size_t rules_ = 0;
};

// Its text with its variables and symbols renamed by their first use and its conditions sorted:
// equal for rules that differ in names only. Empty where it would be long.
std::string canonical_text(const Rule& rule);

}  // namespace tandem::rewrite
