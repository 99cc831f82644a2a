#include "report/report_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "lower/schedule_actions.h"
#include "predict/breakdown.h"
#include "report/device_classes.h"
#include "report/digit_text.h"
#include "report/integers.h"
#include "report/memory_curve.h"
#include "report/task_name.h"
#include "report/tensor_names.h"

namespace tandem::report {

namespace {

using Json = nlohmann::ordered_json;
using predict::Span;

constexpr std::size_t kMostMemoryPoints = 4000;

double sum_held_bytes(const MemoryPoint& point) {
  double sum = 0;
  for (auto part : point.moment.parts) sum += part.value;
  return sum;
}

// Reduces `points` to at most `most`: retains the fullest of each run of neighbours.
std::vector<MemoryPoint> thin_points(std::vector<MemoryPoint> points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<MemoryPoint> out;
  out.reserve(most);
  for (std::size_t i = 0; i < most; ++i) {
    const auto from = i * points.size() / most;
    const auto to = (i + 1) * points.size() / most;
    auto fullest = points[from];
    for (auto p = from; p < to; ++p) {
      if (sum_held_bytes(points[p]) > sum_held_bytes(fullest)) fullest.moment = points[p].moment;
    }
    out.push_back(fullest);
  }
  return out;
}

class Timeline {
 public:
  Timeline(const PlanView& view, std::size_t most_spans)
      : view_(view),
        program_(view.program),
        devices_(list_class_devices(view.program, view.machine)),
        shown_(choose_shown_classes(view.simulation, devices_.size(), most_spans)),
        spans_(devices_.size()) {
    for (const auto& node : list_model_names()) model_.emplace(node, model_.size());
    for (const auto& span : view.simulation.timeline) {
      if (shown_[span.device_class]) spans_[span.device_class].push_back(span);
    }
  }

  Json run() {
    Json classes = Json::array();
    for (std::size_t c = 0; c < devices_.size(); ++c) {
      if (shown_[c]) classes.push_back(class_json(c));
    }
    Json out{{"iteration", to_nanoseconds(view_.simulation.iteration)},
             {"classes_in_all", devices_.size()},
             {"busiest", view_.simulation.busiest},
             {"micro_batches", program_.digits.micro_batches()},
             {"steps_overlap", lower::choose_steady_steps(program_).simulated > 1}};
    out["tasks"] = std::move(tasks_);
    out["overs"] = overs_;
    out["classes"] = std::move(classes);
    return out;
  }

 private:
  // Returns the names of the model's nodes, in the model's order.
  [[nodiscard]] std::vector<std::string> list_model_names() const {
    const auto model = graph::erase_parallelism(program_.pcg);
    std::vector<std::string> out;
    out.reserve(model.size());
    for (auto id : model.ids()) out.push_back(model.node(id).name);
    return out;
  }

  Json class_json(std::size_t c) {
    std::map<std::uint32_t, std::vector<const Span*>> streams;
    for (const auto& span : spans_[c]) streams[span.stream].push_back(&span);
    Json out{{"number", c},
             {"name", class_text(program_, view_.machine, devices_[c])},
             {"streams", Json::array()}};
    for (auto& [stream, spans] : streams) {
      std::ranges::stable_sort(spans, {}, [](const Span* s) { return s->start; });
      out["streams"].push_back(stream_json(stream, spans));
    }
    out["memory"] = memory_curve_json(c);
    return out;
  }

  Json stream_json(std::uint32_t stream, const std::vector<const Span*>& spans) {
    Json task = Json::array();
    Json start = Json::array();
    Json duration = Json::array();
    Json micro_batch = Json::array();
    for (const auto* span : spans) {
      const auto begin = to_nanoseconds(span->start);
      task.push_back(number_task(span->task));
      start.push_back(begin);
      duration.push_back(to_nanoseconds(span->end) - begin);
      micro_batch.push_back(span->micro_batch);
    }
    return {{"name", stream_text(view_.machine, stream)},
            {"computes", stream == 0},
            {"task", std::move(task)},
            {"start", std::move(start)},
            {"duration", std::move(duration)},
            {"micro_batch", std::move(micro_batch)}};
  }

  // Returns the number of a task in "tasks". Numbers follow the order of first use.
  std::size_t number_task(std::uint32_t t) {
    const auto [at, fresh] = task_numbers_.try_emplace(t, task_numbers_.size());
    if (fresh) add_task(program_.tasks[t]);
    return at->second;
  }

  void add_task(const lower::Task& task) {
    const bool communicates = predict::communicates(task);
    auto node = task.node;
    if (communicates) node = program_.buffer(get_moved_buffer(task)).node;
    node = find_origin(program_.pcg, node);
    const auto& name = program_.pcg.node(node).name;
    const auto known = model_.find(name);
    tasks_["name"].push_back(name);
    tasks_["what"].push_back(communicates ? transfer_name(program_, task)
                                          : task_text(program_, task));
    tasks_["kind"].push_back(predict::get_task_kind(program_, task));
    tasks_["pass"].push_back(get_pass_name(task));
    tasks_["node"].push_back(known == model_.end() ? Json() : Json(known->second));
    tasks_["bytes"].push_back(
        communicates ? static_cast<std::int64_t>(count_moved_bytes(program_, task).value) : 0);
    tasks_["over"].push_back(communicates ? Json(number_levels(task)) : Json());
  }

  std::size_t number_levels(const lower::Task& task) {
    const auto text = levels_text(task.step.digits, view_.machine, program_.digits);
    const auto at = std::ranges::find(overs_, text);
    if (at != overs_.end()) return static_cast<std::size_t>(at - overs_.begin());
    overs_.push_back(text);
    return overs_.size() - 1;
  }

  [[nodiscard]] Json memory_curve_json(std::size_t c) const {
    using lower::BufferKind;
    Json out;
    for (const auto* key : {"at", "weights", "optimizer_state", "gathered_weights", "gradients",
                            "activations", "inputs"}) {
      out[key] = Json::array();
    }
    const auto points =
        thin_points(compute_memory_curve(program_, devices_[c], spans_[c]), kMostMemoryPoints);
    for (const auto& [at, moment] : points) {
      const auto add = [&out, &parts = moment.parts](const char* key, BufferKind kind) {
        out[key].push_back(static_cast<std::int64_t>(parts[static_cast<std::size_t>(kind)].value));
      };
      out["at"].push_back(to_nanoseconds(at));
      add("weights", BufferKind::kWeight);
      add("optimizer_state", BufferKind::kState);
      add("gathered_weights", BufferKind::kGathered);
      add("gradients", BufferKind::kGradient);
      add("activations", BufferKind::kActivation);
      add("inputs", BufferKind::kInput);
    }
    return out;
  }

  const PlanView& view_;
  const lower::Program& program_;
  std::vector<std::int64_t> devices_;                   // by class: its representative
  std::vector<bool> shown_;                             // by class
  std::vector<std::vector<Span>> spans_;                // by class
  std::unordered_map<std::string, std::size_t> model_;  // number of the model's node, by name
  std::unordered_map<std::uint32_t, std::size_t> task_numbers_;
  Json tasks_{{"name", Json::array()}, {"what", Json::array()}, {"kind", Json::array()},
              {"pass", Json::array()}, {"node", Json::array()}, {"bytes", Json::array()},
              {"over", Json::array()}};
  std::vector<std::string> overs_;
};

}  // namespace

Json report_timeline(const PlanView& view, std::size_t most_spans) {
  return Timeline(view, most_spans).run();
}

}  // namespace tandem::report
