#include "search/grid/folded_grid_model.h"

#include <algorithm>

#include "base/error.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

class FoldedPipeline : public Pipeline {
 public:
  explicit FoldedPipeline(predict::PipelineDivision pipeline) : pipeline_(std::move(pipeline)) {}

  // Leaves accumulation out of the path through the other ranks, since a stage sends its gradient
  // back before it accumulates. Only the first rank's last accumulation counts.
  [[nodiscard]] Loads compute_loads(const PassBound& pass, double accumulations) const override {
    const auto ranks = pipeline_.kind_of_rank.size();
    Loads out{.ranks = std::vector<double>(ranks)};
    if (pass.units.empty()) return out;  // no bound is known
    const auto times = compute_class_times(pass, accumulations);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto* of_kind = &times[pipeline_.kind_of_rank[rank] * pipeline_.classes.size()];
      for (auto s = rank; s < pipeline_.class_of_stage.size(); s += ranks) {
        const auto& stage = of_kind[pipeline_.class_of_stage[s]];
        out.ranks[rank] += stage.forward + stage.backward;
      }
      const auto first = subtract_tied(of_kind[pipeline_.class_of_stage[rank]], pass, rank);
      out.ranks[rank] -= of_kind[pipeline_.class_of_stage[rank]].backward - first.backward;
      const auto in_last = accumulations > 0 ? first.accumulation / accumulations : 0;
      if (rank + 1 == ranks) {
        out.others -= in_last;
        continue;
      }
      out.others += first.forward + first.backward - first.early - first.accumulation;
      if (rank == 0) out.others += in_last;
    }
    return out;
  }

  [[nodiscard]] std::vector<predict::PassTime> compute_times(const PassBound& pass,
                                                             bool accumulates) const override {
    const auto of_classes = compute_class_times(pass, accumulates ? 1 : 0);
    std::vector<predict::PassTime> out;
    for (std::size_t s = 0; s < pipeline_.class_of_stage.size(); ++s) {
      const auto kind = pipeline_.kind_of_rank[s % pipeline_.kind_of_rank.size()];
      const auto& time = of_classes[kind * pipeline_.classes.size() + pipeline_.class_of_stage[s]];
      out.push_back(subtract_tied(time, pass, s));
    }
    return out;
  }

  [[nodiscard]] Bytes compute_saved_bytes(const PassBound& pass) const override {
    return pass.saved * static_cast<double>(pipeline_.in_flight);
  }

  [[nodiscard]] bool is_in_pieces() const override { return pipeline_.is_in_pieces; }

 private:
  [[nodiscard]] predict::PassTime subtract_tied(predict::PassTime time, const PassBound& pass,
                                                std::size_t stage) const {
    if (stage > 0 || pipeline_.class_of_stage.size() == 1 || pass.tied.empty()) return time;
    time.backward -= pass.tied[pipeline_.kind_of_rank[0]];
    return time;
  }

  // Returns times by kind of device, then by class of stages.
  [[nodiscard]] std::vector<predict::PassTime> compute_class_times(const PassBound& pass,
                                                                   double accumulations) const {
    const auto runs = pipeline_.classes[0].size();
    std::vector<predict::PassTime> out;
    for (std::size_t first = 0; first < pass.units.size(); first += runs) {
      for (std::size_t c = 0; c < pipeline_.classes.size(); ++c) {
        const auto following =
            static_cast<double>(std::max<std::int64_t>(0, pipeline_.layers[c] - 1));
        double all = following * pass.following;
        double forward = following * pass.following_forward;
        double accumulation = 0;
        double early = 0;
        // A stage that is a piece of a layer does not recompute the activation that it sends.
        const bool recomputes_less = pipeline_.is_in_pieces && pipeline_.layers[c] == 0;
        for (std::size_t r = 0; r < runs; ++r) {
          const auto times = static_cast<double>(pipeline_.classes[c][r]);
          const auto u = first + r;
          all += times * pass.units[u];
          accumulation += times * pass.accumulation[u];
          if (times > 0) early = std::max(early, pass.early[u]);
          forward += times * pass.forward[u];
          if (recomputes_less) all -= times * pass.early[u];
        }
        if (recomputes_less) early = 0;
        accumulation *= accumulations;
        out.push_back({forward, all - forward + accumulation, early, accumulation});
      }
    }
    return out;
  }

  predict::PipelineDivision pipeline_;
};

}  // namespace

std::unique_ptr<Pipeline> FoldedGridModel::divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches) {
  auto division = estimates_.divide(ranks, stages_of_rank, micro_batches);
  if (!division) return nullptr;
  return std::make_unique<FoldedPipeline>(std::move(*division));
}

std::optional<PassBound>* KnownPasses::find(const Case& on, const PassKind& kind,
                                            bool has_data_parallel, bool& is_new) {
  const auto& machine = *on.machine;
  // Experts are placed on all devices.
  if (kind.ep > 1) return nullptr;
  std::vector<GroupDigit> group;
  const auto& digits = on.problem->digits;
  for (std::size_t d = 0; d < digits.count(); ++d) {
    const bool is_context = machine::has_digit(kind.context, d);
    if (!is_context && !machine::has_digit(kind.tensor, d)) continue;
    group.push_back({digits[d].level, digits[d].size, is_context});
  }
  std::vector<std::string> kinds;
  for (const auto& group : machine.groups) kinds.push_back(group.name);
  // The number of units that one switch connects does not matter.
  std::vector<std::int64_t> counts;
  for (const auto& level : machine.levels) counts.push_back(level.count);
  if (!counts.empty() && machine.levels[0].network == nullptr) counts[0] = 0;
  auto without = kind;
  without.tensor = without.context = 0;
  const auto [at, inserted] = known_.try_emplace(
      {without, std::move(group), std::move(counts), std::move(kinds), has_data_parallel});
  is_new = inserted;
  return &at->second;
}

std::optional<PassBound> FoldedGridModel::bound_pass(const PassKind& kind,
                                                     strategies::Recompute recompute) {
  const bool has_data_parallel = on_.problem->digits.devices() > kind.tp * kind.cp;
  bool is_new = true;
  auto* known = known_ ? known_->find(on_, kind, has_data_parallel, is_new) : nullptr;
  if (known == nullptr) return compute_pass_bound(kind, recompute);
  if (is_new) *known = compute_pass_bound(kind, recompute);
  return *known;
}

std::optional<PassBound> FoldedGridModel::compute_pass_bound(const PassKind& kind,
                                                             strategies::Recompute recompute) {
  Setting setting{.family = Family::kMegatron};
  auto groups = on_.problem->digits.devices() / kind.tp / kind.cp;
  if (kind.ep > 1) {
    setting.family = Family::kEp;
    setting.ep = kind.ep;
  } else {
    setting.tp = {kind.tp};
    setting.cp = kind.cp;
    setting.dp = groups;
    setting.sp = kind.sequence_parallel;
  }
  setting.recompute = recompute;
  // With two micro-batches, costs per step differ from costs per micro-batch.
  constexpr std::int64_t kMicroBatches = 2;
  setting.micro = kMicroBatches;
  std::optional<predict::MicroBatchBound> found;
  try {
    found = estimates_.bound_pass(setting, kMicroBatches * kind.micro_batch_size * groups,
                                  kind.in_pieces);
  } catch (const UserError&) {  // these tensors are larger than those of any step
  }
  if (!found) return std::nullopt;
  PassBound out{std::move(*found)};
  // A stage that ends inside a layer may recompute only a part of it.
  if (kind.in_pieces) {
    out.compute = 0;
    out.levels.clear();
  }
  return out;
}

std::vector<std::optional<Evaluated>> FoldedGridModel::evaluate(
    const std::vector<Setting>& settings) {
  std::vector<std::optional<Evaluated>> out;
  out.reserve(settings.size());
  for (const auto& setting : settings) out.push_back(estimates_.find(setting));
  return out;
}

}  // namespace tandem::search
