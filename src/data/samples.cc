#include "data/samples.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "ops/registry.h"
#include "ops/sources.h"

namespace tandem::data {

std::unique_ptr<const Samples> open_samples(const std::string& path, const graph::Graph& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return has_subdirectories(path) ? open_images(path, model) : open_arrays(path, model);
  }
  const auto ending = fs::path(path).extension();
  if (ending == ".tsv" || ending == ".txt") return open_criteo(path, model);
  if (ending == ".bin" || ending == ".u16") return open_tokens(path, 2, model);
  if (ending == ".u32") return open_tokens(path, 4, model);
  if (!fs::exists(path, ignored)) throw UserError("file", path, "cannot be read");
  throw UserError("data", path, "has an unsupported format",
                  "supported: token files (.bin, .u16, .u32), Criteo click logs (.tsv, .txt), a "
                  "directory of .npy files, a directory of images with one subdirectory per class");
}

std::vector<graph::NodeId> list_inputs(const graph::Graph& model) {
  std::vector<graph::NodeId> out;
  for (auto id : model.ids()) {
    if (graph::is_input(model.node(id))) out.push_back(id);
  }
  return out;
}

Shape sample_shape(const graph::Node& input) {
  const auto& sizes = input.type.shape.sizes;
  Shape out;
  for (std::size_t d = 1; d < sizes.rank(); ++d) out.push_back(sizes[d]);
  return out;
}

void check_below(const graph::Node& input, double value, const std::string& path,
                 std::int64_t sample) {
  const auto below = input.op.get<ops::Input>().below;
  if (below == 0 || (value >= 0 && value < static_cast<double>(below))) return;
  throw UserError("data", path,
                  fmt::format("sample {} has the value {} for input %{}, which takes 0 to {}",
                              sample, value, input.name, below - 1));
}

}  // namespace tandem::data
