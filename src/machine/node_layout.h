// What every machine digit does to one operator: run along a factor, carry a partial sum through,
// compute the same redundantly, or stand idle. The layouts of all operands and of the result
// follow.
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
  // Carries partial sums through the inputs of Signature::partial_inputs[set].
  static constexpr DigitUse through(std::size_t set) {
    return DigitUse(static_cast<std::int8_t>(kFirstThrough - static_cast<int>(set)));
  }
  [[nodiscard]] constexpr bool is_through() const {
    return code_ <= kFirstThrough && code_ > kFirstIdle;
  }
  [[nodiscard]] constexpr std::size_t through_set() const {
    return static_cast<std::size_t>(kFirstThrough - code_);
  }
  // Only the devices whose digit is `place` compute.
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

// May a layout cut this factor? Beside what must be whole: partial maxima need movements that
// lowering does not make, and windows must not lie in padding alone.
bool may_cut(const ops::Signature& s, ops::FactorId f);
// The same, and every operand is read in shards, none in windows.
bool may_cut_in_shards(const ops::Signature& s, ops::FactorId f);

// Does it stand behind another factor in some dimension, as g in (kv g)?
bool is_minor(const ops::Signature& s, ops::FactorId f);
// May digit `i` cut it, the digits before it being used as in `node`? Its degree must divide it;
// and a minor factor is cut by digits inside those that use up the factors before it: with kv = 8
// and digits of 2, three run along kv, the next may run along g. (An operand without g has copies
// then.)
bool may_cut_next(const ops::Signature& s, ops::FactorId f, const NodeLayout& node,
                  const Digits& digits, std::size_t i);

// What the degree of a factor must divide: its size, and where it is read in windows those of the
// dimensions that it cuts.
std::int64_t divisible_size(const ops::Signature& s, ops::FactorId f);

Layout input_layout(const ops::Signature& s, const NodeLayout& node, std::size_t digits,
                    std::size_t input);
Layout output_layout(const ops::Signature& s, const NodeLayout& node, std::size_t digits);

// The node layout that operands laid out like this mean, if they agree digit by digit.
std::optional<NodeLayout> infer_node_layout(const ops::Signature& s, std::span<const Layout> inputs,
                                            const Digits& digits);

// The part of every factor that a slot works on. (Of an operator that computes there.)
std::vector<term::FactorRange> ranges_of(const ops::Signature& s, const NodeLayout& node,
                                         const Digits& digits, std::int64_t slot);

}  // namespace tandem::machine
