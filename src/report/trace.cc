#include "report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "lower/instances.h"
#include "lower/schedule_actions.h"
#include "predict/breakdown.h"
#include "report/device_classes.h"
#include "report/integers.h"
#include "report/memory_curve.h"
#include "report/task_name.h"

namespace tandem::report {

namespace {

using lower::BufferId;
using lower::Program;
using lower::Task;
using lower::TaskKind;
using predict::Span;

// Times are rounded to nanoseconds, so that adjacent spans of a row do not overlap.

std::string microseconds_text(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

// Returns text as a JSON string. Names from the user may be any bytes, but JSON is UTF-8.
std::string json_text(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class TraceWriter {
 public:
  TraceWriter(const Program& program, const machine::Machine& machine,
              const predict::Simulation& simulation)
      : program_(program),
        machine_(machine),
        simulation_(simulation),
        instances_(program),
        steps_(lower::choose_steady_steps(program).simulated),
        class_digits_(find_class_digits(program, machine)),
        devices_(program.digits.group(0, class_digits_)),
        spans_(devices_.size()) {
    for (const auto& node : program.pcg.ids()) {
      names_.push_back(json_text(program.pcg.node(node).name));
    }
    const auto& timeline = simulation.timeline;
    for (std::size_t s = 0; s < timeline.size(); ++s) {
      spans_[timeline[s].device_class].push_back(s);
      span_of_[make_key(timeline[s])] = s;
    }
  }

  Trace run(const std::string& title, std::size_t most_spans) {
    out_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":" + json_text(title) +
           "},\"traceEvents\":[\n";
    shown_ = choose_shown_classes(simulation_, devices_.size(), most_spans);
    for (std::size_t c = 0; c < devices_.size(); ++c) {
      if (!shown_[c]) continue;
      add_names(c);
      for (auto s : spans_[c]) add_span(simulation_.timeline[s]);
    }
    for (std::size_t c = 0; c < devices_.size(); ++c) {
      if (!shown_[c]) continue;
      walk(c);
      add_memory(c);
    }
    out_.resize(out_.size() - 2);  // the comma after the last event
    out_ += "\n]}\n";
    const auto shown = std::ranges::count(shown_, true);
    return {std::move(out_), static_cast<std::size_t>(shown), devices_.size()};
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += ",\n";
  }

  // --- Names -----------------------------------------------------------------------------------

  void add_names(std::size_t c) {
    add(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", c,
        json_text(class_text(program_, machine_, devices_[c])));
    add(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", c, c);
    std::set<std::uint32_t> streams;
    for (auto s : spans_[c]) streams.insert(simulation_.timeline[s].stream);
    for (auto stream : streams) {
      add(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", c, stream,
          json_text(stream_text(machine_, stream)));
      add(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          c, stream, stream);
    }
  }

  // --- Spans -----------------------------------------------------------------------------------

  void add_span(const Span& span) {
    const auto& task = program_.tasks[span.task];
    const auto begin = to_nanoseconds(span.start);
    std::string args =
        fmt::format(R"("kind":"{}","pass":"{}","micro_batch":{})",
                    predict::get_task_kind(program_, task), get_pass_name(task), span.micro_batch);
    if (predict::communicates(task)) {
      args += fmt::format(R"(,"bytes":{:.0f})", count_moved_bytes(program_, task).value);
    } else {
      args += fmt::format(R"(,"operator":"{}")", program_.pcg.node(task.node).op.name());
    }
    if (steps_ > 1) args += fmt::format(R"(,"step":{})", span.step);
    add(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        names_[get_moved_node(task).index()],
        predict::to_reported_kind(predict::get_task_kind(program_, task)), span.device_class,
        span.stream, microseconds_text(begin), microseconds_text(to_nanoseconds(span.end) - begin),
        args);
  }

  // Returns the task's node or, if the task communicates, the node whose tensor it moves.
  [[nodiscard]] graph::NodeId get_moved_node(const Task& task) const {
    if (!predict::communicates(task)) return task.node;
    return program_.buffer(task.reads.empty() ? task.writes[0] : task.reads[0]).node;
  }

  // --- Dependencies and memory -----------------------------------------------------------------

  // Walks the schedule slots of a class in an order in which each task follows what it reads.
  void walk(std::size_t c) {
    const auto rank = program_.digits.rank_in_group(devices_[c], program_.schedule.digits);
    const auto actions =
        list_actions(program_.schedule, instances_.ranks(), rank, program_.mode, steps_);
    producers_.assign(instances_.count(rank), std::nullopt);
    for (const auto& action : actions) {
      for (auto t : program_.segment(action.stage, action.phase).tasks) {
        if (!runs_in(program_.tasks[t], action.micro_batch, program_.digits.micro_batches()))
          continue;
        const auto at = span_of_.find({c, t, action.micro_batch, action.step});
        const auto s = at == span_of_.end() ? std::nullopt : std::optional(at->second);
        add_arrows(c, t, action, s);
      }
    }
  }

  // Adds arrows to a task from the tasks on other streams that produce what it reads. A task
  // without a span passes on the last task that it waits for.
  void add_arrows(std::size_t c, std::uint32_t t, const lower::Action& action,
                  std::optional<std::size_t> span) {
    const auto& task = program_.tasks[t];
    const auto& timeline = simulation_.timeline;
    std::optional<std::size_t> last;
    std::vector<std::size_t> from;
    const auto wait_for = [&](std::size_t other) {
      if (!last || timeline[other].end > timeline[*last].end) last = other;
      const bool elsewhere = span && (timeline[other].stream != timeline[*span].stream ||
                                      timeline[other].device_class != c);
      if (elsewhere && std::ranges::find(from, other) == from.end()) from.push_back(other);
    };
    for (auto b : task.reads) {
      if (b == Program::kNone) continue;
      const auto made =
          producers_[instances_.get_index(b, action.micro_batch, get_read_step(task, action.step))];
      if (made) wait_for(*made);
    }
    if (task.kind == TaskKind::kReceive) {
      const auto sent = span_of_.find(
          {find_source_class(task, devices_[c]), task.peer, action.micro_batch, action.step});
      if (sent != span_of_.end() && shown_[timeline[sent->second].device_class]) {
        wait_for(sent->second);
      }
    }
    for (auto other : from) add_arrow(timeline[other], timeline[*span]);
    for (auto b : task.writes) {
      producers_[instances_.get_index(b, action.micro_batch, action.step)] = span ? span : last;
    }
  }

  [[nodiscard]] std::size_t find_source_class(const Task& task, std::int64_t device) const {
    const auto group = program_.digits.group(device, task.step.digits);
    const auto source = group[static_cast<std::size_t>(find_root_rank(task.step, program_.digits))];
    return static_cast<std::size_t>(program_.digits.rank_in_group(source, class_digits_));
  }

  void add_arrow(const Span& from, const Span& to) {
    // If steps overlap, the timeline is wrapped. Arrows from the previous iteration are omitted.
    if (to_nanoseconds(from.start) > to_nanoseconds(to.start)) return;
    const auto id = ++arrows_;
    add(R"({{"ph":"s","name":"needs","cat":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})", id,
        from.device_class, from.stream, microseconds_text(to_nanoseconds(from.start)));
    add(R"({{"ph":"f","bp":"e","name":"needs","cat":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})",
        id, to.device_class, to.stream, microseconds_text(to_nanoseconds(to.start)));
  }

  void add_memory(std::size_t c) {
    using lower::BufferKind;
    std::vector<Span> spans;
    spans.reserve(spans_[c].size());
    for (auto s : spans_[c]) spans.push_back(simulation_.timeline[s]);
    for (const auto& [at, moment] : compute_memory_curve(program_, devices_[c], spans)) {
      const auto part = [&parts = moment.parts](BufferKind kind) {
        return parts[static_cast<std::size_t>(kind)].value;
      };
      add(R"({{"ph":"C","name":"memory, bytes","pid":{},"ts":{},"args":{{"weights":{:.0f},)"
          R"("optimizer state":{:.0f},"gathered weights":{:.0f},"gradients":{:.0f},)"
          R"("activations":{:.0f},"inputs":{:.0f}}}}})",
          c, microseconds_text(to_nanoseconds(at)), part(BufferKind::kWeight),
          part(BufferKind::kState), part(BufferKind::kGathered), part(BufferKind::kGradient),
          part(BufferKind::kActivation), part(BufferKind::kInput));
    }
  }

  // Class, task, micro-batch and step of a span.
  using Key = std::tuple<std::size_t, std::size_t, std::int64_t, std::int64_t>;
  static Key make_key(const Span& span) {
    return {span.device_class, span.task, span.micro_batch, span.step};
  }

  const Program& program_;
  const machine::Machine& machine_;
  const predict::Simulation& simulation_;
  lower::Instances instances_;
  std::int64_t steps_;
  machine::DigitMask class_digits_;
  std::vector<std::int64_t> devices_;            // by class: its representative
  std::vector<std::vector<std::size_t>> spans_;  // by class: numbers in the timeline
  std::map<Key, std::size_t> span_of_;
  std::vector<std::string> names_;                     // by node, quoted
  std::vector<bool> shown_;                            // by class
  std::vector<std::optional<std::size_t>> producers_;  // span by instance of the walked class
  std::size_t arrows_ = 0;
  std::string out_;
};

}  // namespace

Trace make_chrome_trace(const Program& program, const machine::Machine& machine,
                        const predict::Simulation& simulation, const std::string& title,
                        std::size_t most_spans) {
  return TraceWriter(program, machine, simulation).run(title, most_spans);
}

}  // namespace tandem::report
