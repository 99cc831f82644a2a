#include "strategies/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "strategies/families.h"
#include "strategies/recomputation.h"
#include "strategies/setting_key.h"

namespace tandem::strategies {

namespace {

class SettingParser {
 public:
  explicit SettingParser(std::string_view text) : text_(trim(text)) {}

  Setting run() {
    const auto colon = text_.find(':');
    out_.family = find_family(trim(std::string_view(text_).substr(0, colon)));
    if (colon != std::string::npos) {
      for (auto part : split(std::string_view(text_).substr(colon + 1), ',')) parse_part(part);
    }
    if (out_.pp == 1 && out_.micro == 1) out_.micro.reset();  // both have the same text
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& hint) const {
    throw UserError("strategy", text_, message, hint);
  }

  [[nodiscard]] Family find_family(std::string_view word) const {
    if (const auto family = parse_family(word)) return *family;
    if (word == "taso+flexflow") {
      fail("is found by a search of its own and has no settings",
           "use the name alone with `tandem simulate` or `tandem train`");
    }
    fail("unknown strategy",
         "expected one of: " + join(family_names(), ", ") + ", taso+flexflow, best_baseline");
  }

  void parse_part(std::string_view part) {
    const auto equals = part.find('=');
    const auto key = trim(part.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::string_view() : trim(part.substr(equals + 1));
    if (std::ranges::find(said_, key) != said_.end()) {
      fail(fmt::format("'{}' is given twice", key), "keep one of the two");
    }
    said_.emplace_back(key);
    if (!parse_layer(key, value) && !parse_key(key, value)) {
      fail(fmt::format("'{}' is not a setting of {}", part, name(out_.family)),
           "settings: " + join_keys());
    }
  }

  [[nodiscard]] std::string join_keys() const {
    std::vector<std::string> keys;
    for (const auto& key : get_setting_keys()) {
      if (has_key(out_.family, key.name)) keys.push_back(fmt::format("{}{}", key.name, key.form));
    }
    if (get_family(out_.family).split != FamilySplit::kLayerKinds) return join(keys, ", ");
    return "embedding, dense, transformer, experts, word_embedding =S or =S/S (inside a node / "
           "across nodes), where S is ddp, fsdp, tp or mp; " +
           join(keys, ", ");
  }

  bool parse_key(std::string_view key, std::string_view value) {
    const auto* known = find_setting_key(key);
    if (known == nullptr || !has_key(out_.family, key)) return false;
    if (known->form.empty()) return value.empty() && set_flag(key);
    return set_number(key, value) || set_other(key, value);
  }

  bool set_flag(std::string_view key) {
    for (const auto& [own, flag] :
         {std::pair("sp", &Setting::sp), std::pair("whole_loss", &Setting::whole_loss),
          std::pair("stale", &Setting::stale), std::pair("ring", &Setting::ring)}) {
      if (key == own) out_.*flag = true;
    }
    return true;
  }

  bool set_number(std::string_view key, std::string_view value) {
    if (key == "dp") {
      out_.dp = parse_number(key, value, 1, kMany);
    } else if (key == "cp") {
      out_.cp = parse_number(key, value, 1, kMany);
    } else if (key == "pp") {
      out_.pp = parse_number(key, value, 1, kMany);
    } else if (key == "zero") {
      out_.zero = parse_number(key, value, 0, 3);
    } else if (key == "interleave") {
      out_.interleave = parse_number(key, value, 1, kMany);
    } else if (key == "ep") {
      out_.ep = parse_number(key, value, 1, kMany);
    } else if (key == "micro") {
      out_.micro = parse_number(key, value, 1, kMany);
    } else {
      return false;
    }
    return true;
  }

  bool set_other(std::string_view key, std::string_view value) {
    if (key == "tp") {
      out_.tp.clear();
      for (auto level : split(value, '/')) out_.tp.push_back(parse_number(key, level, 1, kMany));
      if (out_.tp.empty()) (void)parse_number(key, value, 1, kMany);
    } else if (key == "ends") {
      out_.ends = parse_ends(value);
    } else if (key == "schedule") {
      out_.order = parse_schedule(value);
    } else if (key == "recompute") {
      const auto recompute = parse_recompute(value);
      if (!recompute) {
        fail(fmt::format("recompute cannot be '{}'", value),
             "expected none, selective, save_matmuls or full");
      }
      out_.recompute = *recompute;
    } else if (key == "bucket") {
      const auto bytes = parse_bytes(value);
      if (!bytes) fail(fmt::format("bucket cannot be '{}'", value), "expected an amount like 25MB");
      out_.bucket = Bytes{std::ceil(*bytes)};
    } else {
      return false;
    }
    return true;
  }

  [[nodiscard]] Ends parse_ends(std::string_view value) const {
    const auto dash = value.find('-');
    if (dash == std::string_view::npos) {
      fail(fmt::format("ends cannot be '{}'", value),
           "expected ends=N-M: how many layers the parts before and after the layers count as, "
           "e.g. ends=1-1");
    }
    return {parse_number("ends", trim(value.substr(0, dash)), 0, kMany),
            parse_number("ends", trim(value.substr(dash + 1)), 0, kMany)};
  }

  [[nodiscard]] plan::Order parse_schedule(std::string_view value) const {
    const auto order = plan::parse_order(value);
    if (!order || *order == plan::Order::kInterleaved) {
      fail(fmt::format("schedule cannot be '{}'", value),
           "expected gpipe or 1f1b; interleave=N selects the interleaved schedule");
    }
    return *order;
  }

  // Parses the sharding of a kind of layer. Defaults are not stored, so that a strategy has one
  // text.
  bool parse_layer(std::string_view key, std::string_view value) {
    const auto kind = parse_layer_kind(key);
    if (!kind || !has_key(out_.family, key)) return false;
    const auto levels = split(value, '/');
    if (levels.empty() || levels.size() > 2) {
      fail(fmt::format("{} cannot be '{}'", key, value),
           "expected S, or S/S (inside a node / across nodes)");
    }
    const LevelSharding sharding{parse_sharding(key, levels[0]),
                                 parse_sharding(key, levels.back())};
    out_.layers.erase(*kind);
    if (sharding != get_default_sharding(*kind)) out_.layers[*kind] = sharding;
    return true;
  }

  [[nodiscard]] Sharding parse_sharding(std::string_view key, std::string_view word) const {
    const auto at = std::ranges::find(kShardingNames, word);
    if (at == kShardingNames.end()) {
      fail(fmt::format("{} cannot be '{}'", key, word), "expected ddp, fsdp, tp or mp");
    }
    return static_cast<Sharding>(at - kShardingNames.begin());
  }

  [[nodiscard]] std::int64_t parse_number(std::string_view key, std::string_view value,
                                          std::int64_t least, std::int64_t most) const {
    const auto n = parse_int(value);
    if (!n || *n < least || *n > most) {
      fail(fmt::format("{} cannot be '{}'", key, value),
           fmt::format("expected an integer from {} to {}", least, most));
    }
    return *n;
  }

  static constexpr std::int64_t kMany = std::int64_t{1} << 30U;
  std::string text_;
  std::vector<std::string> said_;  // the keys so far
  Setting out_;
};

// Returns a text such as "25MB", in the largest unit that leaves an integer.
std::string format_exact_bytes(Bytes bytes) {
  auto n = static_cast<std::int64_t>(bytes.value);
  std::size_t unit = 0;
  constexpr std::array<std::string_view, 4> kUnits = {"B", "kB", "MB", "GB"};
  for (; n % 1000 == 0 && unit + 1 < kUnits.size(); ++unit) n /= 1000;
  return fmt::format("{}{}", n, kUnits[unit]);
}

std::string to_text(const LevelSharding& sharding) {
  const auto text = [](Sharding s) { return kShardingNames[static_cast<std::size_t>(s)]; };
  if (sharding.intra == sharding.inter) return std::string(text(sharding.intra));
  return fmt::format("{}/{}", text(sharding.intra), text(sharding.inter));
}

}  // namespace

const std::vector<std::string>& family_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> out;
    for (const auto& family : get_families()) out.emplace_back(family.name);
    return out;
  }();
  return kNames;
}

namespace {

// Throws UserError for a flag that repeats a setting of the strategy's text.
[[noreturn]] void fail_given_twice(std::string_view flag, std::string_view text,
                                   std::string_view key) {
  throw UserError("flag", std::string(flag),
                  fmt::format("the strategy {} already sets '{}'", text, key),
                  "keep one of the two");
}

void set_schedule(Setting& setting, const std::string& schedule, std::string_view text) {
  const auto order = plan::parse_order(schedule);
  CHECK(order.has_value(), schedule);
  if (setting.family != Family::kMegatron || setting.pp == 1) {
    throw UserError("flag", "--schedule",
                    fmt::format("sets the order of a pipeline, but {} has none", text),
                    "use --strategy megatron:pp=N");
  }
  if (sets_key(text, "schedule")) fail_given_twice("--schedule", text, "schedule");
  if (*order == plan::Order::kInterleaved) {
    if (!sets_key(text, "interleave")) setting.interleave = kPiecesUnlessSaid;
  } else if (sets_key(text, "interleave")) {
    fail_given_twice("--schedule", text, "interleave");
  } else {
    setting.order = *order;
  }
}

}  // namespace

Setting parse_setting(std::string_view text, const FlagSettings& flags) {
  auto out = parse_setting(text);
  if (!flags.recompute.empty()) {
    if (sets_key(text, "recompute")) fail_given_twice("--recompute", text, "recompute");
    out.recompute = parse_recompute(flags.recompute).value();
  }
  if (!flags.schedule.empty()) set_schedule(out, flags.schedule, text);
  return out;
}

std::string_view name(Family family) { return get_family(family).name; }

plan::Precision get_usual_precision(Family family) {
  return {.master = true, .wide_gradients = get_family(family).wide_gradients};
}

Setting parse_setting(std::string_view text) { return SettingParser(text).run(); }

std::string to_text(const Setting& s) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view key, const auto& value) {
    parts.push_back(fmt::format("{}={}", key, value));
  };
  if (!s.tp.empty()) add("tp", fmt::to_string(fmt::join(s.tp, "/")));
  if (s.dp) add("dp", *s.dp);
  if (s.cp != 1) add("cp", s.cp);
  if (s.sp) parts.emplace_back("sp");
  if (s.whole_loss) parts.emplace_back("whole_loss");
  if (s.zero) add("zero", *s.zero);
  if (s.ep) add("ep", *s.ep);
  for (const auto& [kind, sharding] : s.layers) add(name(kind), to_text(sharding));
  if (s.pp != 1) add("pp", s.pp);
  if (s.interleave != 1) add("interleave", s.interleave);
  if (s.ends) add("ends", fmt::format("{}-{}", s.ends->before, s.ends->behind));
  if (s.order != plan::Order::k1F1B) add("schedule", plan::name(s.order));
  if (s.stale) parts.emplace_back("stale");
  if (s.micro) add("micro", *s.micro);
  if (s.recompute != Recompute::kNone) add("recompute", name(s.recompute));
  if (s.ring) parts.emplace_back("ring");
  if (s.bucket > Bytes{}) add("bucket", format_exact_bytes(s.bucket));
  return std::string(name(s.family)) + (parts.empty() ? "" : ":" + join(parts, ","));
}

}  // namespace tandem::strategies
