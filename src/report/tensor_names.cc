#include "report/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"

namespace tandem::report {

using lower::BufferKind;

graph::NodeId find_origin(const graph::Graph& pcg, graph::NodeId id) {
  while (is_parallel(pcg.node(id))) id = pcg.inputs(id)[0];
  return id;
}

std::string buffer_name(const lower::Program& program, lower::BufferId id) {
  const auto& buffer = program.buffer(id);
  const auto origin = find_origin(program.pcg, buffer.node);
  const auto& node = program.pcg.node(origin);
  if (buffer.is_mask) return "the mask of " + node.name;
  if (buffer.kind == BufferKind::kGradient) return "the gradient of " + node.name;
  if (buffer.kind == BufferKind::kState) return "the optimizer state of " + node.name;
  const bool moved = buffer.kind == BufferKind::kGathered && is_weight(node);
  return moved ? node.name + ", gathered" : node.name;
}

lower::BufferId get_moved_buffer(const lower::Task& task, std::size_t which) {
  return task.reads.empty() ? task.writes[which] : task.reads[which];
}

std::string transfer_name(const lower::Program& program, const lower::Task& task) {
  const auto kind =
      task.kind == lower::TaskKind::kReceive ? "receive" : machine::name(task.step.kind);
  auto out = fmt::format("{} of {}", kind, buffer_name(program, get_moved_buffer(task)));
  if (task.reads.size() > 1) out += fmt::format(" and {} more", task.reads.size() - 1);
  return out;
}

namespace {

// Replaces each variable in braces by a star: "l{i}.ffn" -> "l*.ffn".
std::string replace_variables_by_stars(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto close = name[i] == '{' ? name.find('}', i) : std::string::npos;
    if (close == std::string::npos) {
      out += name[i];
    } else {
      out += '*';
      i = close;
    }
  }
  return out;
}

// Returns whether `name` matches `pattern`, in which a star matches one or more digits.
bool matches_stars(std::string_view name, std::string_view pattern) {
  while (!pattern.empty() && pattern[0] != '*') {
    if (name.empty() || name[0] != pattern[0]) return false;
    name.remove_prefix(1);
    pattern.remove_prefix(1);
  }
  if (pattern.empty()) return name.empty();
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    name.remove_prefix(1);
    if (matches_stars(name, pattern.substr(1))) return true;
  }
  return false;
}

// Returns up to three names: first those with a similar spelling, then those that contain `name`.
std::vector<std::string> find_similar_names(const graph::Graph& pcg, const std::string& name) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names;
  for (auto id : pcg.ids()) names.push_back(pcg.node(id).name);
  std::vector<std::string> out;
  while (out.size() < kMost) {
    auto near = find_nearest(name, names);
    if (near.empty()) break;
    names.erase(std::ranges::find(names, near));
    out.push_back(std::move(near));
  }
  for (const auto& other : names) {
    const bool is_part = !name.empty() && other.find(name) != std::string::npos;
    if (out.size() < kMost && is_part) out.push_back(other);
  }
  return out;
}

}  // namespace

graph::NodeId find_node(const graph::Graph& pcg, const std::string& name,
                        const std::string& source) {
  const auto wanted = name.starts_with('%') ? name.substr(1) : name;
  for (auto id : pcg.ids()) {
    if (pcg.node(id).name == wanted) return id;
  }
  const auto pattern = replace_variables_by_stars(wanted);
  const bool is_pattern = pattern.find('*') != std::string::npos;
  for (auto id : pcg.ids()) {
    if (is_pattern && matches_stars(pcg.node(id).name, pattern)) return id;
  }
  const auto like = find_similar_names(pcg, wanted);
  throw UserError(
      "plan", source, fmt::format("has no node %{}", wanted),
      (like.empty() ? std::string() : fmt::format("did you mean %{}? ", join(like, ", %"))) +
          fmt::format("`tandem show {}` lists all nodes", source));
}

}  // namespace tandem::report
