// The two evaluators of a figure, asked the same question: MAD-Max's formulas, and Tandem.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "machine/scale.h"
#include "madmax/published_test_support.h"
#include "search/explore.h"

namespace tandem::figures {

// Sharding of the layers, "ddp" or "tp/ddp" (inside a node, across nodes), and of a DLRM's
// transformer if it differs. Embedding tables are always distributed; those of a language model are
// replicated.
struct Sharing {
  std::string layers;
  std::string transformer = {};  // empty: as the layers

  bool operator==(const Sharing&) const = default;
};
std::string to_text(const Sharing& sharing);  // "(tp, ddp)"

// A network of the paper's table 2, with its name in both evaluators.
struct Network {
  std::string name;    // "DLRM-A"
  std::string tandem;  // "dlrm_a"
  madmax::Model madmax;
  double batch = 0;

  [[nodiscard]] bool is_recommender() const { return is_recommendation(madmax.family); }
};
const std::vector<Network>& get_networks();  // in the paper's order
const Network& find_network(const std::string& name);

// A network on the paper's system for it (128 A100 for DLRMs, 2048 for language models) or on
// another one.
struct Question {
  Network network;
  bool inference = false;
  machine::Scale scale = {};
  int nodes = 0;  // 0: the paper's
};

// The prediction of an evaluator for one sharding.
struct Answer {
  Sharing sharing;
  double throughput = 0;
  Seconds iteration = {};
  double memory = 0;  // bytes; MAD-Max's formulas: weights, 3 times in training
  bool fits = false;
  double exposed_share = 0;
  std::map<std::string, Seconds> serialized = {};
  Seconds exposed = {};
};

// Returns the shardings that MAD-Max can express, without duplicates, fsdp first.
std::vector<Sharing> list_sharings(const Network& network);

// Predictions by sharding, within memory and without a limit. A language model is predicted with
// and without recomputation; the fastest that fits counts, else the fastest.
struct Answers {
  std::vector<Answer> within_memory;
  std::vector<Answer> without_limit;

  [[nodiscard]] const std::vector<Answer>& get_answers(search::MemoryConstraint memory) const {
    return memory == search::MemoryConstraint::kLimited ? within_memory : without_limit;
  }
};
Answers ask_madmax(const Question& question, const std::vector<Sharing>& sharings);
Answers ask_tandem(const Question& question, const std::vector<Sharing>& sharings);

// Returns the fastest of the answers that fit, or of all; null if there is none.
const Answer* find_best(const std::vector<Answer>& answers, search::MemoryConstraint memory);
const Answer& find_answer(const std::vector<Answer>& answers, const Sharing& sharing);
// Returns the answer that all others are compared with: fsdp.
const Answer& find_baseline(const std::vector<Answer>& answers);

}  // namespace tandem::figures
