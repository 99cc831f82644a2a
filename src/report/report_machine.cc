#include "report/report_machine.h"

#include <algorithm>

#include "predict/breakdown.h"
#include "report/device_classes.h"
#include "report/task_times.h"

namespace tandem::report {

namespace {

using Json = nlohmann::ordered_json;

// With more classes, computing their times would take too long.
constexpr std::size_t kMostClasses = 64;

Json device_json(const machine::Device& device, DType dtype) {
  const auto peak = device.peak.find(dtype);
  return {{"name", device.name},
          {"flops_per_s", peak == device.peak.end() ? Json() : Json(peak->second.value)},
          {"memory_bytes", device.memory.value},
          {"reserve_bytes", device.reserve.value},
          {"bytes_per_s", device.bandwidth.value}};
}

Json levels_json(const machine::Machine& machine) {
  Json out = Json::array();
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    const auto& level = machine.levels[l];
    out.push_back({{"name", level.name},
                   {"count", level.count},
                   {"bytes_per_s", level.bandwidth.value},
                   {"bytes_per_s_and_device", machine.bandwidth_per_device(l).value},
                   {"latency_s", level.latency.value},
                   {"shared", level.shared},
                   {"topology", level.topology}});
  }
  return out;
}

Json groups_json(const PlanView& view) {
  const auto& machine = view.machine;
  Json out = Json::array();
  if (machine.groups.empty()) {
    auto only = device_json(machine.device, view.plan.dtype);
    only["units"] = nullptr;
    out.push_back(std::move(only));
  }
  for (const auto& group : machine.groups) {
    auto json = device_json(group.device, view.plan.dtype);
    json["group"] = group.name;
    json["units"] = group.units;
    out.push_back(std::move(json));
  }
  return out;
}

Json mask_json(machine::DigitMask mask, const machine::Digits& digits) {
  Json out = Json::array();
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (machine::has_digit(mask, i)) out.push_back(i);
  }
  return out;
}

// Returns for each class its peak memory and its compute, exposed communication and stall, whose
// sum is the iteration. Returns null if there are too many classes.
Json classes_json(const PlanView& view) {
  const auto& program = view.program;
  const auto devices = list_class_devices(program, view.machine);
  if (devices.size() > kMostClasses) return nullptr;
  std::vector<predict::Simulation> own(devices.size());
  for (const auto& span : view.simulation.timeline) {
    own[span.device_class].timeline.push_back(span);
  }
  Json out = Json::array();
  for (std::size_t c = 0; c < devices.size(); ++c) {
    own[c].iteration = view.simulation.iteration;
    Seconds compute;
    Seconds exposed;
    const auto times = sum_task_times(program, own[c], static_cast<std::uint32_t>(c));
    for (std::size_t t = 0; t < times.size(); ++t) {
      if (predict::communicates(program.tasks[t])) {
        exposed += times[t].exposed;
      } else {
        compute += times[t].serialized;
      }
    }
    const auto& device = view.machine.get_device(devices[c]);
    const auto memory = add_fragmentation(predict::compute_memory(program, devices[c]), device);
    const auto idle = std::max(Seconds{}, view.simulation.iteration - compute - exposed);
    out.push_back({{"name", class_text(program, view.machine, devices[c])},
                   {"device", devices[c]},
                   {"compute_s", compute.value},
                   {"exposed_s", exposed.value},
                   {"idle_s", idle.value},
                   {"memory_bytes", static_cast<std::int64_t>(memory.peak.value)}});
  }
  return out;
}

}  // namespace

Json report_machine(const PlanView& view) {
  const auto& machine = view.machine;
  const auto& digits = view.program.digits;
  Json out{{"name", machine.name},
           {"devices", machine.devices()},
           {"levels", levels_json(machine)},
           {"groups", groups_json(view)}};
  out["digits"] = Json::array();
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const bool in_time = digits[i].level == machine::kTimeLevel;
    out["digits"].push_back(
        {{"level", in_time ? Json() : Json(digits[i].level)}, {"size", digits[i].size}});
  }
  out["class_digits"] = mask_json(find_class_digits(view.program, machine), digits);
  out["stage_digits"] = mask_json(view.program.schedule.digits, digits);
  out["stages"] = view.program.schedule.stages;
  out["classes"] = classes_json(view);
  return out;
}

}  // namespace tandem::report
