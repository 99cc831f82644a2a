#include "base/text.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Strings = std::vector<std::string>;

Strings strings(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

TEST(Text, Trim) {
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim(" \t\r\n"), "");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim("  a b\r\n"), "a b");
}

TEST(Text, SplitTrimsItsPieces) {
  struct Case {
    std::string_view text;
    char separator;
    Strings pieces;
  };
  const Case cases[] = {
      {"", ',', {}},
      {"  ", ',', {}},
      {"a", ',', {"a"}},
      {"a, b,c", ',', {"a", "b", "c"}},
      {",", ',', {"", ""}},
      {"a,", ',', {"a", ""}},
      {" x y + z ", '+', {"x y", "z"}},
  };
  for (const auto& c : cases) EXPECT_EQ(strings(split(c.text, c.separator)), c.pieces) << c.text;
}

TEST(Text, SplitsWordsAtBlanks) {
  EXPECT_EQ(strings(split_words("")), Strings{});
  EXPECT_EQ(strings(split_words(" \t ")), Strings{});
  EXPECT_EQ(strings(split_words("  a b ")), (Strings{"a", "b"}));
  EXPECT_EQ(strings(split_words("ab\tc\r\nd")), (Strings{"ab", "c", "d"}));
}

TEST(Text, Join) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "b"}, ", "), "a, , b");
}

TEST(Text, ParsesAnIntOnlyFromTheWholeText) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_int("9223372036854775807"), INT64_MAX);
  for (const auto* bad : {"", " 1", "1 ", "12x", "1e3", "0x10", "+1", "-", "9223372036854775808"}) {
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
  }
}

TEST(Text, ParsesOnlyFiniteDoubles) {
  EXPECT_EQ(parse_double("0.125"), 0.125);
  EXPECT_EQ(parse_double("-1e-05"), -1e-5);
  EXPECT_EQ(parse_double("3"), 3);
  for (const auto* bad : {"", "1.5x", " 1", "inf", "nan", "1e999"}) {
    EXPECT_EQ(parse_double(bad), std::nullopt) << bad;
  }
}

TEST(Text, FindsNoNearestIfNothingIsNear) {
  const Strings names = {"concat", "linear", "matmul", "relu"};
  EXPECT_EQ(find_nearest("linaer", names), "linear");
  EXPECT_EQ(find_nearest("mat_mul", names), "matmul");
  EXPECT_EQ(find_nearest("relu", names), "relu");
  EXPECT_EQ(find_nearest("gelu", names), "relu");
  EXPECT_EQ(find_nearest("convolution", names), "");
  EXPECT_EQ(find_nearest("x", {}), "");
}

TEST(Text, FormatsThreeDigitsWithAnSiPrefix) {
  struct Case {
    double value;
    std::string_view text;
  };
  const Case cases[] = {
      {0, "0"},     {1, "1"},           {999, "999"},     {999.4, "999"}, {999.6, "1k"},
      {1000, "1k"}, {1234567, "1.23M"}, {-2500, "-2.5k"}, {0.5, "0.5"},   {1.5e9, "1.5G"},
      {2e12, "2T"}, {3e15, "3P"},       {999999, "1M"},
  };
  for (const auto& c : cases) EXPECT_EQ(format_si(c.value), c.text) << c.value;
}

TEST(Text, Seconds) {
  struct Case {
    double seconds;
    std::string_view text;
  };
  const Case cases[] = {
      {0, "0 s"},         {4.56e-5, "45.6 us"},   {1e-6, "1 us"},
      {9.996e-4, "1 ms"}, {1.2345e-3, "1.23 ms"}, {0.5, "500 ms"},
      {0.9997, "1 s"},    {12.34, "12.3 s"},
  };
  for (const auto& c : cases) EXPECT_EQ(format_seconds(c.seconds), c.text) << c.seconds;
}

TEST(Text, FormatsBytesInDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1024), "1.02 kB");
  EXPECT_EQ(format_bytes(12.3e9), "12.3 GB");
  EXPECT_EQ(format_bytes(80e9), "80 GB");
  EXPECT_EQ(format_flops(2.147e9), "2.15 GFLOP");
}

}  // namespace
}  // namespace tandem
