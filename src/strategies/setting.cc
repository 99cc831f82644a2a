#include "strategies/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "strategies/recomputation.h"

namespace tandem::strategies {

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(trim(text)) {}

  Setting run() {
    const auto colon = text_.find(':');
    out_.family = parse_family(trim(std::string_view(text_).substr(0, colon)));
    if (colon != std::string::npos) {
      for (auto part : split(std::string_view(text_).substr(colon + 1), ',')) parse_part(part);
    }
    if (out_.pp == 1 && out_.micro == 1) out_.micro.reset();  // one text for it
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& hint) const {
    throw UserError("strategy", text_, message, hint);
  }

  [[nodiscard]] Family parse_family(std::string_view word) const {
    const auto& names = family_names();
    const auto at = std::ranges::find(names, word);
    if (at != names.end()) return static_cast<Family>(at - names.begin());
    if (word == "taso+flexflow") {
      fail("it is found by searches of its own, and has no settings",
           "`tandem simulate` and `tandem train` take it by its name alone");
    }
    fail("there is no such strategy",
         "there are: " + join(names, ", ") + ", taso+flexflow, best_baseline");
  }

  void parse_part(std::string_view part) {
    const auto equals = part.find('=');
    const auto key = trim(part.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::string_view() : trim(part.substr(equals + 1));
    if (std::ranges::find(said_, key) != said_.end()) {
      fail(fmt::format("'{}' stands twice", key), "one of the two");
    }
    said_.emplace_back(key);
    const bool known = out_.family == Family::kMegatron    ? parse_megatron(key, value)
                       : out_.family == Family::kDeepspeed ? parse_deepspeed(key, value)
                       : out_.family == Family::kEp        ? parse_ep(key, value)
                       : out_.family == Family::kMadmax    ? parse_madmax(key, value)
                                                           : false;
    if (!known && !parse_common(key, value)) {
      fail(fmt::format("'{}' is no setting of {}", part, name(out_.family)),
           "there are: " + keys());
    }
  }

  [[nodiscard]] std::string keys() const {
    switch (out_.family) {
      case Family::kMegatron:
        return "tp=N, dp=N, cp=N, sp, zero=0|1|2|3, whole_loss, pp=N, interleave=N, "
               "schedule=gpipe|1f1b, stale, micro=N, recompute=R, ring, bucket=BYTES";
      case Family::kDeepspeed:
        return "zero=0|1|2|3, micro=N, recompute=R, ring, bucket=BYTES";
      case Family::kEp:
        return "ep=N, micro=N, recompute=R, ring, bucket=BYTES";
      case Family::kMadmax:
        return "embedding, dense, transformer, experts, word_embedding =S or =S/S (inside a node "
               "and across), S ddp, fsdp, tp or mp; micro=N, recompute=R, ring, bucket=BYTES";
      default:
        return "micro=N, recompute=R, ring, bucket=BYTES";
    }
  }

  bool parse_common(std::string_view key, std::string_view value) {
    if (key == "micro") {
      out_.micro = number(key, value, 1, kMany);
    } else if (key == "recompute") {
      if (std::ranges::find(kRecomputations, value) == kRecomputations.end()) {
        fail(fmt::format("recompute cannot be '{}'", value), "none, selective, products or full");
      }
      out_.recompute = value;
    } else if (key == "ring" && value.empty()) {
      out_.ring = true;
    } else if (key == "bucket") {
      const auto bytes = parse_bytes(value);
      if (!bytes) fail(fmt::format("bucket cannot be '{}'", value), "an amount like 25MB");
      out_.bucket = Bytes{std::ceil(*bytes)};
    } else {
      return false;
    }
    return true;
  }

  bool parse_megatron(std::string_view key, std::string_view value) {
    if (key == "sp" && value.empty()) {
      out_.sp = true;
    } else if (key == "whole_loss" && value.empty()) {
      out_.whole_loss = true;
    } else if (key == "stale" && value.empty()) {
      out_.stale = true;
    } else if (key == "tp") {
      out_.tp.clear();
      for (auto level : split(value, '/')) out_.tp.push_back(number(key, level, 1, kMany));
      if (out_.tp.empty()) (void)number(key, value, 1, kMany);
    } else if (key == "dp") {
      out_.dp = number(key, value, 1, kMany);
    } else if (key == "cp") {
      out_.cp = number(key, value, 1, kMany);
    } else if (key == "pp") {
      out_.pp = number(key, value, 1, kMany);
    } else if (key == "zero") {
      out_.zero = number(key, value, 0, 3);
    } else if (key == "interleave") {
      out_.interleave = number(key, value, 1, kMany);
    } else if (key == "schedule") {
      out_.order = parse_schedule(value);
    } else {
      return false;
    }
    return true;
  }

  [[nodiscard]] plan::Order parse_schedule(std::string_view value) const {
    const auto order = plan::parse_order(value);
    if (!order || *order == plan::Order::kInterleaved) {
      fail(fmt::format("schedule cannot be '{}'", value),
           "gpipe or 1f1b; interleave=N is the interleaved one");
    }
    return *order;
  }

  bool parse_deepspeed(std::string_view key, std::string_view value) {
    if (key == "zero") out_.zero = number(key, value, 0, 3);
    return key == "zero";
  }

  bool parse_ep(std::string_view key, std::string_view value) {
    if (key == "ep") out_.ep = number(key, value, 1, kMany);
    return key == "ep";
  }

  // What is the default is not kept, so that a strategy has one text.
  bool parse_madmax(std::string_view key, std::string_view value) {
    const auto kind = parse_layer_kind(key);
    if (!kind) return false;
    const auto levels = split(value, '/');
    if (levels.empty() || levels.size() > 2) {
      fail(fmt::format("{} cannot be '{}'", key, value), "S, or S/S inside a node and across");
    }
    const LevelSharding sharding{parse_sharding(key, levels[0]),
                                 parse_sharding(key, levels.back())};
    out_.layers.erase(*kind);
    if (sharding != default_sharding(*kind)) out_.layers[*kind] = sharding;
    return true;
  }

  [[nodiscard]] Sharding parse_sharding(std::string_view key, std::string_view word) const {
    const auto at = std::ranges::find(kShardingNames, word);
    if (at == kShardingNames.end()) {
      fail(fmt::format("{} cannot be '{}'", key, word), "ddp, fsdp, tp or mp");
    }
    return static_cast<Sharding>(at - kShardingNames.begin());
  }

  [[nodiscard]] std::int64_t number(std::string_view key, std::string_view value,
                                    std::int64_t least, std::int64_t most) const {
    const auto n = parse_int(value);
    if (!n || *n < least || *n > most) {
      fail(fmt::format("{} cannot be '{}'", key, value),
           fmt::format("a whole number from {} to {}", least, most));
    }
    return *n;
  }

  static constexpr std::int64_t kMany = std::int64_t{1} << 30U;
  std::string text_;
  std::vector<std::string> said_;  // the keys so far
  Setting out_;
};

// "25MB": in the largest unit that leaves a whole number.
std::string exact_text(Bytes bytes) {
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
  static const std::vector<std::string> kNames = {"dp",     "fsdp",        "megatron", "deepspeed",
                                                  "expert", "dlrm_hybrid", "ep",       "madmax"};
  return kNames;
}

namespace {

bool says(std::string_view text, std::string_view key) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto parts = split(text.substr(colon + 1), ',');
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return trim(part.substr(0, part.find('='))) == key; });
}

// The flag cannot be given with a strategy that says so itself.
[[noreturn]] void fail_twice(std::string_view flag, std::string_view text, std::string_view key) {
  throw UserError("flag", std::string(flag),
                  fmt::format("the strategy {} has its own '{}'", text, key), "one of the two");
}

void set_schedule(Setting& setting, const std::string& schedule, std::string_view text) {
  const auto order = plan::parse_order(schedule);
  CHECK(order.has_value(), schedule);
  if (setting.family != Family::kMegatron || setting.pp == 1) {
    throw UserError("flag", "--schedule",
                    fmt::format("is the order of a pipeline, and {} has none", text),
                    "--strategy megatron:pp=N");
  }
  if (says(text, "schedule")) fail_twice("--schedule", text, "schedule");
  if (*order == plan::Order::kInterleaved) {
    constexpr std::int64_t kPieces = 2;
    if (!says(text, "interleave")) setting.interleave = kPieces;
  } else if (says(text, "interleave")) {
    fail_twice("--schedule", text, "interleave");
  } else {
    setting.order = *order;
  }
}

}  // namespace

Setting parse_setting(std::string_view text, const Beside& beside) {
  auto out = parse_setting(text);
  if (!beside.recompute.empty()) {
    if (says(text, "recompute")) fail_twice("--recompute", text, "recompute");
    out.recompute = beside.recompute;
  }
  if (!beside.schedule.empty()) set_schedule(out, beside.schedule, text);
  return out;
}

std::string_view name(Family family) { return family_names()[static_cast<std::size_t>(family)]; }

plan::Precision usual_precision(Family family) {
  return {.master = true, .wide_gradients = family == Family::kMegatron};
}

Setting parse_setting(std::string_view text) { return Parser(text).run(); }

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
  if (s.order != plan::Order::k1F1B) add("schedule", plan::name(s.order));
  if (s.stale) parts.emplace_back("stale");
  if (s.micro) add("micro", *s.micro);
  if (s.recompute != "none") add("recompute", s.recompute);
  if (s.ring) parts.emplace_back("ring");
  if (s.bucket > Bytes{}) add("bucket", exact_text(s.bucket));
  return std::string(name(s.family)) + (parts.empty() ? "" : ":" + join(parts, ","));
}

}  // namespace tandem::strategies
