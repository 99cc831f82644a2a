#include "search/promising_settings.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "predict/folded.h"
#include "search/limits.h"

namespace tandem::search {

using strategies::Setting;

bool has_equal_layers(const Options& options) {
  const auto& network = options.network;
  return network && predict::fold(*network->model, network->batch, network->dtype).has_value();
}

std::vector<Evaluated> estimate_all(Estimates& estimates, const std::vector<Setting>& settings) {
  std::vector<Evaluated> out;
  for (const auto& setting : settings) {
    if (auto evaluated = estimates.find(setting)) out.push_back(*std::move(evaluated));
  }
  return out;
}

namespace {

// Returns pointers to the settings, best first. Of those with equal time and memory only the first
// stays.
std::vector<const Evaluated*> rank_distinct(const std::vector<Evaluated>& evaluated) {
  std::vector<const Evaluated*> out;
  out.reserve(evaluated.size());
  for (const auto& e : evaluated) out.push_back(&e);
  std::ranges::stable_sort(out, [](const auto* a, const auto* b) { return is_better(*a, *b); });
  const auto same = [](const Evaluated* a, const Evaluated* b) {
    return a->time() == b->time() && a->over == b->over;
  };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

}  // namespace

bool have_equal_shapes(const Setting& a, const Setting& b) { return a.pp == b.pp && a.tp == b.tp; }

std::vector<Setting> choose_promising(const std::vector<Evaluated>& settings, std::size_t most) {
  std::vector<Setting> out;
  for (const auto* e : rank_distinct(settings)) {
    if (out.size() == most) break;
    out.push_back(*e->setting);
  }
  return out;
}

std::vector<Setting> choose_promising_of_each_shape(const std::vector<Evaluated>& settings,
                                                    std::size_t most) {
  const auto known = rank_distinct(settings);
  auto out = choose_promising(settings, most);
  for (std::size_t i = out.size(); i < known.size() && out.size() < most + limits::kOtherShapes;
       ++i) {
    const auto& setting = *known[i]->setting;
    if (known[i]->feasible != known[0]->feasible) break;
    if (known[i]->time() > limits::kOtherShapeSlower * known[0]->time()) continue;
    const auto is_alike = [&](const Setting& other) { return have_equal_shapes(other, setting); };
    if (std::ranges::none_of(out, is_alike)) out.push_back(setting);
  }
  return out;
}

}  // namespace tandem::search
