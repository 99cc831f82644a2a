#include "machine/reshard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

namespace tandem::machine {
namespace {

Layout layout(std::string_view text) {
  const auto parsed = parse_layout(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(Layout{});
}

std::string format_steps(const std::vector<ReshardStep>& steps) {
  std::string out;
  for (const auto& step : steps) {
    out += fmt::format("{}{} {}>{}", out.empty() ? "" : ", ", name(step.kind), to_text(step.before),
                       to_text(step.after));
  }
  return out;
}

TEST(Reshard, NamesTheCollective) {
  struct Case {
    std::string_view from, to, steps;
  };
  const Case cases[] = {
      {"p", "r", "all_reduce p>r"},
      {"p", "0", "reduce_scatter p>0"},
      {"p", ".", "reduce p>."},
      {"0", "r", "all_gather 0>r"},
      {"0", "1", "all_to_all 0>1"},
      {"0", ".", "gather 0>."},
      {"r", "0", "slice r>0"},
      {"r", ".", "drop r>."},
      {".", "r", "broadcast .>r"},
      {".", "0", "scatter .>0"},
      {"r", "p", "mask r>p"},
      {"0", "p", "pad 0>p"},
      {".", "p", "zero .>p"},
      {".", "A", "send .>A"},
      {"A", "r", "broadcast A>r"},
      {"p", "B", "reduce p>B"},
      // The tensor stays at its place, or is sent when least must be sent.
      {"Ap", "Ar", "all_reduce Ap>Ar"},
      {"Ap.", ".rA", "all_reduce Ap.>Ar., send Ar.>.rA"},
      {"A0", "Br", "send A0>B0, all_gather B0>Br"},
      {".r", "A0", "slice .r>.0, send .0>A0"},
      {"0", "0", ""},
      // Digits that take the same step share one collective.
      {"pp", "rr", "all_reduce pp>rr"},
      {"pp", "00", "reduce_scatter pp>00"},
      {"000", "rrr", "all_gather 000>rrr"},
      {"00000", "11111", "all_to_all 00000>11111"},
      {"r00", "r11", "all_to_all r00>r11"},
      // Digits that take different steps do not share one.
      {"pp", "r0", "reduce_scatter pp>p0, all_reduce p0>r0"},
      {"0r", "rr", "all_gather 0r>rr"},
      {"00", "0r", "all_gather 00>0r"},
      // If a major digit joins or leaves, the minor one is gathered and partitioned again.
      {"r0", "00", "all_gather r0>rr, slice rr>00"},
      {"00", "r0", "all_gather 00>rr, slice rr>r0"},
      {"p0", "00", "all_gather p0>pr, reduce_scatter pr>0r, slice 0r>00"},
      // Two dimensions change places.
      {"01", "10", "all_gather 01>0r, all_to_all 0r>1r, slice 1r>10"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(format_steps(reshard(layout(c.from), layout(c.to))), c.steps)
        << c.from << " -> " << c.to;
  }
}

// Returns the expected step by the roles before and after; every dimension is 'd'.
const std::map<std::string, Step>& get_expected_kinds() {
  static const std::map<std::string, Step> kKinds = {
      {"rd", Step::kSlice},         {"r.", Step::kDrop},      {"rp", Step::kMask},
      {"dp", Step::kPad},           {".p", Step::kZero},      {"pr", Step::kAllReduce},
      {"pd", Step::kReduceScatter}, {"dr", Step::kAllGather}, {"dd", Step::kAllToAll},
      {"p.", Step::kReduce},        {"d.", Step::kGather},    {".r", Step::kBroadcast},
      {".d", Step::kScatter},       {"..", Step::kSend},
  };
  return kKinds;
}

// Returns whether `group` holds the last of the digits that run along `role`.
bool is_minor_end(const Layout& in, DigitRole role, DigitMask group) {
  const auto others = in.digits(role) & ~group;
  return others == 0 || std::bit_width(others) <= static_cast<unsigned>(std::countr_zero(group));
}

void expect_legal(const ReshardStep& step) {
  std::set<char> before;
  std::set<char> after;
  for (std::size_t i = 0; i < step.before.count(); ++i) {
    if (((step.digits >> i) & 1U) == 0) {
      EXPECT_EQ(step.before[i], step.after[i])
          << "digit " << i << " is not in the group and changes";
      continue;
    }
    EXPECT_NE(step.before[i], step.after[i]);
    before.insert(step.before[i].is_idle() ? '.' : step.before[i].text());
    after.insert(step.after[i].is_idle() ? '.' : step.after[i].text());
  }
  ASSERT_EQ(before.size(), 1U);
  ASSERT_EQ(after.size(), 1U);
  const DigitRole from = DigitRole::parse(*before.begin()).value();
  const DigitRole to = DigitRole::parse(*after.begin()).value();
  const auto pair =
      fmt::format("{}{}", from.is_dim() ? 'd' : from.text(), to.is_dim() ? 'd' : to.text());
  EXPECT_EQ(step.kind, get_expected_kinds().at(pair));
  if (from.is_dim()) {
    EXPECT_EQ(step.from_dim, from.dim());
    EXPECT_TRUE(is_minor_end(step.before, from, step.digits));
  }
  if (to.is_dim()) {
    EXPECT_EQ(step.to_dim, to.dim());
    EXPECT_TRUE(is_minor_end(step.after, to, step.digits));
  }
}

std::vector<Layout> all_layouts(std::size_t digits) {
  std::vector<Layout> out = {Layout(digits, DigitRole::kIdle)};
  for (std::size_t i = 0; i < digits; ++i) {
    std::vector<Layout> longer;
    for (const auto& known : out) {
      for (char role : {'.', 'A', 'r', 'p', '0', '1'}) {
        if (role == 'A' && digits > 3) continue;  // limits the number of cases
        longer.push_back(known);
        longer.back().set(i, DigitRole::parse(role).value());
      }
    }
    out = std::move(longer);
  }
  return out;
}

// Layouts ignore the digits' sizes, so machines with the digits {2}, {2,2} = {2,3}, {2,2,2} =
// {2,2,3} are these digit counts; one larger count is added.
TEST(Reshard, ConnectsEveryPairOfLayoutsByLegalSteps) {
  std::size_t pairs = 0;
  std::size_t longest = 0;
  for (std::size_t digits = 1; digits <= 4; ++digits) {
    const auto layouts = all_layouts(digits);
    for (const auto& from : layouts) {
      for (const auto& to : layouts) {
        ++pairs;
        const auto steps = reshard(from, to);
        SCOPED_TRACE(fmt::format("{} -> {}: {}", to_text(from), to_text(to), format_steps(steps)));
        EXPECT_EQ(steps.empty(), from == to);
        EXPECT_LE(steps.size(), 2 * digits + 1);
        longest = std::max(longest, steps.size());
        Layout now = from;
        for (const auto& step : steps) {
          EXPECT_EQ(step.before, now);
          expect_legal(step);
          now = step.after;
        }
        EXPECT_EQ(now, to);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_EQ(pairs, 36U + 1296U + 46656U + 390625U);
  EXPECT_GE(longest, 3U);
}

// No step makes a partial sum or an idle digit that neither end has: nothing is computed twice or
// moved to one device on the way.
TEST(Reshard, PassesOnlyThroughReplicas) {
  for (const auto& from : all_layouts(3)) {
    for (const auto& to : all_layouts(3)) {
      for (const auto& step : reshard(from, to)) {
        for (std::size_t i = 0; i < 3; ++i) {
          EXPECT_TRUE(step.after[i] == from[i] || step.after[i] == to[i] ||
                      step.after[i] == DigitRole::kReplica)
              << to_text(from) << " -> " << to_text(to) << ": " << to_text(step.after);
        }
      }
    }
  }
}

Machine machine(const std::vector<std::int64_t>& counts) {
  Machine out;
  for (auto count : counts) {
    Level level;
    level.count = count;
    out.levels.push_back(level);
  }
  return out;
}

TEST(Layout, HasTextAndDual) {
  for (const auto* text : {"", "r", "01rp.", "000rr", ".AZr"})
    EXPECT_EQ(to_text(layout(text)), text);
  for (const auto* text : {"8", "x", "0 1", "["})
    EXPECT_FALSE(parse_layout(text).has_value()) << text;
  EXPECT_FALSE(parse_layout(std::string(22, 'r')).has_value());
  EXPECT_EQ(to_text(to_gradient_layout(layout("01rp."))), "01pr.");
  EXPECT_EQ(to_gradient_layout(to_gradient_layout(layout("01rp."))), layout("01rp."));
}

TEST(Layout, HasTypeAndRanges) {
  const Digits digits(machine({2, 3}));
  struct Case {
    std::string_view layout, shape;
  };
  for (const auto& c : {Case{"rr", "[12, 6]*6"}, Case{"0r", "[12/2, 6]*3"}, Case{"00", "[12/6, 6]"},
                        Case{"1p", "[12, 6/2]+3"}, Case{"..", "[12, 6]"}, Case{"2r", "none"}}) {
    const auto shape = compute_parallel_shape(layout(c.layout), {12, 6}, digits);
    EXPECT_EQ(shape ? to_text(*shape) : "none", c.shape) << c.layout;
  }
  EXPECT_FALSE(
      compute_parallel_shape(layout("r0"), {4, 6}, digits).has_value());  // 3 does not divide 4
  // Device 5 has the digits (1, 2); the outermost digit is the major one.
  EXPECT_EQ(compute_range(layout("00"), digits, 5, 0, 12).offset, 10);
  EXPECT_EQ(compute_range(layout("r0"), digits, 5, 0, 12).offset, 8);
  EXPECT_EQ(compute_range(layout("0r"), digits, 5, 0, 12).offset, 6);
  EXPECT_EQ(compute_range(layout("0r"), digits, 5, 0, 12).size, 6);
  EXPECT_EQ(compute_range(layout("0r"), digits, 5, 1, 6).size, 6);
  EXPECT_TRUE(holds_shard(layout("rp"), digits, 5));
  EXPECT_FALSE(holds_shard(layout("r."), digits, 5));
  EXPECT_TRUE(holds_shard(layout("r."), digits, 3));
  EXPECT_TRUE(holds_shard(layout("AB"), digits, 5));
  EXPECT_FALSE(holds_shard(layout("AB"), digits, 4));
  EXPECT_FALSE(
      compute_parallel_shape(layout("Br"), {12, 6}, digits).has_value());  // no third place
}

}  // namespace
}  // namespace tandem::machine
