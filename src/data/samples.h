// What a network is trained on, in a file or a folder: samples, each with a part for every input of
// the network. Read in place, so that a process touches no more than its shards.
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

  // "tokens"
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::int64_t count() const = 0;
  // The elements of a sample's part from `first` on, row-major. Throws UserError where the file is
  // not what it should be.
  virtual void read(const graph::Node& input, std::int64_t sample, std::int64_t first,
                    std::span<double> to) const = 0;
  // Is a part of a sample worth preparing before it is read?
  [[nodiscard]] virtual bool takes_long(const graph::Node& /*input*/) const { return false; }
  // What takes long of these is read next, and prepared meanwhile.
  virtual void expect(std::span<const std::int64_t> /*samples*/) const {}
};

// A folder of NumPy arrays or of pictures, Criteo's table, or a file of tokens, by its name. Throws
// UserError where it cannot be read or is not for this network.
std::unique_ptr<const Samples> open_samples(const std::string& path, const graph::Graph& model);

// The four kinds, each in its file.
std::unique_ptr<const Samples> open_tokens(const std::string& path, int bytes,
                                           const graph::Graph& model);
std::unique_ptr<const Samples> open_arrays(const std::string& folder, const graph::Graph& model);
std::unique_ptr<const Samples> open_pictures(const std::string& folder, const graph::Graph& model);
std::unique_ptr<const Samples> open_criteo(const std::string& path, const graph::Graph& model);

// Folders in a folder are classes of pictures; arrays need none.
bool has_folders(const std::string& folder);

// What one sample has of an input: all dimensions but the first, which counts samples.
Shape sample_shape(const graph::Node& input);
std::vector<graph::NodeId> inputs_of(const graph::Graph& model);
// Throws UserError where a whole number is not below what the input may hold.
void check_below(const graph::Node& input, double value, const std::string& path,
                 std::int64_t sample);

}  // namespace tandem::data
