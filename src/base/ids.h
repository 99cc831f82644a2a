// Typed indices: a NodeId cannot be passed where a TensorId is wanted.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace tandem {

template <class Tag>
struct Id {
  std::uint32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}
  constexpr explicit Id(int v) : value(static_cast<std::uint32_t>(v)) {}

  constexpr auto operator<=>(const Id&) const = default;
  [[nodiscard]] constexpr std::size_t index() const { return value; }
};

// The ids 0 ... count - 1 in order, for range-for; it stores only the count.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::size_t index) : id_(index) {}
    constexpr Id operator*() const { return id_; }
    constexpr Iterator& operator++() {
      ++id_.value;
      return *this;
    }
    constexpr Iterator operator++(int) {
      const auto before = *this;
      ++*this;
      return before;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    Id id_;
  };

  constexpr explicit IdRange(std::size_t count) : count_(count) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(0); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(count_); }
  [[nodiscard]] constexpr std::size_t size() const { return count_; }

 private:
  std::size_t count_;
};

}  // namespace tandem
