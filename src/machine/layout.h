// Layouts: what every machine digit does to a tensor. This is a parallel shape and its mapping in
// one: the digits that partition a dimension give its degree, and say which devices hold which
// part.
//
// Text, a character a digit: a dimension's number, 'r' replica, 'p' partial sum, '.' idle (only the
// devices whose digit is 0 hold the tensor). "000rr" on summit:8: the first dimension over the 8
// nodes, a copy for each of the 6 GPUs inside.
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

  [[nodiscard]] constexpr bool is_dim() const { return code_ >= 0; }
  [[nodiscard]] constexpr std::size_t dim() const { return static_cast<std::size_t>(code_); }
  [[nodiscard]] char text() const;
  static std::optional<DigitRole> parse(char c);
  constexpr auto operator<=>(const DigitRole&) const = default;

  static const DigitRole kIdle, kReplica, kPartial;

 private:
  constexpr explicit DigitRole(std::int8_t code) : code_(code) {}
  std::int8_t code_ = -1;
};
inline constexpr DigitRole DigitRole::kIdle = DigitRole(-1);
inline constexpr DigitRole DigitRole::kReplica = DigitRole(-2);
inline constexpr DigitRole DigitRole::kPartial = DigitRole(-3);

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

// The index range of `dim` that `device` holds: [offset, offset + size).
struct Range {
  std::int64_t offset = 0;
  std::int64_t size = 0;
};
Range range_of(const Layout& layout, const Digits& digits, std::int64_t device, std::size_t dim,
               std::int64_t extent);

// Does `device` hold a shard at all? False where an idle digit is not 0.
bool holds(const Layout& layout, const Digits& digits, std::int64_t device);

}  // namespace tandem::machine
