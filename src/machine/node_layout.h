// The use of every machine digit by one operator: run along a factor, carry a partial sum through,
// compute the same redundantly, or be idle. The layouts of all operands and of the result follow
// from it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine/layout.h"
#include "ops/signature.h"
#include "term/evaluate.h"

namespace tandem::machine {

class DigitUse {
 public:
  constexpr DigitUse() = default;
  static constexpr DigitUse factor(ops::FactorId f) {
    return DigitUse(static_cast<std::int8_t>(f));
  }

  [[nodiscard]] constexpr bool is_factor() const { return code_ >= 0; }
  [[nodiscard]] constexpr ops::FactorId factor() const { return static_cast<ops::FactorId>(code_); }
  // Returns the use that carries partial sums through the inputs of Signature::partial_inputs[set].
  static constexpr DigitUse through(std::size_t set) {
    return DigitUse(static_cast<std::int8_t>(kFirstThrough - static_cast<int>(set)));
  }
  [[nodiscard]] constexpr bool is_through() const {
    return code_ <= kFirstThrough && code_ > kFirstIdle;
  }
  [[nodiscard]] constexpr std::size_t through_set() const {
    return static_cast<std::size_t>(kFirstThrough - code_);
  }
  // Returns the idle use: only the devices whose digit is `place` compute.
  static constexpr DigitUse idle(std::int64_t place) {
    return DigitUse(static_cast<std::int8_t>(kFirstIdle - place));
  }
  [[nodiscard]] constexpr bool is_idle() const { return code_ <= kFirstIdle; }
  [[nodiscard]] constexpr std::int64_t place() const { return kFirstIdle - code_; }
  constexpr auto operator<=>(const DigitUse&) const = default;

  static const DigitUse kIdle, kReplica;

 private:
  static constexpr std::int8_t kFirstThrough = -2;
  static constexpr std::int8_t kFirstIdle = -64;
  constexpr explicit DigitUse(std::int8_t code) : code_(code) {}
  std::int8_t code_ = kFirstIdle;
};
inline constexpr DigitUse DigitUse::kReplica = DigitUse(-1);
inline constexpr DigitUse DigitUse::kIdle = DigitUse::idle(0);

struct NodeLayout {
  std::array<DigitUse, Digits::kMax> uses{};
  auto operator<=>(const NodeLayout&) const = default;
};

// Returns whether a layout may cut this factor. It may not if the factor must be whole, or if
// windows would cover only padding. Partial maxima are excluded because lowering cannot combine
// them.
bool may_cut(const ops::Signature& s, ops::FactorId f);
// Returns whether may_cut() holds and every operand is read in shards, none in windows.
bool may_cut_in_shards(const ops::Signature& s, ops::FactorId f);

// Returns whether `f` follows another factor in some dimension, like g in (kv g).
bool is_minor(const ops::Signature& s, ops::FactorId f);
// Returns whether digit `i` may cut `f` if the digits before it are used as in `node`. The digit's
// degree must divide the factor. A minor factor is cut only after the factors before it are used
// up: with kv = 8 and digits of 2, three digits run along kv and the next may run along g. An
// operand without g is then replicated.
bool may_cut_next(const ops::Signature& s, ops::FactorId f, const NodeLayout& node,
                  const Digits& digits, std::size_t i);

// Returns the size that the degree of a factor must divide. It is the factor's size; if the factor
// is read in windows, it is the greatest common divisor with the dimensions that it cuts.
std::int64_t compute_divisible_size(const ops::Signature& s, ops::FactorId f);

Layout compute_input_layout(const ops::Signature& s, const NodeLayout& node, std::size_t digits,
                            std::size_t input);
Layout compute_output_layout(const ops::Signature& s, const NodeLayout& node, std::size_t digits);

// Returns the node layout that these operand layouts imply, or nullopt if some digit does not fit.
std::optional<NodeLayout> infer_node_layout(const ops::Signature& s, std::span<const Layout> inputs,
                                            const Digits& digits);

// Returns the range of every factor that a slot works on. The operator must compute on that slot.
std::vector<term::FactorRange> compute_slot_ranges(const ops::Signature& s, const NodeLayout& node,
                                                   const Digits& digits, std::int64_t slot);

}  // namespace tandem::machine
