// What the inputs are at each step of a training run: samples in an order at random, another one
// each time they are through. A function of the seed and the step, so a run that is resumed goes on
// as it would have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples.h"
#include "data/shuffle.h"

namespace tandem::data {

class Dataset {
 public:
  // Throws UserError.
  Dataset(const std::string& path, const graph::Graph& model, std::uint64_t seed);

  [[nodiscard]] std::int64_t samples() const { return samples_->count(); }
  // The same wherever it lies and whatever it is called: kind, number of samples, and a checksum of
  // three of them. "tokens, 1200 samples, 93c1a2b3c4d5e6f7"
  [[nodiscard]] const std::string& identity() const { return identity_; }
  // The sample in a row of the batch.
  [[nodiscard]] std::int64_t sample_at(std::int64_t step, std::int64_t row,
                                       std::int64_t batch) const;
  // The elements from the global row-major index `first` on.
  void read(const graph::Node& input, std::int64_t step, std::int64_t first,
            std::span<double> to) const;
  // At this step what has been read since the last call is read next, of the same rows.
  void read_ahead(std::int64_t step) const;

 private:
  std::unique_ptr<const Samples> samples_;
  std::uint64_t seed_;
  std::int64_t batch_ = 0;
  std::string identity_;
  mutable std::vector<std::int64_t> rows_;  // of the batch, whose parts that take long were read
};

}  // namespace tandem::data
