#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"

namespace tandem::data {

namespace {

// Hashes the first, the middle and the last sample.
std::string compute_identity(const Samples& samples, const graph::Graph& model) {
  Hash hash = 0;
  for (auto id : list_inputs(model)) {
    const auto& input = model.node(id);
    std::vector<double> elements(static_cast<std::size_t>(sample_shape(input).count()));
    Hash own = hash_text(input.name);
    for (const auto sample : {std::int64_t{0}, samples.count() / 2, samples.count() - 1}) {
      samples.read(input, sample, 0, elements);
      for (const auto e : elements) own = hash_combine(own, std::bit_cast<Hash>(e));
    }
    hash += own;  // Independent of the order of inputs
  }
  return fmt::format("{}, {} samples, {:016x}", samples.kind(), samples.count(), hash);
}

}  // namespace

Dataset::Dataset(const std::string& path, const graph::Graph& model, std::uint64_t seed)
    : samples_(open_samples(path, model)), seed_(seed) {
  for (auto id : list_inputs(model)) {
    const auto& input = model.node(id);
    const auto& sizes = input.type.shape.sizes;
    const auto own = sizes.rank() == 0 ? 0 : sizes[0];
    if (own == 0 || (batch_ != 0 && own != batch_)) {
      throw UserError(
          "data", path,
          fmt::format("cannot feed input %{}: its first dimension is not the batch", input.name));
    }
    batch_ = own;
  }
  identity_ = compute_identity(*samples_, model);
}

std::int64_t Dataset::sample_at(std::int64_t step, std::int64_t row, std::int64_t batch) const {
  const auto place = step * batch + row;
  const auto pass = place / samples();
  const Shuffle shuffle(samples(), hash_combine(seed_, static_cast<Hash>(pass)));
  return shuffle(place % samples());
}

void Dataset::read(const graph::Node& input, std::int64_t step, std::int64_t first,
                   std::span<double> to) const {
  const auto& sizes = input.type.shape.sizes;
  const auto per_sample = sample_shape(input).count();
  while (!to.empty()) {
    const auto row = first / per_sample;
    const auto within = first % per_sample;
    const auto count =
        std::min<std::size_t>(to.size(), static_cast<std::size_t>(per_sample - within));
    const bool is_new = rows_.empty() || rows_.back() != row;
    if (is_new && samples_->takes_long(input)) rows_.push_back(row);
    samples_->read(input, sample_at(step, row, sizes[0]), within, to.first(count));
    to = to.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

void Dataset::read_ahead(std::int64_t step) const {
  std::ranges::sort(rows_);
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  for (auto& row : rows_) row = sample_at(step, row, batch_);
  samples_->prefetch(rows_);
  rows_.clear();
}

}  // namespace tandem::data
