// Imports ONNX files and runs their graphs with the sequential interpreter, for the tests in this
// directory: one JSON request a line on standard input, one answer a line on standard output.
//
//   {"file": "m.onnx", "inputs": {"x": [1, 2]}, "dims": {"sequence": 7}, "batch": 2}
//   {"parameters": 3, "nodes": 5, "folded": {"Shape": 2}, "batch": 2,
//    "outputs": [{"name": "y", "shape": [2], "values": [1, 0]}]}
//
// Without "inputs" nothing is run. An error is answered as {"error": ..., "where": ...}.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "graph/sequential.h"
#include "import/onnx.h"
#include "models/model.h"
#include "ops/registry.h"

namespace {

using Json = nlohmann::json;
using tandem::Dense;

Json run(const tandem::import::OnnxModel& model, const std::string& file,
         const std::string& directory, const Json& inputs) {
  const auto& graph = model.graph;
  const auto feed = tandem::graph::make_feed_values<double>(graph);
  const auto values = tandem::graph::run_forward<double>(graph, [&](tandem::graph::NodeId id) {
    const auto& node = graph.node(id);
    if (const auto at = model.fixed.find(node.name); at != model.fixed.end()) return at->second;
    if (node.op.is(tandem::ops::kConstant)) return feed(id);
    const auto& name = model.names.at(node.name);
    if (is_weight(node) && !inputs.contains(name)) {
      return tandem::import::read_weight(file, name, directory);
    }
    auto numbers = inputs.at(name).get<std::vector<double>>();
    if (static_cast<std::int64_t>(numbers.size()) != node.type.shape.sizes.count()) {
      throw tandem::UserError("onnx", name, "the test gives another number of elements");
    }
    return Dense<double>(node.type.shape.sizes, std::move(numbers));
  });
  Json out = Json::array();
  for (auto id : graph.outputs()) {
    const auto& value = values[id.index()];
    Json numbers = Json::array();
    for (double v : value.data) numbers.push_back(std::isfinite(v) ? Json(v) : Json(nullptr));
    out.push_back({{"name", graph.node(id).name},
                   {"shape", std::vector<std::int64_t>(value.shape.begin(), value.shape.end())},
                   {"values", numbers}});
  }
  return out;
}

Json answer(const Json& request) {
  std::ifstream in(request["file"].get<std::string>(), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  const auto file = text.str();
  tandem::import::OnnxOptions options;
  options.batch = request.value("batch", std::int64_t{0});
  if (request.contains("dims")) {
    options.dims = request["dims"].get<std::map<std::string, std::int64_t>>();
  }
  options.directory = std::filesystem::path(std::string(request["file"])).parent_path().string();
  options.append_loss = request.value("append_loss", false);
  const auto model = tandem::import::import_onnx(file, request["file"], options);
  Json out = {{"parameters", tandem::models::count_parameters(model.graph)},
              {"nodes", model.graph.size()},
              {"batch", model.batch},
              {"folded", model.folded},
              {"operators", Json::object()}};
  for (auto id : model.graph.ids()) {
    auto& count = out["operators"][model.graph.node(id).op.name()];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  if (request.contains("inputs"))
    out["outputs"] = run(model, file, options.directory, request["inputs"]);
  return out;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json result;
    try {
      result = answer(Json::parse(line));
    } catch (const tandem::UserError& e) {
      result = {{"error", e.message}, {"where", e.where}, {"hint", e.hint}};
    } catch (const std::exception& e) {
      result = {
          {"error", fmt::format("not a user error: {}", e.what())}, {"where", "?"}, {"hint", ""}};
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
  }
}
