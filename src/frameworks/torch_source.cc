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
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string tuple(const std::vector<std::string>& parts) {
  return fmt::format("({}{})", join(parts, ", "), parts.size() == 1 ? "," : "");
}

template <class Values>
std::string numbers(const Values& values) {
  std::vector<std::string> out;
  out.reserve(static_cast<std::size_t>(std::distance(values.begin(), values.end())));
  for (const auto value : values) out.push_back(fmt::format("{}", value));
  return tuple(out);
}

std::string texts(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  out.reserve(values.size());
  for (const auto& value : values) out.push_back(quoted(value));
  return tuple(out);
}

// Returns the number of the layer in a name: "3" of "l3.w_q".
std::string_view number_in(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string_view::npos) return {};
  return name.substr(first, name.find_first_not_of(kDigits, first) - first);
}

// Returns "l{i}.w_q" for "l3.w_q" if 3 is the number of the layer, else the name.
std::string pattern(const std::string& name, std::string_view number) {
  const auto own = number_in(name);
  if (number.empty() || own != number) return name;
  auto out = name;
  out.replace(name.find(own), own.size(), "{i}");
  return out;
}

// Rows of a table. Layers that differ only in their number share a row.
class Rows {
 public:
  // Adds a row. `format` returns its text, given a function that writes names.
  template <class Format>
  void add(const std::string& name, const Format& format) {
    const auto number = number_in(name);
    const auto folded = format([&](const std::string& n) { return pattern(n, number); });
    const auto at = std::ranges::find(rows_, folded, &Row::folded);
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
  struct Row {
    std::string folded, single;
    std::vector<std::int64_t> rounds;
  };

  static std::string rounds_text(const std::vector<std::int64_t>& rounds) {
    const auto size = static_cast<std::int64_t>(rounds.size());
    const bool is_range =
        rounds.back() - rounds.front() + 1 == size && std::ranges::is_sorted(rounds);
    return is_range ? fmt::format("range({}, {})", rounds.front(), rounds.back() + 1)
                    : numbers(rounds);
  }

  std::vector<Row> rows_;
};

// Returns the names as a tuple; equal layers share a name.
std::string folded_names(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names) {
    auto folded = pattern(name, number_in(name));
    if (std::ranges::find(out, folded) == out.end()) out.push_back(std::move(folded));
  }
  return texts(out);
}

std::string weights_text(const TorchModule& module) {
  Rows rows;
  for (const auto& weight : module.weights) {
    rows.add(weight.name, [&](const auto& named) {
      return fmt::format("{}, {}, {}, {}", quoted(named(weight.name)), numbers(weight.shape),
                         tuple(weight.stored), tuple(weight.used));
    });
  }
  return rows.text("Weight");
}

std::string layers_text(const TorchModule& module) {
  Rows rows;
  for (const auto& layer : module.layers) {
    rows.add(layer.name, [&](const auto& named) {
      return fmt::format("{}, {}, {}, {}", quoted(named(layer.name)), quoted(named(layer.weight)),
                         tuple(layer.reads), tuple(layer.gives));
    });
  }
  return rows.text("Layer");
}

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> out;
  for (const auto& dim : mesh.dims()) {
    out.push_back(fmt::format("({}, {})", quoted(dim.name), dim.size));
  }
  return tuple(out);
}

std::string planned_text(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const auto& dim : mesh.planned) names.push_back(dim.name);
  return texts(names);
}

std::string truth(bool value) { return value ? "True" : "False"; }

std::string value_of(std::string_view name, const TorchModule& module, const plan::Plan& plan) {
  const auto& schedule = plan.mapped.schedule;
  if (name == "model") return quoted(plan.model);
  if (name == "machine") return quoted(plan.machine);
  if (name == "strategy") return quoted(plan.strategy);
  if (name == "batch") return fmt::format("{}", plan.batch);
  if (name == "micro_batches") return fmt::format("{}", schedule.micro_batches);
  if (name == "reduce_each") return truth(schedule.reduce_each);
  if (name == "recomputed") return folded_names(module.recomputed);
  if (name == "whole") return folded_names(module.whole);
  if (name == "digits") return numbers(module.numbering.sizes);
  if (name == "order") return numbers(module.numbering.order);
  if (name == "mesh") return mesh_text(module.mesh);
  if (name == "data") return module.mesh.has_data() ? texts({"replicate", "shard"}) : "()";
  if (name == "planned") return planned_text(module.mesh);
  if (name == "gather_again") return truth(module.gather_again);
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
    out += value_of(rest.substr(open + 2, close - open - 2), module, plan);
    rest = rest.substr(close + 2);
  }
  return out + std::string(rest);
}

}  // namespace tandem::frameworks
