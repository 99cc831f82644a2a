#include "machine/topology.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace tandem::machine {
namespace {

constexpr Seconds kHop{1e-6};

using Sizes = std::vector<std::int64_t>;

double load(const Network& network, Pattern pattern, const Sizes& digits, std::uint32_t mask) {
  return network.compute_cost(pattern, digits, mask).load;
}

// Returns the load with all units in one group.
double load(const Network& network, Pattern pattern, std::int64_t units) {
  return load(network, pattern, {units}, 1);
}

TEST(UnitGroups, EqualGroupsComputedByHand) {
  EXPECT_EQ(make_unit_groups(Sizes{2, 3}, 0b01), (UnitGroups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(make_unit_groups(Sizes{2, 3}, 0b10), (UnitGroups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(make_unit_groups(Sizes{2, 2, 2}, 0b101), (UnitGroups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(make_unit_groups(Sizes{}, 0), (UnitGroups{{0}}));
}

TEST(Ring, HasTheClosedFormLoadOfAllToAll) {
  // If each unit sends one byte to each other, every link carries n^2/8 bytes, or (n^2-1)/8 for odd
  // n.
  for (const std::int64_t n : {3, 4, 5, 8, 16, 63, 64}) {
    const auto ring = make_torus(Sizes{n}, kHop, false);
    const auto squared = static_cast<double>(n * n - n % 2);
    EXPECT_NEAR(load(*ring, Pattern::kAllToAll, n), squared / 8 / static_cast<double>(n - 1), 1e-9)
        << n;
  }
}

TEST(Ring, UsesBothDirectionsForRingCollectives) {
  const auto ring = make_torus(Sizes{8}, kHop, false);
  EXPECT_DOUBLE_EQ(load(*ring, Pattern::kRing, 8), 0.5);
  EXPECT_DOUBLE_EQ(load(*make_torus(Sizes{8}, kHop, true), Pattern::kRing, 8), 1);
  EXPECT_DOUBLE_EQ(load(*ring, Pattern::kChain, 8), 1);
  EXPECT_EQ(ring->compute_cost(Pattern::kRing, Sizes{8}, 1).latency, kHop);
  // Two units have one link.
  EXPECT_DOUBLE_EQ(load(*make_torus(Sizes{2}, kHop, false), Pattern::kRing, 2), 1);
}

TEST(Ring, SharesLinksBetweenGroups) {
  const auto ring = make_torus(Sizes{8}, kHop, false);
  const Sizes digits = {2, 2, 2};
  // Neighbouring pairs have links of their own.
  EXPECT_DOUBLE_EQ(load(*ring, Pattern::kRing, digits, 0b100), 1);
  // Pairs 4 apart send half of the bytes each way around: all units at once use 4 of 8 links.
  EXPECT_DOUBLE_EQ(load(*ring, Pattern::kAllToAll, digits, 0b001), 2);
  EXPECT_EQ(ring->compute_cost(Pattern::kChain, digits, 0b001).latency, 4 * kHop);
  // Two interleaved rings of 4 with steps of 2 links have twice the load of one ring of 8.
  EXPECT_DOUBLE_EQ(load(*ring, Pattern::kRing, digits, 0b011), 1);
}

TEST(Torus, HasTheClosedFormLoadOfAllToAll) {
  // A byte from each to each crosses a/4 links of each ring of a on average, and each of the n
  // units has 2 directed links in that dimension: n a/8 on each; the longest dimension decides.
  const Sizes cases[] = {{4, 4}, {4, 8}, {4, 4, 4}, {8, 4, 6}};
  for (const auto& extents : cases) {
    double units = 1;
    double longest = 0;
    for (const auto a : extents) {
      units *= static_cast<double>(a);
      longest = std::max(longest, static_cast<double>(a));
    }
    EXPECT_NEAR(load(*make_torus(extents, kHop, false), Pattern::kAllToAll,
                     static_cast<std::int64_t>(units)),
                units * longest / 8 / (units - 1), 1e-9)
        << testing::PrintToString(extents);
  }
}

TEST(Torus, TreatsRowsAndColumnsAsRings) {
  const auto network = make_torus(Sizes{4, 4}, kHop, false);
  const Sizes digits = {2, 2, 2, 2};
  const double ring_of_4 = 16.0 / 8 / 3;
  EXPECT_DOUBLE_EQ(load(*network, Pattern::kAllToAll, digits, 0b0011), ring_of_4);
  EXPECT_DOUBLE_EQ(load(*network, Pattern::kAllToAll, digits, 0b1100), ring_of_4);
  EXPECT_DOUBLE_EQ(load(*network, Pattern::kRing, digits, 0b1100), 0.5);
  EXPECT_DOUBLE_EQ(network->compute_cost(Pattern::kAllToAll, digits, 0b1111).latency.value,
                   (2 * 16.0 / 15 * kHop).value);
}

TEST(FatTree, ModelsTwoToOneOversubscription) {
  const auto tree = make_fat_tree(16, 4, 2, kHop, false);
  const Sizes digits = {2, 2, 2, 2};
  // A leaf is a switch.
  for (const auto pattern : {Pattern::kRing, Pattern::kAllToAll, Pattern::kChain}) {
    EXPECT_DOUBLE_EQ(load(*tree, pattern, digits, 0b1100), 1);
    EXPECT_EQ(tree->compute_cost(pattern, digits, 0b1100).latency, kHop);
  }
  // In an all-to-all, 12 of 15 parts leave the leaf, over half the bandwidth.
  EXPECT_DOUBLE_EQ(load(*tree, Pattern::kAllToAll, digits, 0b1111), 2 * 12.0 / 15);
  // A ring in order leaves a leaf once in each direction, by halves.
  EXPECT_DOUBLE_EQ(load(*tree, Pattern::kRing, digits, 0b1111), 1);
  // Groups with one unit in each leaf send everything through the core.
  EXPECT_DOUBLE_EQ(load(*tree, Pattern::kRing, digits, 0b0011), 2);
  EXPECT_EQ(tree->compute_cost(Pattern::kRing, digits, 0b0011).latency, 2 * kHop);
  EXPECT_DOUBLE_EQ(load(*tree, Pattern::kAllToAll, digits, 0b0011), 2);
  EXPECT_FALSE(tree->is_symmetric());
}

TEST(FatTree, EqualsASwitchWithOneLeaf) {
  for (std::uint32_t mask = 1; mask < 16; ++mask) {
    for (const auto pattern :
         {Pattern::kRing, Pattern::kAllToAll, Pattern::kChain, Pattern::kFromRoot}) {
      const Sizes digits = {2, 2, 2, 3};
      EXPECT_NEAR(load(*make_fat_tree(24, 24, 1, kHop, false), pattern, digits, mask), 1, 1e-12);
      // With half duplex, a unit that sends and receives needs twice the time; a root only sends.
      const bool both = pattern != Pattern::kFromRoot &&
                        !(pattern == Pattern::kChain && std::popcount(mask) == 1 && mask != 8);
      EXPECT_NEAR(load(*make_fat_tree(24, 24, 1, kHop, true), pattern, digits, mask), both ? 2 : 1,
                  1e-12);
    }
  }
  EXPECT_TRUE(make_fat_tree(24, 24, 1, kHop, true)->is_symmetric());
}

// Counting per leaf and following every link agree.
TEST(FatTree, EqualsItsExplicitLinks) {
  constexpr std::int32_t kUnits = 24;
  constexpr std::int32_t kLeaf = 5;  // the last leaf is not full
  for (const bool half : {false, true}) {
    std::vector<Network::Link> links;
    for (std::int32_t unit = 0; unit < kUnits; ++unit) {
      links.push_back({unit, kUnits + unit / kLeaf, 1, 0.5 * kHop, half});
    }
    for (std::int32_t leaf = 0; leaf < 5; ++leaf) {
      links.push_back({kUnits + leaf, kUnits + 5, kLeaf / 3.0, 0.5 * kHop, half});
    }
    const auto written = make_linked_network(kUnits, 6, links, {});
    const auto counted = make_fat_tree(kUnits, kLeaf, 3, kHop, half);
    const Sizes digits = {2, 2, 2, 3};
    for (std::uint32_t mask = 1; mask < 16; ++mask) {
      for (const auto pattern :
           {Pattern::kRing, Pattern::kAllToAll, Pattern::kChain, Pattern::kFromRoot}) {
        const auto a = written->compute_cost(pattern, digits, mask);
        const auto b = counted->compute_cost(pattern, digits, mask);
        EXPECT_NEAR(a.load, b.load, 1e-9) << mask;
        EXPECT_NEAR(a.latency.value, b.latency.value, 1e-15) << mask;
      }
    }
  }
}

// Returns two islands of 4 units on a switch each, joined by a link of a tenth: units 0-3 and 4-7.
std::vector<Network::Link> islands() {
  std::vector<Network::Link> links;
  for (std::int32_t unit = 0; unit < 8; ++unit) links.push_back({unit, 8 + unit / 4, 1, kHop});
  links.push_back({8, 9, 0.1, 5 * kHop});
  return links;
}

TEST(Linked, IsBoundByTheThinLinkBetweenTwoIslands) {
  const auto network = make_linked_network(8, 2, islands(), {});
  const Sizes digits = {2, 2, 2};
  EXPECT_DOUBLE_EQ(load(*network, Pattern::kAllToAll, digits, 0b110), 1);
  // 4 units send 4/7 of their bytes across.
  EXPECT_NEAR(load(*network, Pattern::kAllToAll, digits, 0b111), 4 * 4.0 / 7 / 0.1, 1e-9);
  // There are 4 pairs across.
  EXPECT_NEAR(load(*network, Pattern::kChain, digits, 0b001), 4 / 0.1, 1e-9);
  EXPECT_NEAR(network->compute_cost(Pattern::kChain, digits, 0b001).latency.value, 7e-6, 1e-15);
  // A ring crosses twice in each direction, by halves.
  EXPECT_NEAR(load(*network, Pattern::kRing, digits, 0b111), 1 / 0.1, 1e-9);
}

TEST(Linked, PacksRingsOnRequest) {
  // If all of n units are joined with all, there are (n-1)/2 rings over different links.
  for (const std::int32_t n : {3, 4, 5, 6, 7, 8}) {
    std::vector<Network::Link> links;
    for (std::int32_t a = 0; a < n; ++a) {
      for (std::int32_t b = a + 1; b < n; ++b) links.push_back({a, b, 1, kHop});
    }
    const double rings = std::floor((n - 1) / 2.0);
    EXPECT_DOUBLE_EQ(load(*make_linked_network(n, 0, links, {}), Pattern::kRing, n), 0.5) << n;
    EXPECT_DOUBLE_EQ(load(*make_linked_network(n, 0, links, {}, true), Pattern::kRing, n),
                     0.5 / rings)
        << n;
    EXPECT_DOUBLE_EQ(load(*make_linked_network(n, 0, links, {}, true), Pattern::kChain, n), 1) << n;
  }
  // A square with a unit attached to one corner has no ring; half-duplex links are not packed.
  std::vector<Network::Link> links = {
      {0, 1, 2, kHop}, {1, 2, 2, kHop}, {2, 3, 2, kHop}, {3, 0, 2, kHop}, {3, 4, 1, kHop}};
  EXPECT_DOUBLE_EQ(load(*make_linked_network(5, 0, links, {}, true), Pattern::kRing, 5),
                   load(*make_linked_network(5, 0, links, {}), Pattern::kRing, 5));
  links.pop_back();
  EXPECT_DOUBLE_EQ(load(*make_linked_network(4, 0, links, {}, true), Pattern::kRing, 4), 0.25);
  EXPECT_NE(make_linked_network(4, 0, links, {}, true)->hash(),
            make_linked_network(4, 0, links, {})->hash());
  for (auto& link : links) link.half_duplex = true;
  EXPECT_DOUBLE_EQ(load(*make_linked_network(4, 0, links, {}, true), Pattern::kRing, 4), 0.5);
}

TEST(Linked, RetainsTheLinksBetweenUsedUnits) {
  const std::vector<Network::Link> square = {
      {0, 1, 1, kHop}, {1, 2, 3, kHop}, {2, 3, 1, kHop}, {3, 0, 1, kHop}};
  const auto network = make_linked_network(4, 0, square, {});
  const std::vector<std::int32_t> pair = {1, 2};
  EXPECT_EQ(network->make_subnetwork(pair)->hash(),
            make_linked_network(2, 0, {{0, 1, 3, kHop}}, {})->hash());
  EXPECT_EQ(network->make_subnetwork(std::vector<std::int32_t>{0, 2}), nullptr);
  EXPECT_EQ(make_linked_network(8, 2, islands(), {})->make_subnetwork(pair), nullptr);
  EXPECT_EQ(make_linked_network(4, 0, square, {{0, 1, 2}})->make_subnetwork(pair), nullptr);
}

TEST(Linked, TakesAGivenRoute) {
  // The links form a square; by default 0 to 2 goes half over 1 and half over 3.
  const std::vector<Network::Link> square = {
      {0, 1, 1, kHop}, {1, 2, 1, kHop}, {2, 3, 1, 2 * kHop}, {3, 0, 1, 2 * kHop}};
  const Sizes digits = {2, 2};
  const auto latency = [&](const std::vector<Network::Route>& routes) {
    return make_linked_network(4, 0, square, routes)
        ->compute_cost(Pattern::kChain, digits, 0b01)
        .latency.value;
  };
  const auto most = [&](const std::vector<Network::Route>& routes) {
    return load(*make_linked_network(4, 0, square, routes), Pattern::kChain, digits, 0b01);
  };
  // The pairs 0-2 and 1-3 send at once.
  EXPECT_DOUBLE_EQ(most({}), 1);
  EXPECT_DOUBLE_EQ(most({{0, 1, 2}, {1, 2, 3}}), 2);
  EXPECT_DOUBLE_EQ(most({{0, 1, 2}, {1, 0, 3}}), 1);
  EXPECT_NEAR(latency({}), 4e-6, 1e-15);
  EXPECT_NEAR(latency({{0, 1, 2}, {1, 2, 3}}), 3e-6, 1e-15);
}

TEST(Linked, FindsUnreachableUnits) {
  auto links = islands();
  EXPECT_EQ(find_unreached_unit(8, 2, links), std::nullopt);
  links.pop_back();
  EXPECT_EQ(find_unreached_unit(8, 2, links), 4);
}

TEST(Network, HashesEveryNumber) {
  std::vector<Hash> hashes;
  hashes.push_back(make_torus(Sizes{4, 4}, kHop, false)->hash());
  hashes.push_back(make_torus(Sizes{4, 4}, 2 * kHop, false)->hash());
  hashes.push_back(make_torus(Sizes{4, 4}, kHop, true)->hash());
  hashes.push_back(make_torus(Sizes{2, 8}, kHop, false)->hash());
  hashes.push_back(make_fat_tree(16, 4, 2, kHop, false)->hash());
  hashes.push_back(make_fat_tree(16, 4, 1, kHop, false)->hash());
  hashes.push_back(make_fat_tree(16, 8, 2, kHop, false)->hash());
  hashes.push_back(make_linked_network(8, 2, islands(), {})->hash());
  hashes.push_back(make_linked_network(8, 2, islands(), {{0, 8, 9, 4}})->hash());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(hashes[i], hashes[j]) << i << ' ' << j;
  }
}

}  // namespace
}  // namespace tandem::machine
