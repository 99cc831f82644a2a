#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace tandem::runtime {
namespace {

std::size_t most_at_once(const std::vector<Lifetime>& tensors) {
  std::size_t most = 0;
  for (const auto& t : tensors) {
    std::size_t sum = 0;
    for (const auto& o : tensors) sum += o.begin <= t.begin && t.begin < o.end ? o.bytes : 0;
    most = std::max(most, sum);
  }
  return most;
}

// Returns lifetimes as in a forward and a backward pass: activations last until their gradient has
// come back.
std::vector<Lifetime> layers(std::size_t count, std::mt19937& random) {
  std::vector<Lifetime> out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = std::size_t{4096} * (1 + random() % 64);
    const auto back = 2 * count - i;
    out.push_back({bytes, i, back + 1});
    out.push_back({bytes, back, back + 2});
    out.push_back({std::size_t{4096} * (1 + random() % 256), i, i + 1});
  }
  return out;
}

TEST(Arena, PlacesTensorsApartWithFewHoles) {
  std::mt19937 random(5);
  for (int n = 0; n < 20; ++n) {
    const auto tensors = layers(40, random);
    const auto places = place_tensors(tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_LE(places.at[i] + tensors[i].bytes, places.length);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together =
            tensors[i].begin < tensors[j].end && tensors[j].begin < tensors[i].end;
        const bool apart = places.at[i] + tensors[i].bytes <= places.at[j] ||
                           places.at[j] + tensors[j].bytes <= places.at[i];
        EXPECT_TRUE(!together || apart);
      }
    }
    EXPECT_LE(static_cast<double>(places.length), 1.1 * static_cast<double>(most_at_once(tensors)));
  }
}

// Equal steps, then one that differs: two tensors never share memory.
TEST(Arena, PreservesContents) {
  Arena arena;
  std::mt19937 random(7);
  void* outlives = arena.allocate(100'000);  // Before all steps
  std::memset(outlives, 1, 100'000);
  for (int step = 0; step < 6; ++step) {
    arena.begin_step();
    struct Tensor {
      unsigned char* memory;
      std::size_t bytes;
      unsigned char value;
    };
    std::vector<Tensor> there;
    const auto drop = [&](std::size_t i) {
      const auto& t = there[i];
      const auto is_unchanged = [&](unsigned char c) { return c == t.value; };
      EXPECT_TRUE(std::all_of(t.memory, t.memory + t.bytes, is_unchanged));
      std::size_t bytes = 0;
      EXPECT_TRUE(arena.free(t.memory, bytes));
      EXPECT_EQ(bytes, Arena::round_up(t.bytes));
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(i));
    };
    std::mt19937 random_sizes(step == 4 ? 99 : 1);
    for (int i = 0; i < 200; ++i) {
      if (there.size() > 10) drop(random_sizes() % there.size());
      const auto bytes = 65'536 + random_sizes() % 300'000;
      auto* memory = static_cast<unsigned char*>(arena.allocate(bytes));
      const bool must_fit = step < 4;
      EXPECT_TRUE(memory != nullptr || !must_fit);
      if (memory == nullptr) continue;
      const auto value = static_cast<unsigned char>(random());
      std::memset(memory, value, bytes);
      there.push_back({memory, bytes, value});
    }
    while (there.size() > 0) drop(there.size() - 1);
  }
  std::size_t bytes = 0;
  int other = 0;
  EXPECT_FALSE(arena.free(&other, bytes));
  EXPECT_TRUE(arena.free(outlives, bytes));
}

}  // namespace
}  // namespace tandem::runtime
