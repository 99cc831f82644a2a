#include "search/estimates.h"

#include "base/error.h"

namespace tandem::search {

Evaluated point_of(const Case& on, const Evaluated& evaluated) {
  auto out = summary_of(evaluated);
  out.throughput = static_cast<double>(on.batch) / out.simulation.iteration.value;
  return out;
}

plan::Precision precision_of(const Case& on, const strategies::Setting& setting) {
  return on.precision ? on.precision(setting.family) : plan::Precision{};
}

std::optional<Evaluated> Estimates::find(const strategies::Setting& setting) {
  try {
    return point(setting);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::optional<Evaluated> Estimates::point(const strategies::Setting& setting) {
  auto estimate = estimator(precision_of(on_, setting)).estimate(setting, on_.batch);
  if (!estimate) return std::nullopt;
  auto out = point_of(on_, costed(to_text(setting), std::move(estimate->step), on_.limits));
  out.setting = setting;
  out.error_bound = estimate->error_bound;
  return out;
}

std::optional<predict::PassBound> Estimates::bound_pass(const strategies::Setting& setting,
                                                        std::int64_t batch, bool in_pieces) {
  return estimator(precision_of(on_, setting)).bound_pass(setting, batch, in_pieces);
}

std::optional<predict::PipelineDivision> Estimates::divide(std::int64_t ranks,
                                                           std::int64_t stages_of_rank,
                                                           std::int64_t micro_batches) {
  return estimator(precision_of(on_, {.family = strategies::Family::kMegatron}))
      .divide(ranks, stages_of_rank, micro_batches, on_.batch);
}

predict::Estimator& Estimates::estimator(const plan::Precision& precision) {
  for (auto& [known, estimator] : estimators_) {
    if (known == precision) return *estimator;
  }
  const predict::Training training{on_.dtype, on_.optimizer, precision};
  auto made = std::make_unique<predict::Estimator>(*on_.network, *on_.machine, training);
  return *estimators_.emplace_back(precision, std::move(made)).second;
}

}  // namespace tandem::search
