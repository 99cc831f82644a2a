#include "search/estimates.h"

#include "base/error.h"

namespace tandem::search {

Evaluated make_point(const Case& on, const Evaluated& evaluated) {
  auto out = summarize(evaluated);
  out.throughput = static_cast<double>(on.batch) / out.simulation.iteration.value;
  return out;
}

plan::Precision get_precision(const Case& on, const strategies::Setting& setting) {
  return on.precision ? on.precision(setting.family) : plan::Precision{};
}

std::optional<Evaluated> Estimates::find(const strategies::Setting& setting) {
  try {
    return compute_estimate(setting);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::optional<Evaluated> Estimates::compute_estimate(const strategies::Setting& setting) {
  auto estimate = get_estimator(get_precision(on_, setting)).estimate(setting, on_.batch);
  if (!estimate) return std::nullopt;
  auto out =
      make_point(on_, make_evaluated(to_text(setting), std::move(estimate->step), on_.limits));
  out.setting = setting;
  out.error_bound = estimate->error_bound;
  return out;
}

std::optional<predict::MicroBatchBound> Estimates::bound_pass(const strategies::Setting& setting,
                                                              std::int64_t batch, bool in_pieces) {
  return get_estimator(get_precision(on_, setting)).bound_pass(setting, batch, in_pieces);
}

std::optional<predict::PipelineDivision> Estimates::divide(std::int64_t ranks,
                                                           std::int64_t stages_of_rank,
                                                           std::int64_t micro_batches) {
  return get_estimator(get_precision(on_, {.family = strategies::Family::kMegatron}))
      .divide(ranks, stages_of_rank, micro_batches, on_.batch);
}

predict::Estimator& Estimates::get_estimator(const plan::Precision& precision) {
  for (auto& [known, estimator] : estimators_) {
    if (known == precision) return *estimator;
  }
  const predict::Training training{on_.dtype, on_.optimizer, precision};
  auto made = std::make_unique<predict::Estimator>(*on_.network, *on_.machine, training);
  return *estimators_.emplace_back(precision, std::move(made)).second;
}

}  // namespace tandem::search
