#include "strategies/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "strategies/pipeline.h"

namespace tandem::strategies {

using machine::bit;
using machine::DigitMask;
using machine::Digits;

std::optional<DigitMask> find_context_digits(const Digits& digits, std::int64_t cp,
                                             DigitMask taken) {
  const auto mask = find_dividing_digits(digits, digits.all() & ~taken, cp);
  if (digits.group_size(mask) != cp) return std::nullopt;
  return mask;
}

namespace {

// Returns every mask that takes some of the last digits of each level.
std::vector<DigitMask> list_level_masks(const Digits& digits) {
  std::vector<DigitMask> masks = {0};
  std::size_t begin = 0;
  while (begin < digits.count()) {
    std::size_t end = begin;
    while (end < digits.count() && digits[end].level == digits[begin].level) ++end;
    const auto before = masks;
    DigitMask tail = 0;
    for (std::size_t i = end; i-- > begin;) {
      tail |= bit(i);
      for (auto m : before) masks.push_back(m | tail);
    }
    begin = end;
  }
  return masks;
}

// Returns these masks, the smaller groups first.
std::vector<DigitMask> list_tensor_masks(const Digits& digits) {
  auto masks = list_level_masks(digits);
  std::ranges::stable_sort(masks, {}, [&](DigitMask m) { return digits.group_size(m); });
  return masks;
}

// Returns whether `a` reaches less far out than `b`. Compares the outermost digits first.
bool is_further_in(DigitMask a, DigitMask b) {
  const auto differ = a ^ b;
  return differ != 0 && ((b >> std::countr_zero(differ)) & 1U) != 0;
}

// Returns the default digits of a tensor parallel group of `tp` devices.
std::optional<DigitMask> find_innermost(const Digits& digits, std::int64_t tp) {
  std::optional<DigitMask> best;
  for (auto mask : list_level_masks(digits)) {
    if (digits.group_size(mask) == tp && (!best || is_further_in(mask, *best))) best = mask;
  }
  return best;
}

std::vector<std::int64_t> count_by_level(const Digits& digits, DigitMask mask) {
  std::vector<std::int64_t> out;
  const auto levels = digits.count() == 0 ? 1 : digits[digits.count() - 1].level + 1;
  for (std::size_t level = levels; level-- > 0;) {
    out.push_back(digits.group_size(mask, level));
  }
  while (out.size() > 1 && out.back() == 1) out.pop_back();
  return out;
}

// Returns the digits of "tp=8" or "tp=1/2".
std::optional<DigitMask> find_tensor_digits(const Digits& digits,
                                            const std::vector<std::int64_t>& tp) {
  if (tp.size() == 1) return find_innermost(digits, tp[0]);
  for (auto mask : list_tensor_masks(digits)) {
    if (count_by_level(digits, mask) == tp) return mask;
  }
  return std::nullopt;
}

Setting make_megatron_setting(const Problem& problem, DigitMask mask, Setting out) {
  const auto& digits = problem.digits;
  const auto tp = digits.group_size(mask);
  const bool is_default = find_innermost(digits, tp) == mask;
  out.tp = is_default ? std::vector{tp} : count_by_level(digits, mask);
  out.dp = digits.devices() / tp / out.pp / out.cp;
  if (!out.micro && out.pp > 1) out.micro = choose_micro_batches(problem, *out.dp, out.pp);
  return out;
}

// Returns a hint such as "tp=4 is nearest", from the numbers that are possible.
std::string suggest_nearest(std::string_view key, double wanted,
                            const std::set<std::int64_t>& legal) {
  const auto distance = [&](std::int64_t n) {
    const auto value = static_cast<double>(n);
    return std::max(value / wanted, wanted / value);
  };
  return fmt::format("the nearest possible value is {}={}", key,
                     *std::ranges::min_element(legal, {}, distance));
}

// Returns a text such as " beside cp=2 and pp=4": the settings that take devices first.
std::string format_other_degrees(const Setting& setting) {
  std::vector<std::string> taken;
  if (setting.cp > 1) taken.push_back(fmt::format("cp={}", setting.cp));
  if (setting.pp > 1) taken.push_back(fmt::format("pp={}", setting.pp));
  return taken.empty() ? "" : " with " + join(taken, " and ");
}

[[noreturn]] void fail(const Setting& setting, const std::string& message,
                       const std::string& hint) {
  throw UserError("strategy", to_text(setting), message, hint);
}

// Fails if tp names more levels than the machine has. "tp=1/2" means one device of the innermost
// level times two of the next level.
void check_levels(const Setting& setting, const Digits& digits) {
  const auto levels = digits.count() == 0 ? 1 : digits[digits.count() - 1].level + 1;
  if (setting.tp.size() <= levels) return;
  fail(setting,
       fmt::format("tp gives {} levels, but the machine has {}", setting.tp.size(), levels),
       "use tp=N, or tp=N/M/... from the innermost level outwards");
}

// Fails if pipeline settings contradict each other.
void check_pipeline_settings(const Setting& setting) {
  if (setting.interleave > 1 && setting.pp == 1) {
    fail(setting, "interleave requires pipeline stages", "add pp=N");
  }
  if (setting.ends && setting.pp == 1) fail(setting, "ends requires pipeline stages", "add pp=N");
  if (setting.order == plan::Order::kGpipe && (setting.pp == 1 || setting.interleave > 1)) {
    fail(setting, "schedule=gpipe requires a pipeline with one stage per rank",
         setting.pp == 1 ? "add pp=N" : "remove interleave");
  }
  if (setting.order == plan::Order::kGpipe && setting.stale) {
    fail(setting, "stale requires schedule=1f1b", "remove schedule=gpipe");
  }
  if (setting.stale && (setting.pp == 1 || setting.interleave > 1)) {
    fail(setting, "stale requires a pipeline with one stage per rank",
         setting.pp == 1 ? "add pp=N" : "remove interleave");
  }
}

// Returns the number of devices that tensor and data parallelism share.
std::int64_t count_remaining_devices(const Setting& setting, const Digits& digits) {
  return digits.devices() / setting.pp / setting.cp;
}

// Returns the possible tensor parallel groups for the setting's pipeline stages and context
// parallelism, the smaller groups first. Fails if there are none.
std::vector<DigitMask> list_possible_groups(const Setting& setting, const Digits& digits) {
  const auto ranks = find_rank_digits(digits, setting.pp);
  if (!ranks) {
    fail(setting, fmt::format("{} devices cannot be divided into such groups", digits.devices()),
         suggest_nearest("pp", static_cast<double>(setting.pp), list_rank_counts(digits)));
  }
  auto masks = list_tensor_masks(digits);
  std::erase_if(masks, [&](DigitMask mask) {
    return (mask & *ranks) != 0 || !find_context_digits(digits, setting.cp, mask | *ranks);
  });
  if (masks.empty()) {
    fail(setting,
         fmt::format("{} devices cannot be divided into groups of {} for context parallelism",
                     digits.devices(), setting.cp),
         "");
  }
  return masks;
}

// Returns the group that the setting's `tp` names. Fails if it is not one of the possible groups,
// or contradicts `dp`.
DigitMask find_named_group(const Setting& setting, const Digits& digits,
                           const std::vector<DigitMask>& possible) {
  const auto mask = find_tensor_digits(digits, setting.tp);
  if (!mask || std::ranges::find(possible, *mask) == possible.end()) {
    std::int64_t wanted = 1;
    for (auto n : setting.tp) wanted *= n;
    std::set<std::int64_t> legal;
    for (auto other : possible) legal.insert(digits.group_size(other));
    fail(setting,
         fmt::format("{} devices cannot be divided into such groups{}", digits.devices(),
                     format_other_degrees(setting)),
         suggest_nearest("tp", static_cast<double>(wanted), legal));
  }
  const auto dp = count_remaining_devices(setting, digits) / digits.group_size(*mask);
  if (setting.dp.value_or(dp) != dp) {
    fail(setting,
         fmt::format("tp x dp{}{} is {}, but the machine has {} devices",
                     setting.pp > 1 ? " x pp" : "", setting.cp > 1 ? " x cp" : "",
                     digits.group_size(*mask) * *setting.dp * setting.pp * setting.cp,
                     digits.devices()),
         fmt::format("use dp={}", dp));
  }
  return *mask;
}

// Returns the possible groups of a setting without `tp`: those that fit its `dp`, or all groups if
// `dp` is not given either. Then omits tp=1 if that is plain data parallelism. Fails if `dp` fits
// no group.
std::vector<DigitMask> select_groups(const Setting& setting, const Digits& digits,
                                     const std::vector<DigitMask>& possible) {
  const auto devices = count_remaining_devices(setting, digits);
  std::vector<DigitMask> out;
  std::set<std::int64_t> legal;
  for (auto mask : possible) {
    const auto dp = devices / digits.group_size(mask);
    legal.insert(dp);
    const bool is_wanted =
        setting.dp ? *setting.dp == dp : mask != 0 || devices == 1 || setting.pp * setting.cp > 1;
    if (is_wanted) out.push_back(mask);
  }
  if (out.empty()) {
    fail(setting,
         fmt::format("{} devices cannot be divided into such groups{}", digits.devices(),
                     format_other_degrees(setting)),
         suggest_nearest("dp", static_cast<double>(*setting.dp), legal));
  }
  return out;
}

}  // namespace

std::vector<Setting> complete_megatron(const Setting& setting, const Problem& problem) {
  const auto& digits = problem.digits;
  check_levels(setting, digits);
  check_pipeline_settings(setting);
  const auto possible = list_possible_groups(setting, digits);
  const auto groups = setting.tp.empty() ? select_groups(setting, digits, possible)
                                         : std::vector{find_named_group(setting, digits, possible)};
  std::vector<Setting> out;
  out.reserve(groups.size());
  for (auto mask : groups) out.push_back(make_megatron_setting(problem, mask, setting));
  return out;
}

std::vector<Setting> complete_ep(const Setting& setting, const Problem& problem) {
  const auto legal = list_expert_degrees(problem);
  std::vector<Setting> out;
  for (auto ep : legal) {
    if (setting.ep ? *setting.ep == ep : ep > 1) {
      out.push_back(setting);
      out.back().ep = ep;
    }
  }
  if (!out.empty()) return out;
  if (setting.ep) {
    fail(setting, "the experts or the devices cannot be divided into such groups",
         suggest_nearest("ep", static_cast<double>(*setting.ep), legal));
  }
  fail(setting,
       fmt::format("no level of the machine ({} devices) divides the number of experts",
                   problem.digits.devices()),
       "");
}

std::vector<Setting> complete_deepspeed(const Setting& setting) {
  if (setting.zero) return {setting};
  std::vector<Setting> out;
  for (const std::int64_t zero : {1, 2, 3}) {
    out.push_back(setting);
    out.back().zero = zero;
  }
  return out;
}

MegatronParts make_megatron_parts(const Setting& setting, const Digits& digits) {
  const auto tensor = find_tensor_digits(digits, setting.tp).value();
  const auto ranks = find_rank_digits(digits, setting.pp).value();
  return {.tensor = tensor,
          .context = find_context_digits(digits, setting.cp, tensor | ranks).value(),
          .ranks = ranks,
          .sequence_parallel = setting.sp,
          .whole_loss = setting.whole_loss,
          .stored = setting.zero.value_or(0) > 0};
}

std::set<std::int64_t> list_expert_degrees(const Problem& problem) {
  std::set<std::int64_t> out = {1};
  std::int64_t most = 1;
  const auto digits = find_expert_digits(problem);
  for (std::size_t i = problem.digits.count(); i-- > 0;) {
    if (machine::has_digit(digits, i)) out.insert(most *= problem.digits[i].size);
  }
  return out;
}

std::vector<std::pair<std::int64_t, DigitMask>> list_tensor_groups(const Digits& digits) {
  std::vector<std::pair<std::int64_t, DigitMask>> out;
  for (auto mask : list_tensor_masks(digits)) {
    const auto size = digits.group_size(mask);
    if (find_innermost(digits, size) == mask) out.emplace_back(size, mask);
  }
  return out;
}

std::set<std::int64_t> list_rank_counts(const Digits& digits) {
  std::set<std::int64_t> out = {1};
  for (std::int64_t n = 2; n <= digits.devices(); ++n) {
    if (digits.devices() % n == 0 && find_rank_digits(digits, n)) out.insert(n);
  }
  return out;
}

machine::DigitMask find_tensor_digits(const Setting& setting, const Digits& digits) {
  return find_tensor_digits(digits, setting.tp).value_or(0);
}

machine::DigitMask find_data_digits(const Setting& setting, const Digits& digits) {
  const auto tensor = find_tensor_digits(setting, digits);
  const auto taken = tensor | find_rank_digits(digits, setting.pp).value_or(0);
  return digits.all() & ~(taken | find_context_digits(digits, setting.cp, taken).value_or(0));
}

}  // namespace tandem::strategies
