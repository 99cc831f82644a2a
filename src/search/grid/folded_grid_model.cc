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
    std::vector<double> times;  // by class of stages
    for (std::size_t c = 0; c < pipeline_.classes.size(); ++c) {
      const auto following = std::max<std::int64_t>(0, pipeline_.layers[c] - 1);
      double time = static_cast<double>(following) * pass.following;
      for (std::size_t r = 0; r < pass.units.size(); ++r) {
        const auto unit = pass.units[r] + (accumulates ? pass.accumulation[r] : 0);
        time += static_cast<double>(pipeline_.classes[c][r]) * unit;
      }
      times.push_back(time);
    }
    Loads out;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      out.last = 0;
      for (auto s = rank; s < pipeline_.class_of_stage.size(); s += ranks_) {
        out.last += times[pipeline_.class_of_stage[s]];
      }
      out.busiest = std::max(out.busiest, out.last);
      if (rank + 1 < ranks_) out.others += times[pipeline_.class_of_stage[rank]];
    }
    return out;
  }

  [[nodiscard]] std::int64_t layers_in_flight() const override { return pipeline_.in_flight; }

  [[nodiscard]] bool is_in_pieces() const override { return pipeline_.is_in_pieces; }

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
  const auto found = estimates_.bound_pass(setting, kMicroBatches * kind.micro_batch_size * groups,
                                           kind.in_pieces);
  if (!found) return std::nullopt;
  PassBound out{.units = found->runs,
                .accumulation = found->accumulation,
                .levels = {},
                .following = found->following,
                .sent = Bytes{found->sent},
                .copied = found->copied,
                .gradient_copied = found->gradient_copied,
                .saved = found->saved};
  // What a stage that ends inside a layer recomputes need not be all of it.
  if (!kind.in_pieces) out.levels = found->levels;
  return out;
}

std::vector<Estimated> FoldedGridModel::evaluate(const std::vector<Setting>& settings) {
  return estimate_all(estimates_, settings);
}

}  // namespace tandem::search
