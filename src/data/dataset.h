// The inputs at each step of a training run: samples in random order, which changes with every
// epoch. The order is a function of the seed and the step, so a resumed run continues as it would
// have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples.h"
#include "data/shuffle.h"

namespace tandem::data {

class Dataset {
 public:
  // Throws UserError if the samples cannot be read or do not fit the model.
  Dataset(const std::string& path, const graph::Graph& model, std::uint64_t seed);

  [[nodiscard]] std::int64_t samples() const { return samples_->count(); }
  // Returns the identity of the data: kind, number of samples, and a checksum of three of them. It
  // does not depend on the path. Example: "tokens, 1200 samples, 93c1a2b3c4d5e6f7".
  [[nodiscard]] const std::string& identity() const { return identity_; }
  // Returns the sample in row `row` of the batch of `step`.
  [[nodiscard]] std::int64_t sample_at(std::int64_t step, std::int64_t row,
                                       std::int64_t batch) const;
  // Reads the elements of `input` at `step` from the global row-major index `first` on.
  void read(const graph::Node& input, std::int64_t step, std::int64_t first,
            std::span<double> to) const;
  // Starts preparing the inputs of `step`, for the rows of the batch that were read since the last
  // call.
  void read_ahead(std::int64_t step) const;

 private:
  std::unique_ptr<const Samples> samples_;
  std::uint64_t seed_;
  std::int64_t batch_ = 0;
  std::string identity_;
  mutable std::vector<std::int64_t> rows_;  // Batch rows read so far of inputs that take long
};

}  // namespace tandem::data
