// Loads a model by name, or from a file that describes it.
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

using models::ConfiguredModel;
using models::ModelSpec;
using strategies::count_samples;

// A model's text split at its file: "dir/config.json:layers=4" -> "dir/config.json", "layers=4".
struct FileModel {
  std::string path;
  std::string overrides;
};

// Returns nullopt if the text names no existing file.
std::optional<FileModel> find_model_file(const std::string& text) {
  if (std::filesystem::is_regular_file(text)) return FileModel{text, ""};
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto path = text.substr(0, colon);
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  return FileModel{path, text.substr(colon + 1)};
}

// Returns the spec of a graph. It can be built only for the batch and the element type of the
// graph.
std::shared_ptr<const ModelSpec> make_graph_spec(const graph::Graph& graph,
                                                 const std::string& path) {
  auto out = std::make_shared<ModelSpec>();
  out->name = graph.name();
  out->doc = "the graph in " + path;
  out->batch = out->train_batch = count_samples(graph);
  out->build = [graph, path](const models::Settings&, std::int64_t batch, DType dtype) {
    if (batch != count_samples(graph)) {
      throw UserError("model", path,
                      fmt::format("its graph is for batch {}, not {}", count_samples(graph), batch),
                      fmt::format("use --batch {}", count_samples(graph)));
    }
    for (auto id : graph.ids()) {
      const auto own = graph.node(id).type.dtype;
      if (is_integer(own) || own == dtype) continue;
      throw UserError("model", path,
                      fmt::format("its graph is in {}, not {}", name(own), name(dtype)),
                      fmt::format("use --dtype {}", name(own)));
    }
    return graph;
  };
  return out;
}

// Returns the spec of an ONNX file. It is imported for each requested batch, and a loss is
// appended. `sizes` sets symbolic dimensions of the file: "sequence=128".
std::shared_ptr<const ModelSpec> make_onnx_spec(const std::string& path, const std::string& sizes) {
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
        {key, fmt::format("{}", *size), "a symbolic dimension of the file"});
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

// Throws UserError if the text is JSON; it is neither a graph nor a network's config.json.
void refuse_json(const std::string& text, const std::string& path) {
  if (!path.ends_with(".json") && !trim(text).starts_with('{')) return;
  const auto json = read_json<Json>(text, "model", path);
  if (!json.is_object()) return;
  if (json.contains("tandem_plan")) {
    throw UserError("model", path, "is a plan, not a network",
                    "give the network that the plan's key 'model' names");
  }
  throw UserError("model", path, "'model_type' is missing",
                  "a network's config.json has this key; a graph has 'tandem_graph', a plan "
                  "'tandem_plan'");
}

std::shared_ptr<const ModelSpec> read_spec(const std::string& path, const std::string& overrides) {
  if (import::is_onnx_file(path)) return make_onnx_spec(path, overrides);
  const auto text = read_file(path);
  if (graph::is_graph_text(text)) return make_graph_spec(graph::parse_graph(text, path), path);
  if (graph::is_graph_json(text)) return make_graph_spec(graph::parse_graph_json(text, path), path);
  if (import::is_config(text)) return import::read_config(text, path);
  refuse_json(text, path);
  throw UserError("model", path, "is not a file that describes a model",
                  "use an ONNX file, a graph as text (it begins with 'graph NAME') or as JSON, or "
                  "a network's config.json");
}

ConfiguredModel load_file(const FileModel& file, const std::string& text) {
  auto model = models::make_model(read_spec(file.path, file.overrides), text, file.overrides);
  if (import::is_onnx_file(file.path)) return model;
  const auto contents = read_file(file.path);
  if (!import::is_config(contents)) return model;
  for (const auto& line :
       import::list_config_notes(contents, file.path, model.settings.size("seq"))) {
    note(line);
  }
  return model;
}

// Throws UserError if a hyperparameter is given twice.
void refuse_repeated(const std::string& text, std::string_view overrides) {
  std::set<std::string_view> keys;
  for (const auto part : split(overrides, ',')) {
    const auto key = trim(part.substr(0, part.find('=')));
    if (keys.insert(key).second) continue;
    throw UserError("model", text, fmt::format("'{}' is given twice", key),
                    "remove one of the two");
  }
}

}  // namespace

ConfiguredModel load_model(const std::string& text) {
  const auto file = find_model_file(text);
  const auto colon = text.find(':');
  if (file) {
    refuse_repeated(text, file->overrides);
  } else if (colon != std::string::npos) {
    refuse_repeated(text, std::string_view(text).substr(colon + 1));
  }
  if (file) return load_file(*file, text);
  if (std::filesystem::is_directory(text) && !models::is_built_in(text)) {
    throw UserError("model", text, "is a directory", "give the name of a model, or a file");
  }
  if (text.ends_with(".onnx") || text.ends_with(".json")) {
    throw UserError("file", text, "cannot be read");
  }
  return models::parse_model(text);
}

}  // namespace tandem::cli
