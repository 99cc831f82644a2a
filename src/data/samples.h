// The training data of a network, in a file or a directory. Each sample has a part for every input
// of the network. Files are read in place, so that a process touches no more than its shards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "graph/graph.h"

namespace tandem::data {

class Samples {
 public:
  Samples() = default;
  virtual ~Samples() = default;
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;

  // Returns the kind of samples, such as "tokens".
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::int64_t count() const = 0;
  // Reads the elements of a sample's part from `first` on, row-major. Throws UserError if the file
  // is damaged or has invalid values.
  virtual void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
                    std::span<double> to) const = 0;
  // Returns whether a part of a sample is worth preparing before it is read.
  [[nodiscard]] virtual bool takes_long(const graph::Node& /*input*/) const { return false; }
  // Announces the samples that are read next, so that their slow parts can be prepared meanwhile.
  virtual void prefetch(std::span<const std::int64_t> /*samples*/) const {}
};

// Opens a directory of NumPy arrays or of images, Criteo's table, or a file of tokens, as the name
// says. Throws UserError if it cannot be read or does not fit the network.
std::unique_ptr<const Samples> open_samples(const std::string& path, const graph::Graph& model);

// Each of the four kinds has its own source file.
std::unique_ptr<const Samples> open_tokens(const std::string& path, int bytes,
                                           const graph::Graph& model);
std::unique_ptr<const Samples> open_arrays(const std::string& directory, const graph::Graph& model);
std::unique_ptr<const Samples> open_images(const std::string& directory, const graph::Graph& model);
std::unique_ptr<const Samples> open_criteo(const std::string& path, const graph::Graph& model);

// Returns whether the directory has subdirectories. They are classes of images; arrays have none.
bool has_subdirectories(const std::string& directory);

// Returns the shape of one sample's part of an input: all dimensions but the first, which counts
// samples.
Shape sample_shape(const graph::Node& input);
std::vector<graph::NodeId> list_inputs(const graph::Graph& model);
// Throws UserError if an index is outside the range that the input may hold.
void check_below(const graph::Node& input, double value, const std::string& path,
                 std::int64_t sample);

}  // namespace tandem::data
