#include "machine/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"

namespace tandem::machine {
namespace {

using Sizes = std::vector<std::int64_t>;

Machine make_machine(const Sizes& counts) {
  Machine m;
  m.name = "toy";
  for (const auto count : counts) {
    auto& level = m.levels.emplace_back();
    level.name = std::string(1, static_cast<char>('a' + m.levels.size() - 1));
    level.count = count;
  }
  return m;
}

std::vector<std::string> texts(const Machine& machine, const Sizes& grid) {
  std::vector<std::string> out;
  for (const auto& m : list_mappings(machine, grid)) {
    out.push_back((m.name.empty() ? "" : m.name + " = ") + to_text(m, machine));
  }
  return out;
}

std::string get_error(const Machine& machine, const Sizes& grid, const std::string& name) {
  try {
    find_mapping(machine, grid, name);
  } catch (const UserError& e) {
    EXPECT_EQ(e.kind, "machine");
    return e.what();
  }
  return "no error";
}

// Mappings of Unity, figure 7: data parallel over all; model in the node and data across nodes;
// model in the socket, reduction across sockets, data across nodes.
TEST(Mapping, EnumeratesOneToThreeDimensionsOnSummit) {
  const auto summit = load_machine("summit:8");
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(summit, {48}), (Texts{"node:dim0, socket:dim0, gpu:dim0"}));
  EXPECT_EQ(texts(summit, {8, 6}), (Texts{"node:dim0, socket:dim1, gpu:dim1",
                                          "node/4:dim0, node/2:dim1, socket:dim0, gpu:dim1"}));
  EXPECT_EQ(texts(summit, {8, 2, 3}), (Texts{"node:dim0, socket:dim1, gpu:dim2",
                                             "node/4:dim0, node/2:dim1, socket:dim0, gpu:dim2"}));
  // The machine has too few digits for the first grid and too few devices for the second.
  EXPECT_EQ(texts(summit, {5}), Texts{});
  EXPECT_EQ(texts(summit, {96}), Texts{});
}

TEST(Mapping, LeavesDigitsIdleForASmallGrid) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(load_machine("summit:1"), {2}), (Texts{"socket:dim0, gpu:idle"}));
  EXPECT_EQ(texts(load_machine("summit:2"), {2}),
            (Texts{"node:dim0, socket:idle, gpu:idle", "node:idle, socket:dim0, gpu:idle"}));
  EXPECT_EQ(texts(load_machine("summit:2"), {1}), (Texts{"node:idle, socket:idle, gpu:idle"}));
}

TEST(Mapping, FindsTheDeviceOfATask) {
  const auto summit = load_machine("summit:8");
  const Digits digits(summit);
  const auto contiguous = list_mappings(summit, Sizes{8, 2, 3})[0];
  EXPECT_EQ(find_device(contiguous, digits, Sizes{7, 1, 2}), 47);
  EXPECT_EQ(find_device(contiguous, digits, Sizes{2, 1, 0}), 15);
  // Dimension 0 runs along two node digits and the socket; its last digit is the socket's.
  const auto strided = list_mappings(summit, Sizes{8, 2, 3})[1];
  EXPECT_EQ(find_device(strided, digits, Sizes{1, 0, 0}), 3);
  EXPECT_EQ(find_device(strided, digits, Sizes{2, 0, 0}), 12);
  EXPECT_EQ(find_device(strided, digits, Sizes{0, 1, 0}), 6);
}

TEST(Mapping, ConvertsToANodeLayout) {
  const auto summit = load_machine("summit:2");
  const auto mapping = find_mapping(summit, Sizes{2, 3}, "node:dim0, gpu:dim1");
  const std::array uses = {DigitUse::factor(4), DigitUse::kReplica};
  const auto layout = to_node_layout(mapping, uses);
  EXPECT_EQ(layout.uses[0], DigitUse::factor(4));
  EXPECT_EQ(layout.uses[1], DigitUse::kIdle);
  EXPECT_EQ(layout.uses[2], DigitUse::kReplica);
}

// Every assignment of digits that makes the grid equals one listed mapping, up to exchanges of
// equal digits of one level. No two listed mappings are equal in that sense.
TEST(Mapping, EqualsBruteForce) {
  const std::vector<Sizes> machines = {{8}, {2, 4}, {12}, {4, 6}, {2, 2, 3}, {6, 6}, {9, 2}, {16}};
  const std::vector<Sizes> grids = {{2},    {4},    {6},    {12},      {2, 2},    {2, 3},
                                    {4, 3}, {3, 4}, {6, 2}, {2, 2, 2}, {2, 2, 3}, {3, 2, 6}};
  for (const auto& counts : machines) {
    const auto machine = make_machine(counts);
    const Digits digits(machine);
    // Among equal digits, only the number with each use counts.
    const auto shape = [&](const auto& dims) {
      std::map<std::array<std::int64_t, 3>, int> uses;
      for (std::size_t i = 0; i < digits.count(); ++i) {
        ++uses[{static_cast<std::int64_t>(digits[i].level), digits[i].size, dims[i]}];
      }
      return uses;
    };
    for (const auto& grid : grids) {
      std::set<std::map<std::array<std::int64_t, 3>, int>> listed;
      for (const auto& m : list_mappings(machine, grid)) {
        EXPECT_TRUE(listed.insert(shape(m.dims)).second) << to_text(m, machine);
      }
      std::size_t assignments = 1;
      for (std::size_t i = 0; i < digits.count(); ++i) assignments *= grid.size() + 1;
      std::size_t fitting = 0;
      for (std::size_t code = 0; code < assignments; ++code) {
        std::array<int, Digits::kMax> dims{};
        Sizes degrees(grid.size() + 1, 1);  // the last one is idle
        auto rest = code;
        for (std::size_t i = 0; i < digits.count(); ++i, rest /= grid.size() + 1) {
          const auto use = rest % (grid.size() + 1);
          degrees[use] *= digits[i].size;
          dims[i] = use == grid.size() ? Mapping::kIdle : static_cast<int>(use);
        }
        degrees.pop_back();
        if (degrees != grid) continue;
        ++fitting;
        EXPECT_TRUE(listed.contains(shape(dims))) << code;
      }
      EXPECT_EQ(listed.empty(), fitting == 0);
    }
  }
}

// Digits of a ring's level are not equivalent: 2 units may be adjacent or opposite.
TEST(Mapping, DistinguishesAllDigitsOfARing) {
  auto machine = make_machine({4});
  EXPECT_EQ(list_mappings(machine, Sizes{2, 2}).size(), 1U);
  machine.levels[0].network = make_torus(Sizes{4}, Seconds{1e-6}, false);
  EXPECT_EQ(texts(machine, {2, 2}),
            (std::vector<std::string>{"a/2:dim0, a/2:dim1", "a/2:dim1, a/2:dim0"}));
}

// Returns the number of mappings of all grids with `dimensions` dimensions, each larger than 1.
std::size_t count_all(const Machine& machine, std::size_t dimensions) {
  std::set<Sizes> grids;
  const Digits digits(machine);
  std::size_t assignments = 1;
  for (std::size_t i = 0; i < digits.count(); ++i) assignments *= dimensions + 1;
  for (std::size_t code = 0; code < assignments; ++code) {
    Sizes grid(dimensions + 1, 1);
    auto rest = code;
    for (std::size_t i = 0; i < digits.count(); ++i, rest /= dimensions + 1) {
      grid[rest % (dimensions + 1)] *= digits[i].size;
    }
    grid.pop_back();
    if (std::ranges::find(grid, 1) == grid.end()) grids.insert(grid);
  }
  std::size_t count = 0;
  for (const auto& grid : grids) count += list_mappings(machine, grid).size();
  return count;
}

// Assigning tasks to devices one by one would be exponential. The mappings of all grids together
// are at most a few for each device.
TEST(Mapping, GrowsNoFasterThanTheDevices) {
  std::printf("nodes devices   1-D   2-D   3-D grids\n");
  for (std::int64_t nodes = 1; nodes <= 64; ++nodes) {
    const auto machine = load_machine("summit:" + std::to_string(nodes));
    const auto devices = static_cast<std::size_t>(machine.devices());
    const std::array counts = {count_all(machine, 1), count_all(machine, 2), count_all(machine, 3)};
    EXPECT_LE(counts[0], 2 * devices);
    EXPECT_LE(counts[1], 3 * devices);
    EXPECT_LE(counts[2], 8 * devices);
    if ((nodes & (nodes - 1)) == 0 || nodes == 48) {
      std::printf("%5d %7zu %5zu %5zu %5zu\n", static_cast<int>(nodes), devices, counts[0],
                  counts[1], counts[2]);
    }
  }
}

TEST(Mapping, RoundTripsText) {
  for (const Sizes& grid : {Sizes{8, 6}, Sizes{2, 3}, Sizes{4}, Sizes{2, 2, 3}}) {
    const auto machine = load_machine("summit:8");
    for (const auto& m : list_mappings(machine, grid)) {
      EXPECT_EQ(find_mapping(machine, grid, to_text(m, machine)).dims, m.dims);
    }
  }
}

const std::string kNamed = R"(machine toy
device thing
  memory 16 GB
  bandwidth 900 GB/s
  peak fp32 15 TFLOP/s
level node ?
  bandwidth 25 GB/s
  latency 2 us
level gpu 4
  bandwidth 100 GB/s
  latency 1 us
mapping wide = node:dim0, gpu:dim1
mapping crossed = node/2:dim1, node:dim0, gpu/2:dim0, gpu:dim1
)";

TEST(NamedMapping, ExtendsTheEnumeration) {
  const auto machine = parse_machine(kNamed, "toy.machine", 4);
  // The listed order would be node/2:dim0, node/2:dim1; the file's order replaces it.
  EXPECT_EQ(texts(machine, {4, 4}),
            (std::vector<std::string>{"wide = node:dim0, gpu:dim1",
                                      "crossed = node/2:dim1, node/2:dim0, gpu/2:dim0, gpu/2:dim1",
                                      "node:dim1, gpu:dim0"}));
  EXPECT_EQ(find_mapping(machine, Sizes{4, 4}, "wide").name, "wide");
  EXPECT_EQ(get_error(machine, {4, 4}, "wyde"),
            "mapping wyde: toy:4 has no mapping of this name (did you mean 'wide'?)");
  EXPECT_EQ(get_error(make_machine({2}), {2}, "wide"),
            "mapping wide: toy has no mapping of this name (write the mapping out, like "
            "'node:dim0, gpu:dim1')");
  EXPECT_EQ(get_error(machine, {16, 4}, "wide"),
            "mapping wide: makes a grid of 4x4 on toy:4, not 16x4");
  EXPECT_EQ(get_error(machine, {4}, "noed:dim0"),
            "mapping noed:dim0: 'noed:dim0': unknown level 'noed' (did you mean 'node'?)");
}

TEST(NamedMapping, ReportsLineCauseAndRemedy) {
  struct Case {
    std::string_view line, error;
  };
  const Case cases[] = {
      {"m = node/8:dim0",
       "toy.machine:14: 'node/8:dim0': cannot take 8 of the 4 nodes that are left (node has the "
       "count 4; the taken units must divide it)"},
      {"m = gpu/2:dim0, gpu/4:dim1",
       "toy.machine:14: 'gpu/4:dim1': cannot take 4 of the 2 gpus that are left (gpu has the count "
       "4; the taken units must divide it)"},
      {"m = socket:dim0",
       "toy.machine:14: 'socket:dim0': unknown level 'socket' (expected one of: node, gpu)"},
      {"m = node",
       "toy.machine:14: 'node': expected a level and a dimension "
       "(write it like 'node:dim0, gpu/2:dim1, gpu:idle')"},
      {"m = node:dim9",
       "toy.machine:14: 'node:dim9': expected a level and a dimension "
       "(write it like 'node:dim0, gpu/2:dim1, gpu:idle')"},
      {"m =",
       "toy.machine:14: mapping 'm' has no parts "
       "(write it like 'node:dim0, socket:dim1, gpu:dim1')"},
      {"m node:dim0",
       "toy.machine:14: mapping m node:dim0: expected a name, '=' and parts "
       "(write it like 'mapping wide = node:dim0, gpu:dim1')"},
      {"wide = node:dim0", "toy.machine:14: mapping 'wide' is given twice"},
  };
  for (const auto& c : cases) {
    try {
      parse_machine(kNamed + "mapping " + std::string(c.line) + "\n", "toy.machine", 4);
      ADD_FAILURE() << c.line;
    } catch (const UserError& e) {
      EXPECT_EQ(std::string(e.what()), c.error);
    }
  }
}

}  // namespace
}  // namespace tandem::machine
