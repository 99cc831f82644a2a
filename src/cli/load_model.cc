// A model by its name, or from a file that describes one.
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/host.h"
#include "graph/json.h"
#include "graph/text.h"
#include "import/config.h"
#include "import/onnx.h"
#include "strategies/model_figures.h"

namespace tandem::cli {

namespace {

using models::Model;
using models::ModelSpec;
using strategies::samples_of;

// "dir/config.json:layers=4": the file, and what follows it.
struct FileModel {
  std::string path;
  std::string overrides;
};

std::optional<FileModel> file_in(const std::string& text) {
  if (std::filesystem::is_regular_file(text)) return FileModel{text, ""};
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto path = text.substr(0, colon);
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  return FileModel{path, text.substr(colon + 1)};
}

// A graph is for one batch and one element type: its own.
std::shared_ptr<const ModelSpec> spec_of(const graph::Graph& graph, const std::string& path) {
  auto out = std::make_shared<ModelSpec>();
  out->name = graph.name();
  out->doc = "the graph in " + path;
  out->batch = out->train_batch = samples_of(graph);
  out->build = [graph, path](const models::Settings&, std::int64_t batch, DType dtype) {
    if (batch != samples_of(graph)) {
      throw UserError("model", path,
                      fmt::format("its graph is for batch {}, not {}", samples_of(graph), batch));
    }
    for (auto id : graph.ids()) {
      const auto own = graph.node(id).type.dtype;
      if (is_integer(own) || own == dtype) continue;
      throw UserError("model", path,
                      fmt::format("its graph is in {}, not {}", name(own), name(dtype)),
                      fmt::format("--dtype {}", name(own)));
    }
    return graph;
  };
  return out;
}

// An ONNX file is read for the batch that is asked for, and gets a loss. "sequence=128": sizes that
// it leaves open.
std::shared_ptr<const ModelSpec> onnx_spec(const std::string& path, const std::string& sizes) {
  auto out = std::make_shared<ModelSpec>();
  import::OnnxOptions options;
  for (auto part : split(sizes, ',')) {
    const auto equals = part.find('=');
    const std::string key(trim(part.substr(0, equals)));
    const auto size =
        parse_int(equals == std::string_view::npos ? "" : trim(part.substr(equals + 1)));
    if (!size || *size < 0) {
      throw UserError("model", path, fmt::format("'{}' is not NAME=SIZE", part));
    }
    options.dims[key] = *size;
    out->hyperparameters.push_back(
        {key, fmt::format("{}", *size), "a size that the file leaves open"});
  }
  const auto model = import::import_onnx_file(path, options);
  out->name = model.graph.name();
  out->doc = "the network in " + path;
  out->batch_per_device = out->train_batch = model.batch;
  options.append_loss = true;
  out->build = [path, options](const models::Settings&, std::int64_t batch, DType) {
    auto now = options;
    now.batch = batch;
    return import::import_onnx_file(path, now).graph;
  };
  return out;
}

// What is wrong with JSON that is neither a graph nor a network's config.json.
void refuse_json(const std::string& text, const std::string& path) {
  if (!path.ends_with(".json") && !trim(text).starts_with('{')) return;
  const auto json = read_json<Json>(text, "model", path);
  if (!json.is_object()) return;
  if (json.contains("tandem_plan")) {
    throw UserError("model", path, "is a plan", "a network is asked for: plans name theirs");
  }
  throw UserError("model", path, "'model_type' is missing",
                  "a network's config.json has it; a graph has 'tandem_graph', a plan "
                  "'tandem_plan'");
}

std::shared_ptr<const ModelSpec> spec_in(const std::string& path, const std::string& overrides) {
  if (import::is_onnx_file(path)) return onnx_spec(path, overrides);
  const auto text = read_file(path);
  if (graph::is_graph_text(text)) return spec_of(graph::parse_graph(text, path), path);
  if (graph::is_graph_json(text)) return spec_of(graph::parse_json(text, path), path);
  if (import::is_config(text)) return import::read_config(text, path);
  refuse_json(text, path);
  throw UserError("model", path, "is not a file that describes a model",
                  "ONNX, a graph as text (which begins with 'graph NAME') or as JSON, or a "
                  "network's config.json");
}

Model load_file(const FileModel& file, const std::string& text) {
  auto model = models::make_model(spec_in(file.path, file.overrides), text, file.overrides);
  if (import::is_onnx_file(file.path)) return model;
  const auto contents = read_file(file.path);
  if (!import::is_config(contents)) return model;
  for (const auto& line : import::config_notes(contents, file.path, model.settings.size("seq"))) {
    note(line);
  }
  return model;
}

// Two values of one hyperparameter: which of them is meant?
void refuse_repeated(const std::string& text, std::string_view overrides) {
  std::set<std::string_view> keys;
  for (const auto part : split(overrides, ',')) {
    const auto key = trim(part.substr(0, part.find('=')));
    if (keys.insert(key).second) continue;
    throw UserError("model", text, fmt::format("'{}' stands twice", key), "one of the two");
  }
}

}  // namespace

Model load_model(const std::string& text) {
  const auto file = file_in(text);
  const auto colon = text.find(':');
  if (file) {
    refuse_repeated(text, file->overrides);
  } else if (colon != std::string::npos) {
    refuse_repeated(text, std::string_view(text).substr(colon + 1));
  }
  if (file) return load_file(*file, text);
  if (std::filesystem::is_directory(text) && !models::is_built_in(text)) {
    throw UserError("model", text, "is a folder", "a model is a name or a file");
  }
  if (text.ends_with(".onnx") || text.ends_with(".json")) {
    throw UserError("file", text, "cannot be read");
  }
  return models::parse_model(text);
}

}  // namespace tandem::cli
