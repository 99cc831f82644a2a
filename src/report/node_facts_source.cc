#include "report/node_facts_source.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "predict/breakdown.h"
#include "report/plan_text.h"
#include "report/tensor_names.h"

namespace tandem::report {

using graph::NodeId;

NodeFactsSource::NodeFactsSource(const PlanView& of)
    : view(of),
      consumers(of.program.pcg.consumers()),
      has_gradient(graph::mark_gradient_nodes(of.program.pcg)),
      analyzed(strategies::analyze(of.program.pcg)),
      kernels(predict::find_kernel_roles(of.program.pcg, of.machine.device.software)),
      recomputed(of.program.buffers.size()),
      class_of(of.program.pcg.size(), of.simulation.busiest),
      tasks_(of.program.pcg.size()) {
  index_tasks();
  index_chains();
  index_classes();
  count_equivalent_nodes();
}

void NodeFactsSource::index_tasks() {
  const auto& program = view.program;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    add(task.node, t);
    if (task.recomputed) {
      for (auto b : task.writes) recomputed[b.index()] = true;
    }
    if (task.kind == lower::TaskKind::kBackward) {
      for (auto b : task.reads) {
        if (b != lower::Program::kNone) add(find_origin(program.pcg, program.buffer(b).node), t);
      }
    }
    if (!predict::communicates(task)) continue;
    add_users(task.node, t);
    for (std::size_t i = 0; i < std::max(task.reads.size(), task.writes.size()); ++i) {
      const auto moved = program.buffer(get_moved_buffer(task, i)).node;
      add(find_origin(program.pcg, moved), t);
      add_users(moved, t);
    }
  }
}

NodeId NodeFactsSource::find_chain_end(NodeId id) const {
  while (true) {
    const auto& users = consumers[id.index()];
    if (users.size() != 1 || !is_parallel(view.program.pcg.node(users[0]))) return id;
    id = users[0];
  }
}

// Adds the transfers of each chain of parallelization operators to all its operators.
void NodeFactsSource::index_chains() {
  const auto& program = view.program;
  std::unordered_map<std::size_t, std::vector<std::size_t>> transfers;  // by the chain's last node
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    if (predict::communicates(task)) transfers[find_chain_end(task.node).index()].push_back(t);
  }
  for (auto id : program.pcg.ids()) {
    if (!is_parallel(program.pcg.node(id))) continue;
    const auto found = transfers.find(find_chain_end(id).index());
    if (found == transfers.end()) continue;
    std::vector<std::size_t> all;
    std::ranges::set_union(tasks_[id.index()], found->second, std::back_inserter(all));
    tasks_[id.index()] = std::move(all);
  }
}

void NodeFactsSource::add(NodeId id, std::size_t task) {
  auto& tasks = tasks_[id.index()];
  if (tasks.empty() || tasks.back() != task) tasks.push_back(task);
}

void NodeFactsSource::add_users(NodeId id, std::size_t task) {
  for (auto user : consumers[id.index()]) {
    if (is_parallel(view.program.pcg.node(user))) {
      add_users(user, task);
    } else {
      add(user, task);
    }
  }
}

void NodeFactsSource::index_classes() {
  constexpr auto kNobody = std::numeric_limits<std::uint32_t>::max();
  const auto busiest = view.simulation.busiest;
  std::vector<std::uint32_t> first(view.program.pcg.size(), kNobody);
  std::vector<bool> busiest_runs_it(view.program.pcg.size());
  for (const auto& span : view.simulation.timeline) {
    const auto node = view.program.tasks[span.task].node.index();
    if (span.device_class == busiest) busiest_runs_it[node] = true;
    first[node] = std::min(first[node], span.device_class);
  }
  for (std::size_t n = 0; n < first.size(); ++n) {
    if (!busiest_runs_it[n] && first[n] != kNobody) class_of[n] = first[n];
  }
}

void NodeFactsSource::count_equivalent_nodes() {
  const auto& pcg = view.program.pcg;
  const auto& layouts = view.plan.mapped.layouts;
  for (auto id : pcg.ids()) {
    const auto& node = pcg.node(id);
    auto& kinds = kinds_[fold_name(node.name)];
    const auto same = std::ranges::find_if(kinds, [&](const Kind& kind) {
      const auto& other = pcg.node(kind.first);
      return other.op == node.op && other.type == node.type &&
             layouts[kind.first.index()] == layouts[id.index()];
    });
    if (same == kinds.end()) {
      kinds.emplace_back(id, 1);
    } else {
      ++same->second;
    }
  }
}

const std::vector<std::size_t>& NodeFactsSource::tasks_about(NodeId id) const {
  return tasks_[id.index()];
}

std::size_t NodeFactsSource::equivalent_count(NodeId id) const {
  const auto& pcg = view.program.pcg;
  const auto& layouts = view.plan.mapped.layouts;
  const auto& node = pcg.node(id);
  for (const auto& [first, count] : kinds_.at(fold_name(node.name))) {
    const auto& other = pcg.node(first);
    if (other.op == node.op && other.type == node.type &&
        layouts[first.index()] == layouts[id.index()]) {
      return count;
    }
  }
  return 1;
}

const std::vector<TaskTime>& NodeFactsSource::times(std::uint32_t device_class) const {
  auto at = times_.find(device_class);
  if (at == times_.end()) {
    at = times_.emplace(device_class, sum_task_times(view.program, view.simulation, device_class))
             .first;
  }
  return at->second;
}

}  // namespace tandem::report
