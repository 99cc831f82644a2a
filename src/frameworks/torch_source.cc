// Writes the tables of a TorchModule in Python; equal layers share a row.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "frameworks/embedded.h"
#include "frameworks/torch_module.h"

namespace tandem::frameworks {

namespace {

// Returns a JSON string, which is also a Python string.
std::string quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string format_tuple(const std::vector<std::string>& parts) {
  return fmt::format("({}{})", join(parts, ", "), parts.size() == 1 ? "," : "");
}

template <class Values>
std::string format_number_tuple(const Values& values) {
  std::vector<std::string> out;
  out.reserve(static_cast<std::size_t>(std::distance(values.begin(), values.end())));
  for (const auto value : values) out.push_back(fmt::format("{}", value));
  return format_tuple(out);
}

std::string format_string_tuple(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  out.reserve(values.size());
  for (const auto& value : values) out.push_back(quote(value));
  return format_tuple(out);
}

// Returns the number of the layer in a name: "3" of "l3.w_q".
std::string_view find_layer_number(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string_view::npos) return {};
  return name.substr(first, name.find_first_not_of(kDigits, first) - first);
}

// Returns "l{i}.w_q" for "l3.w_q" if 3 is the number of the layer, else the name.
std::string fold_layer_number(const std::string& name, std::string_view number) {
  const auto own = find_layer_number(name);
  if (number.empty() || own != number) return name;
  auto out = name;
  out.replace(name.find(own), own.size(), "{i}");
  return out;
}

// Rows of a table. Layers that differ only in their number share a row.
class PythonRows {
 public:
  // Adds a row. `format` returns its text, given a function that writes names.
  template <class Format>
  void add(const std::string& name, const Format& format) {
    const auto number = find_layer_number(name);
    const auto folded = format([&](const std::string& n) { return fold_layer_number(n, number); });
    const auto at = std::ranges::find(rows_, folded, &PythonRow::folded);
    if (at != rows_.end() && !number.empty()) {
      at->rounds.push_back(parse_int(number).value_or(0));
      return;
    }
    rows_.push_back({folded, format([](const std::string& n) { return n; }), {}});
    if (!number.empty()) rows_.back().rounds = {parse_int(number).value_or(0)};
  }

  [[nodiscard]] std::string text(std::string_view type) const {
    std::string out = "[\n";
    for (const auto& row : rows_) {
      out += row.rounds.size() < 2
                 ? fmt::format("    {}({}),\n", type, row.single)
                 : fmt::format("    {}({}, {}),\n", type, row.folded, rounds_text(row.rounds));
    }
    return out + "]";
  }

 private:
  struct PythonRow {
    std::string folded, single;
    std::vector<std::int64_t> rounds;
  };

  static std::string rounds_text(const std::vector<std::int64_t>& rounds) {
    const auto size = static_cast<std::int64_t>(rounds.size());
    const bool is_range =
        rounds.back() - rounds.front() + 1 == size && std::ranges::is_sorted(rounds);
    return is_range ? fmt::format("range({}, {})", rounds.front(), rounds.back() + 1)
                    : format_number_tuple(rounds);
  }

  std::vector<PythonRow> rows_;
};

// Returns the names as a tuple; equal layers share a name.
std::string fold_names(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names) {
    auto folded = fold_layer_number(name, find_layer_number(name));
    if (std::ranges::find(out, folded) == out.end()) out.push_back(std::move(folded));
  }
  return format_string_tuple(out);
}

std::string weights_text(const TorchModule& module) {
  PythonRows rows;
  for (const auto& weight : module.weights) {
    rows.add(weight.name, [&](const auto& named) {
      return fmt::format("{}, {}, {}, {}", quote(named(weight.name)),
                         format_number_tuple(weight.shape), format_tuple(weight.stored),
                         format_tuple(weight.used));
    });
  }
  return rows.text("Weight");
}

std::string layers_text(const TorchModule& module) {
  PythonRows rows;
  for (const auto& layer : module.layers) {
    rows.add(layer.name, [&](const auto& named) {
      return fmt::format("{}, {}, {}, {}", quote(named(layer.name)), quote(named(layer.weight)),
                         format_tuple(layer.reads), format_tuple(layer.gives));
    });
  }
  return rows.text("Layer");
}

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> out;
  for (const auto& dim : mesh.dims()) {
    out.push_back(fmt::format("({}, {})", quote(dim.name), dim.size));
  }
  return format_tuple(out);
}

std::string planned_text(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const auto& dim : mesh.planned) names.push_back(dim.name);
  return format_string_tuple(names);
}

std::string format_bool(bool value) { return value ? "True" : "False"; }

std::string get_template_value(std::string_view name, const TorchModule& module,
                               const plan::Plan& plan) {
  const auto& schedule = plan.mapped.schedule;
  if (name == "model") return quote(plan.model);
  if (name == "machine") return quote(plan.machine);
  if (name == "strategy") return quote(plan.strategy);
  if (name == "batch") return fmt::format("{}", plan.batch);
  if (name == "micro_batches") return fmt::format("{}", schedule.micro_batches);
  if (name == "reduce_each") return format_bool(schedule.reduce_each);
  if (name == "recomputed") return fold_names(module.recomputed);
  if (name == "whole") return fold_names(module.whole);
  if (name == "digits") return format_number_tuple(module.numbering.sizes);
  if (name == "order") return format_number_tuple(module.numbering.order);
  if (name == "mesh") return mesh_text(module.mesh);
  if (name == "data")
    return module.mesh.has_data() ? format_string_tuple({"replicate", "shard"}) : "()";
  if (name == "planned") return planned_text(module.mesh);
  if (name == "regather") return format_bool(module.regather);
  if (name == "weights") return weights_text(module);
  if (name == "layers") return layers_text(module);
  CHECK(false, std::string(name));
}

}  // namespace

std::string to_python(const TorchModule& module, const plan::Plan& plan) {
  const auto files = embedded_templates();
  const auto at = std::ranges::find(files, "parallelize", &EmbeddedFile::name);
  CHECK(at != files.end());
  std::string out;
  auto rest = at->text;
  // Replaces each @@name@@ of the template by its value.
  while (true) {
    const auto open = rest.find("@@");
    if (open == std::string_view::npos) break;
    const auto close = rest.find("@@", open + 2);
    CHECK(close != std::string_view::npos, open);
    out += rest.substr(0, open);
    out += get_template_value(rest.substr(open + 2, close - open - 2), module, plan);
    rest = rest.substr(close + 2);
  }
  return out + std::string(rest);
}

}  // namespace tandem::frameworks
