#include "report/rule_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "rewrite/rule_text.h"

namespace tandem::report {

namespace {

using rewrite::PatternId;

class PatternDrawing {
 public:
  PatternDrawing(const rewrite::Rule& rule, const rewrite::Side& side) : rule_(rule), side_(side) {}

  std::vector<std::string> run() {
    std::vector<std::size_t> uses(side_.nodes.size());
    for (const auto& node : side_.nodes) {
      for (auto input : node.inputs) ++uses[input];
    }
    for (auto output : side_.outputs) ++uses[output];
    for (std::size_t i = 0; i < uses.size(); ++i) {
      shared_.push_back(uses[i] > 1 && !side_.nodes[i].is_variable());
    }
    for (auto output : side_.outputs) draw(output, "", "");
    return std::move(lines_);
  }

 private:
  // Draws a node and its operands. `first` is the prefix of its own line, `rest` of those below.
  void draw(PatternId id, const std::string& first, const std::string& rest) {
    const auto& node = side_.nodes[id];
    if (const auto known = numbers_.find(id); known != numbers_.end()) {
      lines_.push_back(first + known->second);
      return;
    }
    auto line = first + header_text(node);
    if (shared_[id]) {
      const auto number = fmt::format("[{}]", numbers_.size() + 1);
      numbers_.emplace(id, number);
      line += " " + number;
    }
    lines_.push_back(std::move(line));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool last = i + 1 == node.inputs.size();
      draw(node.inputs[i], rest + (last ? "└─ " : "├─ "), rest + (last ? "   " : "│  "));
    }
  }

  [[nodiscard]] std::string header_text(const rewrite::PatternNode& node) const {
    if (node.is_variable()) return "?" + rule_.tensors[node.variable];
    auto out = node.spec->name;
    for (std::size_t a = 0; a < node.attributes.size(); ++a) {
      const auto& [name, initial] = node.spec->attributes[a];
      const rewrite::Expression usual{.literal = rewrite::parse_value(initial)};
      if (node.attributes[a] == usual) continue;
      out += fmt::format(" {}={}", name, rewrite::to_text(rule_, node.attributes[a]));
    }
    return out;
  }

  const rewrite::Rule& rule_;
  const rewrite::Side& side_;
  std::vector<bool> shared_;
  std::map<PatternId, std::string> numbers_;
  std::vector<std::string> lines_;
};

// Returns the width of a line in characters. The lines that connect nodes take several bytes each.
std::size_t count_columns(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string draw_side_by_side(const std::vector<std::string>& left,
                              const std::vector<std::string>& right, std::size_t width) {
  std::string out;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string line = i < left.size() ? left[i] : "";
    if (i < right.size()) {
      line +=
          std::string(width - count_columns(line), ' ') + (i == 0 ? "  =>  " : "      ") + right[i];
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string draw_rule(const rewrite::Rule& rule, std::size_t width) {
  const auto source = PatternDrawing(rule, rule.source).run();
  const auto target = PatternDrawing(rule, rule.target).run();
  const auto widest = [](const std::vector<std::string>& lines) {
    std::size_t out = 0;
    for (const auto& line : lines) out = std::max(out, count_columns(line));
    return out;
  };
  constexpr std::size_t kBetween = 6;
  if (widest(source) + kBetween + widest(target) <= width) {
    return draw_side_by_side(source, target, widest(source));
  }
  return fmt::format("{}\n=>\n{}\n", fmt::join(source, "\n"), fmt::join(target, "\n"));
}

}  // namespace tandem::report
