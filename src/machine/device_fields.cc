#include "machine/device_fields.h"

#include <algorithm>

namespace tandem::machine {

namespace {

const NumberField<Device> kDeviceNumbers[] = {
    {"memory", kAmount, true, false, [](Device& d) -> double& { return d.memory.value; }},
    {"reserve", kAmount, false, true, [](Device& d) -> double& { return d.reserve.value; }, true},
    {"bandwidth", kRate, true, false, [](Device& d) -> double& { return d.bandwidth.value; }},
    {"memory_utilization", kFraction, false, false,
     [](Device& d) -> double& { return d.memory_utilization; }},
    {"random_access", kFraction, false, false,
     [](Device& d) -> double& { return d.random_access; }},
    {"compute_utilization", kFraction, false, false,
     [](Device& d) -> double& { return d.compute_utilization; }},
    {"attention_utilization", kFraction, false, false,
     [](Device& d) -> double& { return d.attention_utilization; }},
    {"attention_backward_utilization", kFraction, false, false,
     [](Device& d) -> double& { return d.attention_backward_utilization; }},
    {"threads", kNumber, false, false, [](Device& d) -> double& { return d.threads; }},
    {"units", kNumber, false, false, [](Device& d) -> double& { return d.units; }},
    {"matmul_setup", kNumber, false, true, [](Device& d) -> double& { return d.matmul_setup; },
     true},
    {"wave_softening", kFraction, false, true,
     [](Device& d) -> double& { return d.wave_softening; }},
    {"unaligned", kFraction, false, false, [](Device& d) -> double& { return d.unaligned; }},
    {"launch", kTime, false, true, [](Device& d) -> double& { return d.launch.value; }, true},
    {"collective", kTime, false, true, [](Device& d) -> double& { return d.collective.value; },
     true},
    {"dispatch", kTime, false, true, [](Device& d) -> double& { return d.software.dispatch.value; },
     true},
    {"dispatch_backward", kTime, false, true,
     [](Device& d) -> double& { return d.software.dispatch_backward.value; }, true},
    {"dispatch_collective", kTime, false, true,
     [](Device& d) -> double& { return d.software.dispatch_collective.value; }, true},
    {"dispatch_send", kTime, false, true,
     [](Device& d) -> double& { return d.software.dispatch_send.value; }, true},
    {"micro_batch", kTime, false, true,
     [](Device& d) -> double& { return d.software.micro_batch.value; }, true},
    {"step", kTime, false, true, [](Device& d) -> double& { return d.software.step.value; }, true},
    {"interference", kFraction, false, true,
     [](Device& d) -> double& { return d.software.interference; }, true},
    {"fragmentation", kFraction, false, true,
     [](Device& d) -> double& { return d.software.fragmentation; }, true},
    {"update_bytes", kAmount, false, false,
     [](Device& d) -> double& { return d.software.update_bytes.value; }, true},
};

const WordField kWords[] = {
    {"fuse", kFusionNames,
     [](const Device& d) { return static_cast<std::size_t>(d.software.fusion); },
     [](Device& d, std::size_t i) { d.software.fusion = static_cast<Fusion>(i); }},
    {"fused_qkv", kNoYes, [](const Device& d) { return std::size_t{d.software.fused_qkv}; },
     [](Device& d, std::size_t i) { d.software.fused_qkv = i == 1; }},
    {"send_parts", kNoYes, [](const Device& d) { return std::size_t{d.software.send_parts}; },
     [](Device& d, std::size_t i) { d.software.send_parts = i == 1; }},
    {"wait_for_sends", kNoYes,
     [](const Device& d) { return std::size_t{d.software.waits_for_sends}; },
     [](Device& d, std::size_t i) { d.software.waits_for_sends = i == 1; }},
    {"overlap", kNoYes, [](const Device& d) { return std::size_t{d.software.overlap}; },
     [](Device& d, std::size_t i) { d.software.overlap = i == 1; }},
    {"join_gradients", kNoYes,
     [](const Device& d) { return std::size_t{d.software.joined_gradients}; },
     [](Device& d, std::size_t i) { d.software.joined_gradients = i == 1; }},
    {"store_zeros", kNoYes, [](const Device& d) { return std::size_t{d.software.stores_zeros}; },
     [](Device& d, std::size_t i) { d.software.stores_zeros = i == 1; }},
    {"sum_rows", kNoYes, [](const Device& d) { return std::size_t{d.software.sums_rows}; },
     [](Device& d, std::size_t i) { d.software.sums_rows = i == 1; }},
    {"update_in_matmuls", kNoYes,
     [](const Device& d) { return std::size_t{d.software.updates_in_matmuls}; },
     [](Device& d, std::size_t i) { d.software.updates_in_matmuls = i == 1; }},
    {"update_in_tables", kNoYes,
     [](const Device& d) { return std::size_t{d.software.updates_in_tables}; },
     [](Device& d, std::size_t i) { d.software.updates_in_tables = i == 1; }},
    {"narrow_exchange", kNoYes,
     [](const Device& d) { return std::size_t{d.software.narrow_exchange}; },
     [](Device& d, std::size_t i) { d.software.narrow_exchange = i == 1; }},
    {"free_at_last_use", kNoYes,
     [](const Device& d) { return std::size_t{d.software.frees_at_last_use}; },
     [](Device& d, std::size_t i) { d.software.frees_at_last_use = i == 1; }},
    {"recompute_whole", kNoYes,
     [](const Device& d) { return std::size_t{d.software.recomputes_whole}; },
     [](Device& d, std::size_t i) { d.software.recomputes_whole = i == 1; }},
};

// Old and current names.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"join_products", "fused_qkv"},
    {"product_setup", "matmul_setup"},
    {"remake_whole", "recompute_whole"},
    {"update_in_products", "update_in_matmuls"},
};

}  // namespace

std::string_view get_current_field_name(std::string_view name) {
  const auto* found =
      std::ranges::find(kRenamed, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kRenamed) ? name : found->second;
}

std::span<const NumberField<Device>> device_numbers() { return kDeviceNumbers; }
std::span<const WordField> device_words() { return kWords; }

}  // namespace tandem::machine
