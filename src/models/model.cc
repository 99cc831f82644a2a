#include "models/model.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "ops/signature.h"

namespace tandem::models {

namespace {
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40U;
constexpr std::int64_t kMostSizes = 100'000;  // limit of one list
// Largest number of layers: a graph has no more nodes. Estimates, which build three layers, stay
// quick.
constexpr std::int64_t kMostLayers = std::int64_t{1} << 20U;

UserError make_value_error(const std::string& model, std::string_view key, std::string_view value,
                           const std::string& expected) {
  return {"model", model, fmt::format("'{}' cannot be '{}'", key, value), "expected " + expected};
}
}  // namespace

Hyperparameter variant_hyperparameter(const std::string& artifact) {
  return {"variant", "published", "published, or artifact: " + artifact};
}

const std::string& Settings::text(std::string_view key) const {
  const auto at = std::ranges::find(values_, key, &Hyperparameter::key);
  CHECK(at != values_.end(), key);
  const bool default_of_artifact =
      !at->artifact.empty() && std::ranges::find(set_, key) == set_.end() && is_artifact();
  return default_of_artifact ? at->artifact : at->value;
}

std::int64_t Settings::size(std::string_view key, std::int64_t least) const {
  const auto value = parse_int(text(key));
  if (!value || *value < least || *value > kLargestSize) {
    throw make_value_error(model_, key, text(key), fmt::format("an integer of at least {}", least));
  }
  if (key == "layers" && *value > kMostLayers) {
    throw make_value_error(model_, key, text(key), fmt::format("at most {} layers", kMostLayers));
  }
  return *value;
}

double Settings::real(std::string_view key) const {
  const auto value = parse_double(text(key));
  if (!value || !(*value > 0) || *value > 1e9) {
    throw make_value_error(model_, key, text(key), "a number above 0");
  }
  return *value;
}

const std::string& Settings::choice(std::string_view key,
                                    std::initializer_list<std::string_view> allowed) const {
  const auto& value = text(key);
  if (std::ranges::find(allowed, value) == allowed.end()) {
    throw make_value_error(model_, key, value, fmt::format("{}", fmt::join(allowed, " or ")));
  }
  return value;
}

std::int64_t Settings::size_or_same(std::string_view key, std::string_view name) const {
  return text(key) == name ? size(name) : size(key);
}

void Settings::fail(const std::string& message) const { throw UserError("model", model_, message); }

std::vector<std::int64_t> Settings::sizes(std::string_view key) const {
  std::vector<std::int64_t> out;
  for (auto part : split(text(key), '-')) {
    const auto times = part.find('x');
    const auto count = times == std::string_view::npos ? std::optional<std::int64_t>(1)
                                                       : parse_int(part.substr(0, times));
    const auto value = parse_int(times == std::string_view::npos ? part : part.substr(times + 1));
    if (!value || *value < 1 || *value > kLargestSize || !count || *count < 1 ||
        *count > kMostSizes) {
      throw make_value_error(model_, key, text(key), "sizes like 512-256-64");
    }
    out.insert(out.end(), static_cast<std::size_t>(*count), *value);
  }
  return out;
}

bool Settings::has(std::string_view key) const {
  return std::ranges::find(values_, key, &Hyperparameter::key) != values_.end();
}

void Settings::set(std::string_view key, std::string_view value) {
  const auto at = std::ranges::find(values_, key, &Hyperparameter::key);
  if (at == values_.end()) {
    std::vector<std::string> keys;
    for (const auto& v : values_) keys.push_back(v.key);
    throw UserError("model", model_, fmt::format("has no hyperparameter '{}'", key),
                    "hyperparameters: " + join(keys, ", "));
  }
  at->value = std::string(value);
  set_.emplace_back(key);
}

std::span<const ModelSpec* const> all_models() {
  static constexpr auto kAll = std::to_array<const ModelSpec*>({
      &kBertLarge,  &kCandleUno,   &kDlrm,
      &kDlrmA,      &kDlrmAMoe,    &kDlrmATransformer,
      &kDlrmB,      &kDlrmBMoe,    &kDlrmBTransformer,
      &kGpt2,       &kGpt3_175b,   &kInceptionV3,
      &kLlama2_70b, &kLlama2_7b,   &kLlama3_405b,
      &kLlama3_70b, &kLlama3_8b,   &kLlama_65b,
      &kLlmMoe1_8t, &kMixtral8x7b, &kMlp,
      &kNasnetA,    &kResnet50,    &kResnext50,
      &kXdl,
  });
  return kAll;
}

namespace {

auto find_model(std::string_view name) {
  return std::ranges::find_if(all_models(), [&](const auto* spec) { return spec->name == name; });
}

}  // namespace

bool is_built_in(std::string_view name) { return find_model(name) != all_models().end(); }

ConfiguredModel parse_model(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto all = all_models();
  const auto at = find_model(name);
  if (at == all.end()) {
    std::vector<std::string> names;
    for (const auto* spec : all) names.push_back(spec->name);
    const auto near = find_nearest(name, names);
    throw UserError("model", std::string(name), "unknown model",
                    near.empty() ? "`tandem models` lists the models"
                                 : fmt::format("did you mean '{}'?", near));
  }
  // Built-in specs live as long as the program, so the pointer does not own them.
  const std::shared_ptr<const ModelSpec> spec(std::shared_ptr<void>(), *at);
  return make_model(spec, std::string(text),
                    colon == std::string_view::npos ? "" : text.substr(colon + 1));
}

ConfiguredModel make_model(std::shared_ptr<const ModelSpec> spec, std::string text,
                           std::string_view overrides) {
  Settings settings(spec->name, spec->hyperparameters);
  for (auto part : split(overrides, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw UserError("model", spec->name,
                      fmt::format("'{}' does not have the form key=value", part));
    }
    settings.set(trim(part.substr(0, equals)), trim(part.substr(equals + 1)));
  }
  return {std::move(spec), std::move(text), std::move(settings)};
}

std::int64_t count_parameters(const graph::Graph& graph) {
  std::int64_t total = 0;
  for (auto id : graph.ids()) {
    if (is_weight(graph.node(id))) total += graph.node(id).type.shape.sizes.count();
  }
  return total;
}

Bytes count_weight_bytes(const graph::Graph& graph) {
  Bytes total;
  for (auto id : graph.ids()) {
    const auto& type = graph.node(id).type;
    if (!is_weight(graph.node(id))) continue;
    total += static_cast<double>(type.shape.sizes.count()) * get_element_size(type.dtype);
  }
  return total;
}

Flops count_forward_flops(const graph::Graph& graph) {
  Flops total;
  for (auto id : graph.ids()) {
    if (graph.node(id).op.role() != ops::Role::kCompute) continue;
    double density = graph.node(id).type.density;
    for (auto i : graph.inputs(id)) density = std::min(density, graph.node(i).type.density);
    total += density * get_node_signature(graph, id).flops;
  }
  return total;
}

}  // namespace tandem::models
