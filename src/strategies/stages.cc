#include "strategies/stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tandem::strategies {

bool is_operator(const Problem& problem, std::size_t n) {
  return problem.model.node(graph::NodeId(n)).op.role() == ops::Role::kCompute;
}

namespace {

// Returns the operations from the first operator up to each node, inclusive.
std::vector<double> sum_operations_until(const Problem& problem) {
  std::vector<double> out;
  double now = 0;
  for (std::size_t n = 0; n < problem.model.size(); ++n) {
    if (is_operator(problem, n)) now += problem.nodes[n].signature.flops.value;
    out.push_back(now);
  }
  return out;
}

std::vector<double> sum_prefixes(const std::vector<double>& load) {
  std::vector<double> out(load.size());
  std::partial_sum(load.begin(), load.end(), out.begin());
  return out;
}

// Returns the cut that ends each run, chosen greedily. No run takes longer than `most` if that is
// possible. A run leaves at least one cut for each run that follows.
std::vector<std::size_t> choose_ends(const std::vector<double>& until,
                                     const std::vector<double>& speeds, double most) {
  std::vector<std::size_t> out;
  std::size_t next = 0;
  double before = 0;
  for (std::size_t run = 0; run < speeds.size(); ++run) {
    const auto left = speeds.size() - run;
    const auto last = until.size() - left;
    auto end = left == 1 ? last : next;
    while (end < last && until[end + 1] - before <= most * speeds[run]) ++end;
    out.push_back(end);
    before = until[end];
    next = end + 1;
  }
  return out;
}

double find_longest(const std::vector<std::size_t>& ends, const std::vector<double>& until,
                    const std::vector<double>& speeds) {
  double out = 0;
  double before = 0;
  for (std::size_t run = 0; run < ends.size(); ++run) {
    out = std::max(out, (until[ends[run]] - before) / speeds[run]);
    before = until[ends[run]];
  }
  return out;
}

std::string_view get_layer_number(const Problem& problem, std::size_t n) {
  return parse_layer_number(problem.model.node(graph::NodeId(n)).name);
}

}  // namespace

std::vector<std::size_t> balance_ends(const std::vector<double>& until,
                                      const std::vector<double>& speeds) {
  double low = 0;
  double high = until.back() / std::ranges::min(speeds);
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const bool is_enough =
        find_longest(choose_ends(until, speeds, middle), until, speeds) <= middle;
    (is_enough ? high : low) = middle;
  }
  // Sums of equal operations differ by rounding. The tolerance keeps stages the same for every
  // batch.
  constexpr double kRounding = 1e-9;
  return choose_ends(until, speeds, (1 + kRounding) * high);
}

std::optional<std::vector<std::int64_t>> divide_layers(std::int64_t layers, std::int64_t stages,
                                                       const Ends& ends) {
  const auto all = layers + ends.before + ends.behind;
  const auto least = all / stages;
  const auto left = all % stages;
  std::vector<std::int64_t> out;
  for (std::int64_t s = 0; s < stages; ++s) out.push_back(least + (s < left ? 1 : 0));
  out.front() -= ends.before;
  out.back() -= ends.behind;
  if (std::ranges::min(out) < 1) return std::nullopt;
  return out;
}

std::vector<std::size_t> find_layer_ends(const Problem& problem,
                                         const std::vector<std::size_t>& cuts) {
  std::vector<std::size_t> out;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    std::size_t next = cuts[c] + 1;
    while (!is_operator(problem, next)) ++next;
    if (get_layer_number(problem, cuts[c]) != get_layer_number(problem, next))
      out.push_back(cuts[c]);
  }
  return out;
}

namespace {

// Returns the ends of the numbered layers. The last one includes everything after it.
std::vector<std::size_t> find_numbered_layers(const Problem& problem,
                                              const std::vector<std::size_t>& cuts) {
  auto out = find_layer_ends(problem, cuts);
  out.push_back(cuts.back());
  std::erase_if(out, [&](std::size_t end) { return get_layer_number(problem, end).empty(); });
  return out;
}

// Returns whether the layers are equal, except for the first and the last. These may have other
// sizes or a head.
bool are_equal(const std::vector<std::size_t>& layers, const std::vector<double>& until) {
  constexpr double kRounding = 1e-9;
  for (std::size_t l = 2; l + 1 < layers.size(); ++l) {
    const auto second = until[layers[1]] - until[layers[0]];
    const auto this_one = until[layers[l]] - until[layers[l - 1]];
    if (std::abs(this_one - second) > kRounding * until.back()) return false;
  }
  return true;
}

// Returns the ends of runs with these numbers of layers. The last run includes everything after it.
std::vector<std::size_t> find_run_ends(const std::vector<std::int64_t>& runs,
                                       const std::vector<std::size_t>& layers,
                                       const std::vector<std::size_t>& cuts) {
  std::vector<std::size_t> out;
  std::size_t done = 0;
  for (const auto run : runs) {
    done += static_cast<std::size_t>(run);
    out.push_back(layers[done - 1]);
  }
  out.back() = cuts.back();
  return out;
}

// Returns the ends of runs with equal numbers of layers; nullopt unless equal layers divide over
// the stages.
std::optional<std::vector<std::size_t>> find_even_ends(const Problem& problem,
                                                       const std::vector<std::size_t>& cuts,
                                                       const std::vector<double>& until,
                                                       std::int64_t stages) {
  const auto layers = find_numbered_layers(problem, cuts);
  const auto count = static_cast<std::int64_t>(layers.size());
  if (count < stages || count % stages != 0 || !are_equal(layers, until)) return std::nullopt;
  const std::vector<std::int64_t> runs(static_cast<std::size_t>(stages), count / stages);
  return find_run_ends(runs, layers, cuts);
}

std::optional<std::vector<std::size_t>> find_counted_ends(const Problem& problem,
                                                          const std::vector<std::size_t>& cuts,
                                                          std::int64_t stages, const Ends& ends) {
  const auto layers = find_numbered_layers(problem, cuts);
  const auto runs = divide_layers(static_cast<std::int64_t>(layers.size()), stages, ends);
  if (!runs) return std::nullopt;
  return find_run_ends(*runs, layers, cuts);
}

}  // namespace

std::string_view parse_layer_number(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string_view::npos) return {};
  return name.substr(0, name.find_first_not_of(kDigits, first));
}

std::vector<std::size_t> find_cuts(const Problem& problem) {
  const auto& model = problem.model;
  std::vector<std::size_t> last_read(model.size(), 0);
  for (auto id : model.ids()) {
    for (auto i : model.inputs(id)) last_read[i.index()] = id.index();
  }
  // Change, at each node, in the number of batch-dependent results that are still to be read.
  std::vector<std::int64_t> change(model.size() + 1);
  std::size_t last = 0;
  for (std::size_t n = 0; n < model.size(); ++n) {
    if (!is_operator(problem, n)) continue;
    last = n;
    if (!problem.nodes[n].batch() || last_read[n] == 0) continue;
    ++change[n];
    --change[last_read[n]];
  }
  std::vector<std::size_t> out;
  std::int64_t open = 0;
  for (std::size_t n = 0; n < last; ++n) {
    open += change[n];
    if (is_operator(problem, n) && open == 1 && problem.nodes[n].batch() && last_read[n] > n) {
      out.push_back(n);
    }
  }
  out.push_back(last);
  return out;
}

namespace {

// Returns, by stage, the speed of its slowest device.
std::vector<double> find_stage_speeds(const Problem& problem, std::int64_t stages,
                                      machine::DigitMask ranks, DType dtype) {
  const auto& digits = problem.digits;
  if (digits.has_equal_devices()) return std::vector<double>(static_cast<std::size_t>(stages), 1);
  std::vector<double> of_rank(static_cast<std::size_t>(digits.group_size(ranks)),
                              std::numeric_limits<double>::infinity());
  for (std::int64_t device = 0; device < digits.devices(); ++device) {
    auto& slowest = of_rank[static_cast<std::size_t>(digits.rank_in_group(device, ranks))];
    slowest = std::min(slowest, digits.speed(device, dtype));
  }
  std::vector<double> out;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    out.push_back(of_rank[static_cast<std::size_t>(stage) % of_rank.size()]);
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::uint16_t>> assign_stages(const Problem& problem, std::int64_t stages,
                                                        machine::DigitMask ranks,
                                                        const std::vector<double>& load,
                                                        const std::optional<Ends>& ends,
                                                        const std::vector<double>& pace) {
  const auto places = find_cuts(problem);
  if (static_cast<std::int64_t>(places.size()) < stages) return std::nullopt;
  const auto until = load.empty() ? sum_operations_until(problem) : sum_prefixes(load);
  auto speeds = find_stage_speeds(problem, stages, ranks,
                                  problem.model.node(graph::NodeId(places[0])).type.dtype);
  for (std::size_t s = 0; !pace.empty() && s < speeds.size(); ++s) {
    speeds[s] /= pace[s % pace.size()];
  }
  const bool of_one_speed = std::ranges::all_of(speeds, [&](double s) { return s == speeds[0]; });
  std::optional<std::vector<std::size_t>> found;
  if (ends) {
    found = find_counted_ends(problem, places, stages, *ends);
    if (!found) return std::nullopt;
  } else if (of_one_speed && load.empty() && pace.empty()) {
    found = find_even_ends(problem, places, until, stages);
  }
  if (!found) {
    std::vector<double> until_cuts;
    until_cuts.reserve(places.size());
    for (auto cut : places) until_cuts.push_back(until[cut]);
    found.emplace();
    for (auto end : balance_ends(until_cuts, speeds)) found->push_back(places[end]);
  }

  const auto& model = problem.model;
  constexpr std::uint16_t kNone = 0xffff;
  std::vector<std::uint16_t> out(model.size(), kNone);
  std::uint16_t stage = 0;
  for (auto id : model.ids()) {
    while (id.index() > (*found)[stage] && stage + 1U < found->size()) ++stage;
    if (!is_operator(problem, id.index())) continue;
    out[id.index()] = stage;
    for (auto i : model.inputs(id)) {
      if (!is_operator(problem, i.index())) out[i.index()] = std::min(out[i.index()], stage);
    }
  }
  std::ranges::replace(out, kNone, std::uint16_t{0});  // sources that nothing reads
  return out;
}

}  // namespace tandem::strategies
