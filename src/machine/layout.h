// Layouts: what every machine digit does to a tensor. A layout combines a parallel shape and its
// mapping. The digits that partition a dimension give its degree, and say which devices hold which
// shard.
//
// A layout's text has one character per digit:
//   '0', '1', ...   the digit partitions that dimension of the tensor
//   'r'             the tensor is replicated over the digit
//   'p'             the devices hold partial sums
//   '.'             idle: only the devices whose digit is 0 hold the tensor
//   'A', 'B', ...   idle: only the devices whose digit is 1, 2, ... hold the tensor
// Examples on summit:8: "000rr" cuts the first dimension over the 8 nodes and replicates it on the
// 6 GPUs of each; ".AAr." is in node 3 only. If several digits partition one dimension, the
// outermost digit is the most significant one.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "machine/digits.h"
#include "tensor/parallel_shape.h"

namespace tandem::machine {

class DigitRole {
 public:
  constexpr DigitRole() = default;
  static constexpr DigitRole dim(std::size_t d) { return DigitRole(static_cast<std::int8_t>(d)); }
  // Returns the idle role in which only the devices whose digit is `place` hold the tensor.
  static constexpr DigitRole idle(std::int64_t place) {
    return DigitRole(static_cast<std::int8_t>(kFirstIdle - place));
  }
  // Number of places that have a character: '.' for 0, then 26 letters.
  static constexpr std::int64_t kPlaces = 27;

  [[nodiscard]] constexpr bool is_dim() const { return code_ >= 0; }
  [[nodiscard]] constexpr std::size_t dim() const { return static_cast<std::size_t>(code_); }
  [[nodiscard]] constexpr bool is_idle() const { return code_ <= kFirstIdle; }
  [[nodiscard]] constexpr std::int64_t place() const { return kFirstIdle - code_; }
  [[nodiscard]] char text() const;
  static std::optional<DigitRole> parse(char c);
  constexpr auto operator<=>(const DigitRole&) const = default;

  static const DigitRole kIdle, kReplica, kPartial;

 private:
  static constexpr std::int8_t kFirstIdle = -3;
  constexpr explicit DigitRole(std::int8_t code) : code_(code) {}
  std::int8_t code_ = kFirstIdle;
};
inline constexpr DigitRole DigitRole::kReplica = DigitRole(-1);
inline constexpr DigitRole DigitRole::kPartial = DigitRole(-2);
inline constexpr DigitRole DigitRole::kIdle = DigitRole::idle(0);

class Layout {
 public:
  Layout() = default;
  Layout(std::size_t digits, DigitRole role) : count_(static_cast<std::uint8_t>(digits)) {
    roles_.fill(DigitRole::kIdle);
    std::fill_n(roles_.begin(), digits, role);
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] DigitRole operator[](std::size_t i) const { return roles_[i]; }
  void set(std::size_t i, DigitRole role) { roles_[i] = role; }
  auto operator<=>(const Layout&) const = default;

  // Returns the digits with this role.
  [[nodiscard]] DigitMask digits(DigitRole role) const;
  // Returns the idle digits, whatever their place.
  [[nodiscard]] DigitMask idle() const;
  [[nodiscard]] Hash hash() const;

 private:
  std::array<DigitRole, Digits::kMax> roles_{};
  std::uint8_t count_ = 0;
};

std::string to_text(const Layout& layout);
std::optional<Layout> parse_layout(std::string_view text);

// Returns the layout of the gradient: replica and partial exchanged.
Layout to_gradient_layout(const Layout& layout);

// Returns the parallel type of a tensor of these sizes, or nullopt if a degree does not divide its
// size.
std::optional<ParallelShape> compute_parallel_shape(const Layout& layout, const Shape& sizes,
                                                    const Digits& digits);

// The index range of `dim` that a slot holds: [offset, offset + size).
struct IndexRange {
  std::int64_t offset = 0;
  std::int64_t size = 0;
};
IndexRange compute_range(const Layout& layout, const Digits& digits, std::int64_t slot,
                         std::size_t dim, std::int64_t extent);

// Returns the rank of the layout's place among the digits of `mask`; digits that are not idle count
// as 0.
std::int64_t compute_place_rank(const Layout& layout, DigitMask mask, const Digits& digits);

// Returns whether the slot holds a shard: its idle digits must be at their places.
bool holds_shard(const Layout& layout, const Digits& digits, std::int64_t slot);

}  // namespace tandem::machine
