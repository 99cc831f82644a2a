#include "search/neighbours/setting_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "base/divisor.h"
#include "base/error.h"
#include "base/text.h"
#include "strategies/recomputation.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Problem;
using strategies::Setting;

std::vector<std::int64_t> list_prime_factors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) out.push_back(p);
    while (n % p == 0) n /= p;
  }
  if (n > 1) out.push_back(n);
  return out;
}

// Returns whether the family only splits the batch and, at most, shards weights.
bool is_data_parallel(Family family) {
  return family == Family::kDp || family == Family::kFsdp || family == Family::kDeepspeed;
}

std::int64_t get_zero_level(const Setting& setting) {
  return setting.family == Family::kFsdp ? 3 : setting.zero.value_or(0);
}

// Sets the ZeRO level with the simplest text: dp, deepspeed:zero=1, fsdp, megatron:zero=1.
void set_zero_level(Setting& setting, std::int64_t level) {
  setting.zero.reset();
  if (!is_data_parallel(setting.family)) {
    if (level > 0) setting.zero = level;
    return;
  }
  setting.family = level == 0 ? Family::kDp : level == 3 ? Family::kFsdp : Family::kDeepspeed;
  if (setting.family == Family::kDeepspeed) setting.zero = level;
}

class SingleChanges {
 public:
  SingleChanges(const Setting& setting, const Problem& problem, std::int64_t batch)
      : setting_(setting), problem_(problem), batch_(batch), dp_(problem.digits.devices()) {
    if (setting.family == Family::kMegatron) dp_ = setting.dp.value_or(1);
  }

  std::vector<Setting> run() {
    if (setting_.family == Family::kMegatron || is_data_parallel(setting_.family)) {
      move_devices();
      change_zero_level();
    }
    change_micro_batches();
    change_recomputation();
    if (setting_.family == Family::kMegatron) {
      change_sequence_parallelism();
      change_virtual_stages();
    }
    return std::move(out_);
  }

 private:
  // Adds the setting if the devices can be grouped for it.
  void add(const Setting& changed) {
    try {
      for (auto& one : complete(changed, problem_)) {
        if (one == setting_ || std::ranges::find(out_, one) != out_.end()) continue;
        out_.push_back(std::move(one));
      }
    } catch (const UserError&) {
      return;
    }
  }

  enum DegreeIndex : std::uint8_t { kTp, kDp, kPp, kCp, kDegrees };
  using Degrees = std::array<std::int64_t, kDegrees>;

  [[nodiscard]] Degrees degrees() const {
    const auto tp =
        std::accumulate(setting_.tp.begin(), setting_.tp.end(), std::int64_t{1}, std::multiplies{});
    return {tp, dp_, setting_.pp, setting_.cp};
  }

  void move_devices() {
    const auto now = degrees();
    for (std::size_t from = 0; from < kDegrees; ++from) {
      for (std::size_t to = 0; to < kDegrees; ++to) {
        if (from == to || (to == kCp && !problem_.has_sequence())) continue;
        for (const auto p : list_prime_factors(now[from])) {
          auto next = now;
          next[from] /= p;
          next[to] *= p;
          add_with_degrees(next);
        }
      }
    }
  }

  void add_with_degrees(const Degrees& next) {
    if (batch_ % next[kDp] != 0) return;
    auto s = setting_;
    if (is_data_parallel(s.family)) {
      const auto level = get_zero_level(s);
      s.family = Family::kMegatron;
      set_zero_level(s, level);
      s.tp = {1};
    }
    const auto now = degrees();
    if (next[kTp] != now[kTp]) s.tp = {next[kTp]};
    s.dp = next[kDp];
    s.pp = next[kPp];
    s.cp = next[kCp];
    if (next[kTp] == 1) s.sp = false;
    if (s.pp == 1) {
      if (s.stale) return;
      s.interleave = 1;
      s.ends.reset();
      s.order = plan::Order::k1F1B;
    }
    s.micro = scale_micro_batches(next[kDp], next[kPp]);
    add(s);
  }

  // Returns the number of micro-batches that keeps the samples of each. One micro-batch stays one.
  // A new pipeline gets its default.
  [[nodiscard]] std::optional<std::int64_t> scale_micro_batches(std::int64_t dp,
                                                                std::int64_t pp) const {
    if (!setting_.micro) return std::nullopt;
    const auto samples = std::max<std::int64_t>(batch_ / (dp_ * *setting_.micro), 1);
    const auto own = batch_ / dp;
    const auto out = find_nearest_divisor(own, std::max<std::int64_t>(own / samples, 1));
    return out > 1 || pp > 1 ? std::optional(out) : std::nullopt;
  }

  void change_zero_level() {
    for (std::int64_t level = 0; level <= 3; ++level) {
      if (level == get_zero_level(setting_)) continue;
      auto s = setting_;
      set_zero_level(s, level);
      add(s);
    }
  }

  void change_micro_batches() {
    const auto micro = setting_.micro.value_or(1);
    const auto set = [&](std::int64_t n) {
      auto s = setting_;
      s.micro = n > 1 || s.pp > 1 ? std::optional(n) : std::nullopt;
      add(s);
    };
    if (batch_ % (dp_ * micro) != 0) return;
    for (const auto p : list_prime_factors(batch_ / dp_ / micro)) set(micro * p);
    for (const auto p : list_prime_factors(micro)) set(micro / p);
  }

  void change_recomputation() {
    for (const auto how : strategies::kRecomputations) {
      if (how == strategies::Recompute::kSelective && !problem_.has_sequence()) continue;
      auto s = setting_;
      s.recompute = how;
      add(s);
    }
  }

  void change_sequence_parallelism() {
    if (degrees()[kTp] == 1 || !problem_.has_sequence()) return;
    auto s = setting_;
    s.sp = !s.sp;
    add(s);
  }

  void change_virtual_stages() {
    if (setting_.pp == 1 || setting_.stale || setting_.order == plan::Order::kGpipe) return;
    auto s = setting_;
    s.interleave = 2 * setting_.interleave;
    add(s);
    for (const auto p : list_prime_factors(setting_.interleave)) {
      s.interleave = setting_.interleave / p;
      add(s);
    }
  }

  const Setting& setting_;
  const Problem& problem_;
  std::int64_t batch_;
  std::int64_t dp_;
  std::vector<Setting> out_;
};

std::vector<std::string> split_settings(const Setting& setting) {
  const auto text = to_text(setting);
  const auto colon = text.find(':');
  std::vector<std::string> out;
  if (colon == std::string::npos) return out;
  for (const auto part : split(std::string_view(text).substr(colon + 1), ',')) {
    out.emplace_back(part);
  }
  return out;
}

// Returns the entries of `a` that are not in `b`.
std::string join_difference(std::vector<std::string> a, const std::vector<std::string>& b) {
  std::erase_if(a, [&](const auto& part) { return std::ranges::find(b, part) != b.end(); });
  return join(a, ",");
}

}  // namespace

std::vector<Setting> list_single_changes(const Setting& setting, const Problem& problem,
                                         std::int64_t batch) {
  return SingleChanges(setting, problem, batch).run();
}

std::string describe_change(const Setting& from, const Setting& to) {
  if (from.family != to.family) return to_text(to);
  auto added = join_difference(split_settings(to), split_settings(from));
  const auto removed = join_difference(split_settings(from), split_settings(to));
  if (removed.empty()) return added;
  return added.empty() ? "without " + removed : fmt::format("{} instead of {}", added, removed);
}

}  // namespace tandem::search
