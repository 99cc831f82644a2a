#include "report/simulation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/table.h"
#include "base/text.h"
#include "report/digit_text.h"
#include "report/plan_text.h"
#include "report/task_name.h"

namespace tandem::report {

namespace {

using Json = nlohmann::ordered_json;
using predict::Share;

// Returns one share per reported kind: the sum over the levels that its collectives span.
std::vector<Share> sum_by_reported_kind(const std::vector<Share>& shares) {
  std::vector<Share> out;
  for (const auto kind : predict::kReportedKinds) {
    Share sum{.kind = std::string(kind),
              .digits = 0,
              .count = 0,
              .bytes = {},
              .serialized = {},
              .exposed = {}};
    for (const auto& share : shares) {
      if (predict::to_reported_kind(share.kind) != kind) continue;
      sum.count += share.count;
      sum.bytes += share.bytes;
      sum.serialized += share.serialized;
      sum.exposed += share.exposed;
    }
    out.push_back(std::move(sum));
  }
  return out;
}

constexpr std::array kParts = {std::pair("inputs", lower::BufferKind::kInput),
                               std::pair("weights", lower::BufferKind::kWeight),
                               std::pair("optimizer state", lower::BufferKind::kState),
                               std::pair("gathered weights", lower::BufferKind::kGathered),
                               std::pair("activations", lower::BufferKind::kActivation),
                               std::pair("gradients", lower::BufferKind::kGradient)};

// Returns the largest part of the memory: "77 % are activations".
std::string largest_part_text(const predict::Memory& memory) {
  const auto largest = std::ranges::max_element(
      kParts, {}, [&](const auto& part) { return memory.part(part.second); });
  return fmt::format("{:.0f} % are {}", 100 * (memory.part(largest->second) / memory.peak),
                     largest->first);
}

}  // namespace

std::string time_table(const std::vector<Share>& shares, const predict::Simulation& simulation) {
  TextTable table({{""},
                   {"serialized", Align::kRight},
                   {"overlapped", Align::kRight},
                   {"exposed", Align::kRight}});
  for (const auto& s : sum_by_reported_kind(shares)) {
    if (s.count == 0) continue;
    const bool computes = s.is_compute();
    table.add({s.kind, format_seconds(s.serialized.value),
               computes ? "" : format_seconds(s.overlapped().value),
               computes ? "" : format_seconds(s.exposed.value)});
  }
  table.add({"stall", "", "", format_seconds(simulation.bubble.value)});
  return table.to_text();
}

std::string bound_text(const std::vector<Share>& shares, const predict::Simulation& simulation,
                       const machine::Machine& machine, const machine::Digits& digits) {
  std::vector<std::pair<Seconds, std::string>> parts = {{simulation.compute, "compute"},
                                                        {simulation.bubble, "stall"}};
  for (const auto& share : shares) {
    if (share.is_compute()) continue;
    parts.emplace_back(share.exposed, fmt::format("exposed {} over {}", share.kind,
                                                  levels_text(share.digits, machine, digits)));
  }
  std::ranges::stable_sort(parts, std::greater{}, [](const auto& part) { return part.first; });
  std::string out;
  constexpr double kWorthTelling = 0.01;
  for (const auto& [time, what] : parts) {
    const double share = time / simulation.iteration;
    if (share < kWorthTelling) break;
    out += out.empty() ? fmt::format("{} ({:.0f} % of the step time)", what, 100 * share)
                       : fmt::format(", {} ({:.0f} %)", what, 100 * share);
  }
  return out;
}

Peak find_peak(const lower::Program& program, const predict::Memory& memory) {
  Peak out{.memory = memory, .when = {}, .largest = {}, .largest_bytes = {}};
  const auto moments = predict::compute_memory_over_time(program, memory.device);
  if (memory.moment >= moments.size()) return out;
  const auto& moment = moments[memory.moment];
  out.when = task_text(program, program.tasks[moment.task]);
  if (program.digits.time() != 0) out.when += fmt::format(", micro-batch {}", moment.micro_batch);
  std::map<std::string, Bytes> sums;
  for (const auto& held : predict::list_held_buffers(program, memory.device, memory.moment)) {
    const auto& buffer = program.buffer(held.buffer);
    const auto name = fold_name(program.pcg.node(buffer.node).name);
    const bool is_gradient = buffer.kind == lower::BufferKind::kGradient;
    auto& sum = sums[is_gradient ? "the gradient of " + name : name];
    sum += held.bytes;
    if (sum <= out.largest_bytes) continue;
    out.largest_bytes = sum;
    out.largest = is_gradient ? "the gradient of " + name : name;
  }
  return out;
}

std::string memory_table(const Peak& peak) {
  TextTable table({{""}, {"", Align::kRight}, {""}});
  for (const auto& [name, kind] : kParts) {
    const auto bytes = peak.memory.part(kind);
    if (bytes > Bytes{}) table.add({name, format_bytes(bytes.value), ""});
  }
  if (peak.memory.unused > Bytes{}) {
    table.add({"unused", format_bytes(peak.memory.unused.value), "reserved by the allocator"});
  }
  if (peak.memory.cache > Bytes{}) {
    table.add({"KV cache", format_bytes(peak.memory.cache.value),
               "keys and values of all tokens so far, included above"});
  }
  auto out = table.to_text();
  if (peak.largest.empty()) return out;
  return out + fmt::format("  Largest transient tensors: {} ({})\n", peak.largest,
                           format_bytes(peak.largest_bytes.value));
}

std::string headline_text(const predict::Simulation& simulation, const Headline& headline) {
  const auto& [batch, tokens, memory, margin, parallelism] = headline;
  const auto a_second = [&](std::int64_t n) {
    return format_si(static_cast<double>(n) / simulation.iteration.value);
  };
  auto out = parallelism.empty() ? "" : fmt::format("  parallelism {}\n", parallelism);
  out += fmt::format("  step time   {}\n  throughput  {} samples/s{}\n  MFU         {:.1f} %\n",
                     format_seconds(simulation.iteration.value), a_second(batch),
                     tokens > 0 ? fmt::format(", {} tokens/s", a_second(tokens)) : "",
                     100 * simulation.mfu);
  out += fmt::format("  memory      {} of {}{}{}; {}\n", format_bytes(memory.needs.peak.value),
                     format_bytes(memory.limit.value), margin,
                     memory.fits() ? "" : ": does not fit", largest_part_text(memory.needs));
  return out;
}

Json details_json(const lower::Program& program, const predict::Simulation& simulation,
                  const machine::Machine& machine, const Peak& peak) {
  const auto shares = predict::break_down(program, simulation);
  Json out;
  for (const auto& s : sum_by_reported_kind(shares)) {
    out["breakdown"][s.kind] = {{"serialized_s", s.serialized.value},
                                {"overlapped_s", s.overlapped().value},
                                {"exposed_s", s.exposed.value}};
  }
  out["communication"] = Json::array();
  for (const auto& s : shares) {
    if (s.is_compute()) continue;
    out["communication"].push_back({{"kind", s.kind},
                                    {"over", levels_text(s.digits, machine, program.digits)},
                                    {"times", s.count},
                                    {"bytes", s.bytes.value},
                                    {"serialized_s", s.serialized.value},
                                    {"exposed_s", s.exposed.value}});
  }
  out["bound_by"] = bound_text(shares, simulation, machine, program.digits);
  Json memory;
  for (const auto& [name, kind] : kParts) {
    auto key = std::string(name) + "_bytes";
    std::ranges::replace(key, ' ', '_');
    memory[key] = static_cast<std::int64_t>(peak.memory.part(kind).value);
  }
  memory["unused_bytes"] = static_cast<std::int64_t>(peak.memory.unused.value);
  memory["cache_bytes"] = static_cast<std::int64_t>(peak.memory.cache.value);
  memory["device"] = peak.memory.device;
  memory["when"] = peak.when;
  memory["largest"] = peak.largest;
  memory["largest_bytes"] = static_cast<std::int64_t>(peak.largest_bytes.value);
  out["memory_at_peak"] = memory;
  return out;
}

}  // namespace tandem::report
