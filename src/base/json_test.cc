#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error_test_support.h"

namespace tandem {
namespace {

template <class Json>
std::string get_json_error(const std::string& text, int deepest = 100) {
  return get_error([&] { (void)read_json<Json>(text, "file", "f.json", deepest); });
}

// Returns the error for both orders of keys.
std::string get_json_error(const std::string& text) {
  const auto out = get_json_error<nlohmann::json>(text);
  EXPECT_EQ(get_json_error<nlohmann::ordered_json>(text), out) << text;
  return out;
}

TEST(Json, ReadsBothKindsOfObjects) {
  const std::string text = R"({"a": [1, {"b": 2, "c": {"b": 3}}], "b": null})";
  EXPECT_EQ(read_json<nlohmann::json>(text, "file", "f.json"), nlohmann::json::parse(text));
  EXPECT_EQ(read_json<nlohmann::ordered_json>("3", "file", "f.json"), 3);
}

TEST(Json, NamesAKeyGivenTwice) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a": 1, "b": 2, "a": 1})", "a"},
      {R"({"a": {"b": 1, "c": [], "b": {}}})", "a.b"},
      {R"({"a": [{"b": 1}, {"b": 1, "b": 1}]})", "a[1].b"},
      {R"({"a": [0, [], {}, "x", {"b": {"c": 1, "c": 1}}]})", "a[4].b.c"},
      {R"([{"a": 1}, {"a": 1, "a": 1}])", "[1].a"},
      {R"({"a": {"b": 1}, "a": {"b": 1}})", "a"},
      {R"({"a": [{"b": 1}, {"b": 1}], "\u0061": 2})", "a"},
      {R"({"": 1, "": 2})", ""},
      {R"({"\n\u001b[31m": 1, "\n\u001b[31m": 2})", R"(\n\u001b[31m)"}};
  for (const auto& [text, key] : cases) {
    EXPECT_EQ(get_json_error(text),
              "f.json: '" + std::string(key) + "' is given twice (remove one of the two)");
  }
  // One key may occur in sibling objects and in nested objects.
  EXPECT_EQ(get_json_error(R"([{"a": 1}, {"a": {"a": [{"a": 2}]}}])"), "no error");
}

TEST(Json, ReportsThePositionOfASyntaxError) {
  EXPECT_EQ(get_json_error(""), "f.json: is not JSON (line 1, column 1)");
  EXPECT_EQ(get_json_error("{\n \"rule\": [}]\n}"), "f.json: is not JSON (line 2, column 11)");
  EXPECT_EQ(get_json_error("[1e999]"), "f.json: is not JSON (a number is too large)");
  EXPECT_EQ(get_json_error("\xff"), "f.json: is not JSON (line 1, column 1)");
}

TEST(Json, LimitsDepth) {
  EXPECT_EQ(get_json_error<nlohmann::json>("[[[1]]]", 3), "no error");
  EXPECT_EQ(get_json_error<nlohmann::json>("[[[1]]]", 2), "f.json: is nested too deeply");
  EXPECT_EQ(get_json_error(std::string(100'000, '[')), "f.json: is nested too deeply");
  EXPECT_EQ(get_json_error(std::string(100'000, '[') + std::string(100'000, ']')),
            "f.json: is nested too deeply");
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += R"({"a":)";
  EXPECT_EQ(get_json_error(objects), "f.json: is nested too deeply");
}

TEST(Json, AbbreviatesValues) {
  EXPECT_EQ(describe_json(nlohmann::json(2.5)), "2.5");
  EXPECT_EQ(describe_json(nlohmann::json("x\n")), R"("x\n")");
  EXPECT_EQ(describe_json(nlohmann::json::array({1})), "a list");
  EXPECT_EQ(describe_json(nlohmann::ordered_json::object()), "an object");
  EXPECT_EQ(describe_json(nlohmann::json(std::string(100, 'x'))),
            "\"" + std::string(36, 'x') + "...");
  EXPECT_EQ(escape_json_key("a\tb"), R"(a\tb)");
}

}  // namespace
}  // namespace tandem
