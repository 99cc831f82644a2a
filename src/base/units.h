// Units as types: Seconds, Bytes, Flops and their rates. Quantities of one unit can be added,
// scaled and compared; an amount divided by a rate is a time. Nothing else compiles.
#pragma once

#include <compare>

namespace tandem {

template <class Unit>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value + b.value};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value - b.value};
  }
  friend constexpr Quantity operator*(Quantity a, double s) { return Quantity{a.value * s}; }
  friend constexpr Quantity operator*(double s, Quantity a) { return Quantity{a.value * s}; }
  friend constexpr Quantity operator/(Quantity a, double s) { return Quantity{a.value / s}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Seconds = Quantity<struct SecondsUnit>;
using Bytes = Quantity<struct BytesUnit>;
using Flops = Quantity<struct FlopsUnit>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds{amount.value / rate.value};
}
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) {
  return Seconds{amount.value / rate.value};
}

}  // namespace tandem
