#include "search/grid/folded_grid_model.h"

#include <algorithm>

#include "base/error.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

class FoldedPipeline : public Pipeline {
 public:
  FoldedPipeline(predict::PipelineDivision pipeline, std::int64_t ranks)
      : pipeline_(std::move(pipeline)), ranks_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] Loads loads(const PassBound& pass, bool accumulates) const override {
    const auto& division = *pipeline_.division;
    std::vector<double> in_turn;  // by class of stages
    std::vector<double> recomputed;
    std::vector<double> accumulation;
    for (std::size_t c = 0; c < division.classes.size(); ++c) {
      const auto following = std::max<std::int64_t>(0, pipeline_.layers[c] - 1);
      in_turn.push_back(static_cast<double>(following) * pass.following);
      recomputed.push_back(0);
      accumulation.push_back(0);
      for (std::size_t r = 0; r < pass.units.size(); ++r) {
        const auto runs = static_cast<double>(division.classes[c][r]);
        in_turn.back() += runs * (pass.units[r] - pass.recomputed[r]);
        recomputed.back() += runs * pass.recomputed[r];
        if (accumulates) accumulation.back() += runs * pass.accumulation[r];
      }
    }
    Loads out;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      double load = 0;
      for (auto s = rank; s < division.class_of_stage.size(); s += ranks_) {
        const auto c = division.class_of_stage[s];
        load += in_turn[c] + recomputed[c] + accumulation[c];
      }
      out.ranks.push_back(load);
      const auto first = division.class_of_stage[rank];
      if (rank + 1 < ranks_) out.others += in_turn[first];
      if (rank == 0) out.others += accumulation[first];
      if (rank + 1 == ranks_) out.others -= accumulation[first];
    }
    return out;
  }

  [[nodiscard]] std::size_t rank_of(std::size_t /*unit*/) const override { return 0; }
  [[nodiscard]] std::int64_t layers_in_flight() const override { return pipeline_.in_flight; }

  [[nodiscard]] bool is_in_pieces() const override {
    return pipeline_.division->classes[0].size() != predict::kSections;
  }

 private:
  predict::PipelineDivision pipeline_;
  std::size_t ranks_;
};

}  // namespace

std::unique_ptr<Pipeline> FoldedGridModel::divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches) {
  auto division = estimates_.divide(ranks, stages_of_rank, micro_batches);
  if (!division) return nullptr;
  return std::make_unique<FoldedPipeline>(std::move(*division), ranks);
}

std::optional<PassBound> FoldedGridModel::bound(const PassKind& kind,
                                                const std::string& recompute) {
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
  // So that what happens once a step is told from what happens in every micro-batch.
  constexpr std::int64_t kMicroBatches = 2;
  setting.micro = kMicroBatches;
  const auto cut = kind.in_pieces ? predict::Cut::kInPieces : predict::Cut::kWhole;
  const auto found =
      estimates_.bound_pass(setting, kMicroBatches * kind.micro_batch_size * groups, cut);
  if (!found) return std::nullopt;
  PassBound out{.units = found->runs,
                .recomputed = found->recomputed,
                .accumulation = found->accumulation,
                .compute = kind.in_pieces ? 0 : found->loads[0],
                .levels = {},
                .following = found->following,
                .sent = Bytes{found->sent},
                .copied = found->copied,
                .gradient_copied = found->gradient_copied,
                .saved = found->saved};
  // What a stage that ends inside a layer recomputes need not be all of it.
  for (std::size_t l = 0; l < on_.machine->levels.size() && !kind.in_pieces; ++l) {
    out.levels.push_back(found->loads[l + 1]);
  }
  return out;
}

std::vector<Estimated> FoldedGridModel::evaluate(const std::vector<Setting>& settings) {
  return estimate_all(estimates_, settings);
}

}  // namespace tandem::search
