#include "validate/system.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "machine/parse.h"

namespace tandem::validate {

namespace {

using machine::Machine;

// Maps GPUs to machines: the first row whose words all occur in a GPU's name applies.
struct GpuFamily {
  std::array<std::string_view, 2> words;
  std::string_view machine;  // empty: no machine
  // For GPUs joined by links: the unit of each, in the driver's numbering.
  std::array<std::int32_t, 8> units = {};
};
constexpr std::array<GpuFamily, 9> kGpuFamilies = {{
    {{"pcie", ""}, ""},
    {{"h100", "hbm2e"}, "grand_teton"},
    {{"h100", ""}, "dgx_h100"},
    {{"a100", "40gb"}, "dgx_a100_40gb"},
    {{"a100", ""}, "dgx_a100"},
    {{"b200", ""}, "dgx_b200"},
    {{"v100", "dgx2"}, "dgx2_v100"},
    {{"v100", "16gb"}, ""},
    {{"v100", ""}, "dgx_v100", {0, 3, 2, 1, 7, 4, 5, 6}},
}};

constexpr std::size_t kNodeLevel = 0;
constexpr std::size_t kGpuLevel = 1;
constexpr double kGiga = 1e9;

const GpuFamily* find_family(std::string_view gpu) {
  std::string name(gpu);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& family : kGpuFamilies) {
    const auto has = [&](std::string_view word) { return name.find(word) != std::string::npos; };
    if (!std::ranges::all_of(family.words, has)) continue;
    return family.machine.empty() ? nullptr : &family;
  }
  return nullptr;
}

// Returns the network of the first `count` units of a level whose units are joined by links, or
// null.
std::shared_ptr<const machine::Network> make_gpu_network(const machine::Level& level,
                                                         const GpuFamily& family,
                                                         std::int64_t count) {
  if (count > static_cast<std::int64_t>(family.units.size())) return nullptr;
  std::vector<std::int32_t> units(family.units.begin(), family.units.begin() + count);
  std::ranges::sort(units);
  if (std::ranges::adjacent_find(units) != units.end()) return nullptr;
  return level.network->make_subnetwork(units);
}

// Sets the numbers of nodes and GPUs. With fewer GPUs than a node has, the node has only these;
// GPUs joined by links are then the first ones.
std::optional<Skipped> set_counts(Machine& machine, const GpuFamily& family, std::int64_t nodes,
                                  std::int64_t per_node) {
  auto& gpus = machine.levels[kGpuLevel];
  if (gpus.network != nullptr && gpus.count != per_node) {
    gpus.network = make_gpu_network(gpus, family, per_node);
    if (gpus.network == nullptr) {
      return Skipped{fmt::format("using {} of the {} linked GPUs in a node of {} is not modelled",
                                 per_node, gpus.count, machine.name)};
    }
  }
  machine.levels[kNodeLevel].count = nodes;
  gpus.count = per_node;
  return std::nullopt;
}

void set_bandwidths(Machine& machine, const SystemFacts& system) {
  auto& node = machine.levels[kNodeLevel];
  auto& gpu = machine.levels[kGpuLevel];
  if (system.intra.value_or(0) > 0 && gpu.network == nullptr) {
    gpu.bandwidth = BytesPerSecond{*system.intra * kGiga};
  }
  if (system.inter.value_or(0) > 0) {
    const auto sharing = node.shared ? static_cast<double>(gpu.count) : 1.0;
    node.bandwidth = BytesPerSecond{*system.inter * kGiga * sharing};
  }
}

// Returns the text that selects the software profile in a machine's name; empty if the machine has
// no such profile.
std::string make_profile_suffix(const std::string& family, const std::string& software) {
  const auto sections = machine::load_machine_file(family).software;
  const auto has = [&](const auto& section) { return section.name == software; };
  return std::ranges::any_of(sections, has) ? ",software=" + software : "";
}

}  // namespace

Skipped skip_unstated(const std::string& what) { return {what + " is not stated", true}; }

std::optional<std::string> find_machine_family(std::string_view gpu) {
  const auto* family = find_family(gpu);
  return family == nullptr ? std::nullopt : std::optional<std::string>(family->machine);
}

std::variant<Machine, Skipped> build_machine(const SystemFacts& system,
                                             const std::string& software) {
  if (system.gpu.empty()) return skip_unstated("the GPU");
  const auto* family = find_family(system.gpu);
  if (family == nullptr)
    return Skipped{fmt::format("no built-in machine has the GPU '{}'", system.gpu)};
  if (!system.n_gpus) return skip_unstated("the number of GPUs");
  const auto devices = *system.n_gpus;
  if (devices > machine::kMaxDevices) {
    return Skipped{
        fmt::format("{} GPUs are more than the supported {}", devices, machine::kMaxDevices)};
  }
  const std::string name(family->machine);
  auto machine =
      machine::load_machine(fmt::format("{}:1{}", name, make_profile_suffix(name, software)));
  const auto per_node =
      std::min(devices, system.gpus_per_node.value_or(machine.levels[kGpuLevel].count));
  if (devices % per_node != 0) {
    return Skipped{fmt::format("{} GPUs do not fill nodes of {}", devices, per_node)};
  }
  if (auto skipped = set_counts(machine, *family, devices / per_node, per_node)) return *skipped;
  set_bandwidths(machine, system);
  machine.name = fmt::format("{}:{}", name, devices / per_node);
  return machine;
}

}  // namespace tandem::validate
