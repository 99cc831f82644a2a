#include "strategies/strategies.h"

namespace tandem::strategies {

namespace {

// Adds the digits of one level to the job.
void add_level(OperatorDigits& job, machine::DigitMask level, Sharding sharding) {
  switch (sharding) {
    case Sharding::kFsdp:
      job.stored |= level;
      [[fallthrough]];
    case Sharding::kDdp:
      job.data |= level;
      return;
    case Sharding::kMp:
      job.start = Start::kParts;
      [[fallthrough]];
    case Sharding::kTp:
      job.split |= level;
      return;
  }
}

// Returns the digits of the outermost level. If there is no level below it, the machine is one
// node.
machine::DigitMask find_digits_across_nodes(const machine::Digits& digits) {
  machine::DigitMask mask = 0;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (digits[i].level == 0) mask |= machine::bit(i);
  }
  return mask == digits.all() ? 0 : mask;
}

// Returns whether the operator works on split results and runs along the batch if it cannot stay
// split. Examples are a norm, or the concatenation of embedding results.
bool works_on_parts(const Problem& problem, graph::NodeId id) {
  return !problem.has_own_weights[id.index()] ||
         problem.layers[id.index()] == LayerKind::kEmbedding;
}

}  // namespace

LevelSharding get_default_sharding(LayerKind kind) {
  if (kind == LayerKind::kEmbedding) return {Sharding::kMp, Sharding::kMp};
  return {};
}

Made make_madmax(const Problem& problem, const std::map<LayerKind, LevelSharding>& layers) {
  for (const auto& [kind, sharding] : layers) {
    if (problem.has(kind)) continue;
    std::string has;
    for (auto k : kLayerKinds) {
      if (problem.has(k)) has += (has.empty() ? "" : ", ") + std::string(name(k));
    }
    return Refusal{problem.model.name() + " has no layers of kind " + std::string(name(kind)),
                   "its kinds: " + has};
  }
  const auto& digits = problem.digits;
  const auto inter = find_digits_across_nodes(digits);
  std::map<LayerKind, OperatorDigits> jobs;
  for (auto kind : kLayerKinds) {
    const auto at = layers.find(kind);
    const auto sharding = at == layers.end() ? get_default_sharding(kind) : at->second;
    add_level(jobs[kind], digits.all() & ~inter, sharding.intra);
    add_level(jobs[kind], inter, sharding.inter);
  }
  std::vector<OperatorDigits> by_node;
  for (auto id : problem.model.ids()) {
    auto job = jobs[problem.layers[id.index()]];
    if (job.start == Start::kParts && sends_tokens(problem.model.node(id))) {
      job = {.data = job.data | job.split};
    } else if (job.start == Start::kParts && problem.is_table(id)) {
      job.rest = Rest::kIdle;
    } else if (job.start == Start::kParts && works_on_parts(problem, id)) {
      job.rest = Rest::kBatch;
    }
    by_node.push_back(job);
  }
  return spread(problem, by_node);
}

}  // namespace tandem::strategies
