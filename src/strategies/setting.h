// A strategy's settings and their text, which parses back: "megatron:tp=8,dp=16,sp",
// "deepspeed:zero=2", "madmax:dense=tp/ddp,transformer=fsdp". Settings that a text leaves open are
// completed by strategies/grid.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "plan/precision.h"
#include "strategies/recompute.h"
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

// Returns "dp", ..., in the order of Family.
const std::vector<std::string>& family_names();
std::string_view name(Family family);

// Numbers of layers that the parts outside the layers count as when stages divide them. `before` is
// for an embedding before the first layer, `behind` for a norm or a head after the last.
struct Ends {
  std::int64_t before = 0;
  std::int64_t behind = 0;
  auto operator<=>(const Ends&) const = default;
};

struct Setting {
  Family family = Family::kDp;

  // megatron: devices that share a layer, by machine level, the innermost first ("1/2": pairs of
  // nodes). A single number selects the innermost levels of that size. Empty: left open.
  std::vector<std::int64_t> tp = {};
  std::optional<std::int64_t> dp = {};  // follows from tp
  bool sp = false;
  bool whole_loss = false;  // megatron: each device of a tensor parallel group computes all of it
  std::optional<std::int64_t> zero = {};           // deepspeed, megatron: 0 to 3
  std::optional<std::int64_t> ep = {};             // ep: number of devices that share the experts
  std::map<LayerKind, LevelSharding> layers = {};  // madmax: those that are not the default
  std::int64_t pp = 1;                             // pipeline stages
  std::optional<std::int64_t> micro = {};          // micro-batches; a pipeline has a default
  std::int64_t interleave = 1;                     // virtual stages per rank
  std::optional<Ends> ends = {};                   // how stages divide the layers
  bool stale = false;                              // updates one step late: plan::Semantics
  plan::Order order = plan::Order::k1F1B;          // order of a pipeline; interleave has its own
  Recompute recompute = Recompute::kNone;
  std::int64_t cp = 1;  // megatron: number of devices that share a sequence
  bool ring = false;    // gathered operands go round rings: lower/rings.h
  Bytes bucket = {};    // bytes of a gradient bucket; 0: none

  bool operator==(const Setting&) const = default;
};

// Returns the mixed precision that a family usually trains in. Megatron accumulates gradients in
// fp32; the others leave their type.
plan::Precision get_usual_precision(Family family);

// Parses a strategy's text. Throws UserError for an unknown strategy or key, and lists the known
// ones. Also throws it for an impossible value, and for settings that this version lacks.
Setting parse_setting(std::string_view text);
std::string to_text(const Setting& setting);

// Settings given by command line flags besides a strategy's text; empty: not given.
struct FlagSettings {
  std::string recompute;  // text of a Recompute
  std::string schedule;   // "gpipe", "1f1b", "interleaved"
};

// Default number of virtual stages per rank in an interleaved pipeline.
inline constexpr std::int64_t kPiecesUnlessSaid = 2;

// Parses `text` and adds the settings of `flags`. Throws UserError if the text has the same
// setting itself, or if there is no pipeline to schedule.
Setting parse_setting(std::string_view text, const FlagSettings& flags);

}  // namespace tandem::strategies
