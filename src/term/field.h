// Number types that evaluators compute with: double, and the prime field of 2^61 - 1 elements.
//
// Addition and multiplication are exact in the field. Two computations of the same value therefore
// agree to the last bit, whatever the order of summation. Scalar functions have no meaning in the
// field: exp, sqrt and the like are independent random functions, and so are their derivatives.
// relu and max use a fixed random total order of the field, so max(a, max(b, c)) = max(max(a, b),
// c) still holds.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "base/hash.h"
#include "term/term.h"

namespace tandem::term {

class Field {
 public:
  static constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61U) - 1;

  constexpr Field() = default;
  constexpr explicit Field(std::uint64_t v) : value_(reduce((v & kPrime) + (v >> 61U))) {}

  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }
  constexpr bool operator==(const Field&) const = default;

  friend constexpr Field operator+(Field a, Field b) { return Field(a.value_ + b.value_); }
  // 2^61 equals 1 in the field, so the upper half of a product is added to the lower half.
  friend constexpr Field operator*(Field a, Field b) {
    const auto product = static_cast<unsigned __int128>(a.value_) * b.value_;
    return Field((static_cast<std::uint64_t>(product) & kPrime) +
                 static_cast<std::uint64_t>(product >> 61U));
  }
  constexpr Field& operator+=(Field b) { return *this = *this + b; }

  // Returns a^(p-2), which is the inverse of a. The inverse of 0 is 0.
  [[nodiscard]] constexpr Field inverse() const {
    Field result(1);
    Field base = *this;
    for (std::uint64_t e = kPrime - 2; e != 0; e >>= 1U) {
      if ((e & 1U) != 0) result = result * base;
      base = base * base;
    }
    return result;
  }

 private:
  // Reduces `v`, which is at most twice the prime.
  static constexpr std::uint64_t reduce(std::uint64_t v) { return v >= kPrime ? v - kPrime : v; }

  std::uint64_t value_ = 0;
};

// The operations that evaluators need of a number type; specialised for double and Field.
template <class T>
struct Numbers;

template <>
struct Numbers<double> {
  static double from(double v) { return v; }
  static double from_index(std::int64_t i) { return static_cast<double>(i); }
  static double divide(double a, double b) { return a / b; }
  static bool greater(double a, double b) { return a > b; }
  static double lowest() { return -std::numeric_limits<double>::infinity(); }
  static double apply(Function f, double x) {
    switch (f) {
      case Function::kRelu:
        return x > 0 ? x : 0;
      case Function::kExp:
        return std::exp(x);
      case Function::kLog:
        return std::log(x);
      case Function::kSqrt:
        return std::sqrt(x);
      case Function::kTanh:
        return std::tanh(x);
      case Function::kSigmoid:
        return 1 / (1 + std::exp(-x));
      case Function::kErf:
        return std::erf(x);
      case Function::kSin:
        return std::sin(x);
      case Function::kCos:
        return std::cos(x);
      case Function::kAbs:
        return std::abs(x);
    }
    return 0;
  }
  static double derivative(Function f, double x) {
    const double y = apply(f, x);
    switch (f) {
      case Function::kRelu:
        return x > 0 ? 1 : 0;
      case Function::kExp:
        return y;
      case Function::kLog:
        return 1 / x;
      case Function::kSqrt:
        return 0.5 / y;
      case Function::kTanh:
        return 1 - y * y;
      case Function::kSigmoid:
        return y * (1 - y);
      case Function::kErf:
        return std::numbers::inv_sqrtpi * 2 * std::exp(-x * x);
      case Function::kSin:
        return std::cos(x);
      case Function::kCos:
        return -std::sin(x);
      case Function::kAbs:
        return x > 0 ? 1 : (x < 0 ? -1 : 0);
    }
    return 0;
  }
};

template <>
struct Numbers<Field> {
  // Maps an integer to itself, and any other constant to an unknown of its own.
  static Field from(double v) {
    if (v == std::floor(v) && std::abs(v) < 1e15) return from_index(static_cast<std::int64_t>(v));
    return Field(mix(std::bit_cast<std::uint64_t>(v)));
  }
  static Field from_index(std::int64_t i) {
    return i >= 0 ? Field(static_cast<std::uint64_t>(i))
                  : Field(Field::kPrime - (0 - static_cast<std::uint64_t>(i)) % Field::kPrime);
  }
  static Field divide(Field a, Field b) { return a * get_inverse(b); }
  // Returns the element that is below all others: the maximum of an empty set.
  static Field lowest() { return Field(Field::kPrime / 2); }
  static bool greater(Field a, Field b) { return rank(a) > rank(b); }
  static Field apply(Function f, Field x) {
    if (f == Function::kRelu) return greater(x, Field(0)) ? x : Field(0);
    return apply_opaque(1, f, x);
  }
  static Field derivative(Function f, Field x) {
    if (f == Function::kRelu) return greater(x, Field(0)) ? Field(1) : Field(0);
    if (f == Function::kExp) return apply(f, x);
    return apply_opaque(2, f, x);
  }

 private:
  // Returns the rank of `x` in the total order. Small integers of either sign are in their own
  // order in the middle. All other elements have random ranks.
  static Hash rank(Field x) {
    constexpr std::uint64_t kSmall = std::uint64_t{1} << 40U;
    constexpr Hash kMiddle = Hash{1} << 63U;
    if (x == lowest()) return 0;
    if (x.value() < kSmall) return kMiddle + x.value();
    if (Field::kPrime - x.value() < kSmall) return kMiddle - (Field::kPrime - x.value());
    return mix(x.value());
  }
  // Returns the inverse of `x` from a small cache. An inverse takes 120 multiplications, and most
  // divisors recur: the size of a mean's range, the root of a variance. Zeroed entries are correct,
  // since the inverse of 0 is 0.
  static Field get_inverse(Field x) {
    constexpr unsigned kBits = 6;
    struct CachedInverse {
      Field element;
      Field inverse;
    };
    thread_local std::array<CachedInverse, 1U << kBits> table = {};
    auto& known = table[x.value() * 0x9e3779b97f4a7c15ULL >> (64 - kBits)];
    if (known.element != x) known = {x, x.inverse()};
    return known.inverse;
  }
  static Field apply_opaque(Hash salt, Function f, Field x) {
    return Field(hash_combine(hash_combine(salt, static_cast<Hash>(f)), x.value()));
  }
};

}  // namespace tandem::term
