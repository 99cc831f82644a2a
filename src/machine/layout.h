// Layouts: what every machine digit does to a tensor. This is a parallel shape and its mapping in
// one: the digits that partition a dimension give its degree, and say which devices hold which
// part.
//
// Text, a character a digit: a dimension's number, 'r' replica, 'p' partial sum, '.' idle (only the
// devices whose digit is 0 hold the tensor), 'A', 'B', ... idle too, but those whose digit is 1, 2,
// ... hold it. "000rr" on summit:8: the first dimension over the 8 nodes, a copy for each of the 6
// GPUs inside; ".AAr." is in node 3 only.
// Several digits of one dimension count in machine order, the outermost being the major one.
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
  // Only the devices whose digit is `place` hold the tensor.
  static constexpr DigitRole idle(std::int64_t place) {
    return DigitRole(static_cast<std::int8_t>(kFirstIdle - place));
  }
  // Places that have a letter, and 0.
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

  // The digits with this role.
  [[nodiscard]] DigitMask digits(DigitRole role) const;
  // Those that are idle, at whatever place.
  [[nodiscard]] DigitMask idle() const;
  [[nodiscard]] Hash hash() const;

 private:
  std::array<DigitRole, Digits::kMax> roles_{};
  std::uint8_t count_ = 0;
};

std::string to_text(const Layout& layout);
std::optional<Layout> parse_layout(std::string_view text);

// Replica and partial exchanged: the layout of the gradient.
Layout dual(const Layout& layout);

// The type a tensor of these sizes has under the layout; nothing when a degree does not divide.
std::optional<ParallelShape> parallel_shape(const Layout& layout, const Shape& sizes,
                                            const Digits& digits);

// The index range of `dim` that a slot holds: [offset, offset + size).
struct Range {
  std::int64_t offset = 0;
  std::int64_t size = 0;
};
Range range_of(const Layout& layout, const Digits& digits, std::int64_t slot, std::size_t dim,
               std::int64_t extent);

// The rank of the layout's place among the digits of `mask`; those that are not idle count as 0.
std::int64_t rank_of_place(const Layout& layout, DigitMask mask, const Digits& digits);

// Does the slot hold a shard at all? False where an idle digit is not at its place.
bool holds(const Layout& layout, const Digits& digits, std::int64_t slot);

}  // namespace tandem::machine
