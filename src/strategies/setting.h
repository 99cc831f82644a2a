// A strategy's settings and their text, which parses back: "megatron:tp=8,dp=16,sp",
// "deepspeed:zero=2", "madmax:dense=tp/ddp,transformer=fsdp". What a text leaves out stays open:
// strategies/grid.h fills it in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "plan/precision.h"
#include "strategies/strategies.h"

namespace tandem::strategies {

enum class Family : std::uint8_t {
  kDp,
  kFsdp,
  kMegatron,
  kDeepspeed,
  kExpert,
  kDlrmHybrid,
  kEp,
  kMadmax
};

// "dp", ..., in the order of Family.
const std::vector<std::string>& family_names();
std::string_view name(Family family);

// As how many layers stages count what is before the first one (an embedding), and what is behind
// the last (a norm, a head).
struct Ends {
  std::int64_t before = 0;
  std::int64_t behind = 0;
  auto operator<=>(const Ends&) const = default;
};

struct Setting {
  Family family = Family::kDp;

  // megatron: how many devices share a layer, by machine level, the innermost first ("1/2": pairs
  // of nodes). One number is for the innermost levels that have it. Empty: left open.
  std::vector<std::int64_t> tp = {};
  std::optional<std::int64_t> dp = {};  // follows from tp
  bool sp = false;
  bool whole_loss = false;  // megatron: each of a tensor parallel group computes all of its loss
  std::optional<std::int64_t> zero = {};           // deepspeed, megatron: 0 to 3
  std::optional<std::int64_t> ep = {};             // ep: how many devices share the experts
  std::map<LayerKind, LevelSharding> layers = {};  // madmax: those that are not the default
  std::int64_t pp = 1;                             // pipeline stages
  std::optional<std::int64_t> micro = {};          // micro-batches; a pipeline has a default
  std::int64_t interleave = 1;                     // pieces of the model a stage holds
  std::optional<Ends> ends = {};                   // how they divide the layers
  bool stale = false;                              // updates one step late: plan::Semantics
  plan::Order order = plan::Order::k1F1B;          // of a pipeline; interleave has its own
  std::string recompute = "none";                  // one of kRecomputations
  std::int64_t cp = 1;                             // megatron: how many devices share a sequence
  bool ring = false;                               // blocks go round rings: lower/rings.h
  Bytes bucket = {};                               // of gradients; 0: none

  bool operator==(const Setting&) const = default;
};

// The types that a family trains 16-bit weights in: Megatron adds up gradients in fp32, the others
// leave them as they are.
plan::Precision usual_precision(Family family);

// Throws UserError: an unknown strategy, with those there are; an unknown key, with the strategy's;
// an impossible value; settings that this version does not have.
Setting parse_setting(std::string_view text);
std::string to_text(const Setting& setting);

// What is said beside a strategy's text, by flags of the command line; empty: nothing.
struct Beside {
  std::string recompute;  // one of kRecomputations
  std::string schedule;   // "gpipe", "1f1b", "interleaved"
};

// What interleaved is over, unless something else is said: pieces of the model a stage.
inline constexpr std::int64_t kPiecesUnlessSaid = 2;

// `text` parsed, with what is said beside it. Throws UserError where the text says the same or the
// contrary itself, and where there is no pipeline to schedule.
Setting parse_setting(std::string_view text, const Beside& beside);

}  // namespace tandem::strategies
