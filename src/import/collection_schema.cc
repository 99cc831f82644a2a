#include "import/collection_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace tandem::import {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxOperators = 256;  // limit for one side
constexpr int kRuleDepth = 2;  // depth of a rule in the document: in the document and in its list
constexpr int kMaxDocumentDepth = 8;  // limit for a document; the format needs seven

constexpr std::array<std::string_view, 2> kDimensions = {"plain", "replicas first"};

Dimensions read_dimensions(const OrderedJson& value, const std::string& source) {
  const auto* known = std::ranges::find_if(
      kDimensions, [&](std::string_view one) { return value.is_string() && value == one; });
  if (known == kDimensions.end()) {
    throw UserError("rules", source,
                    fmt::format("'dimensions' is {}, but must be 'plain' or 'replicas first'",
                                describe_json(value)));
  }
  return static_cast<Dimensions>(known - kDimensions.begin());
}

// Reads one rule from JSON.
class RuleReader {
 public:
  RuleReader(const OrderedJson& json, std::string where) : json_(json), where_(std::move(where)) {}

  CollectionRule run() {
    CollectionRule out;
    if (!json_.is_object()) fail(fmt::format("is {}, but must be an object", describe_json(json_)));
    if (const auto name = json_.find("name"); name != json_.end()) {
      if (!name->is_string())
        fail(fmt::format("'name' is {}, but must be a string", describe_json(*name)));
      out.name = name->get<std::string>();
      constexpr std::size_t kShown = 60;
      where_ += fmt::format(" ('{}')", out.name.substr(0, kShown));
    }
    out.source = operators("srcOp");
    out.target = operators("dstOp");
    const auto& outputs = get_list(json_, "mappedOutput", "");
    if (outputs.empty()) fail("'mappedOutput' is empty", "a rule must replace at least one tensor");
    for (const auto& output : outputs) {
      out.outputs.push_back({read_tensor(output, "srcOpId", "srcTsId", out.source, "srcOp"),
                             read_tensor(output, "dstOpId", "dstTsId", out.target, "dstOp")});
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    throw UserError("rules", where_, message, hint);
  }

  [[nodiscard]] const OrderedJson& get_list(const OrderedJson& json, const char* key,
                                            const std::string& owner) const {
    if (!json.is_object())
      fail(fmt::format("{}is {}, but must be an object", owner, describe_json(json)));
    const auto at = json.find(key);
    if (at == json.end()) fail(fmt::format("{}'{}' is missing", owner, key));
    if (!at->is_array()) {
      fail(fmt::format("{}'{}' is {}, but must be a list", owner, key, describe_json(*at)));
    }
    return *at;
  }

  [[nodiscard]] std::int64_t get_integer(const OrderedJson& json, const char* key,
                                         const std::string& owner) const {
    if (!json.is_object())
      fail(fmt::format("{}is {}, but must be an object", owner, describe_json(json)));
    const auto at = json.find(key);
    if (at == json.end()) fail(fmt::format("{}'{}' is missing", owner, key));
    const bool fits =
        at->is_number_integer() &&
        !(at->is_number_unsigned() && at->get<std::uint64_t>() > std::uint64_t{1} << 31U);
    const auto value = fits ? at->get<std::int64_t>() : 0;
    if (!fits || value < std::numeric_limits<std::int32_t>::min() ||
        value > std::numeric_limits<std::int32_t>::max()) {
      fail(fmt::format("{}'{}' is {}, but must be a 32-bit integer", owner, key,
                       describe_json(*at)));
    }
    return value;
  }

  [[nodiscard]] std::string get_text(const OrderedJson& json, const char* key,
                                     const std::string& owner) const {
    if (!json.is_object())
      fail(fmt::format("{}is {}, but must be an object", owner, describe_json(json)));
    const auto at = json.find(key);
    if (at == json.end()) fail(fmt::format("{}'{}' is missing", owner, key));
    if (!at->is_string()) {
      fail(fmt::format("{}'{}' is {}, but must be a string", owner, key, describe_json(*at)));
    }
    return at->get<std::string>();
  }

  [[nodiscard]] CollectionTensor read_tensor(const OrderedJson& json, const char* op,
                                             const char* output,
                                             const std::vector<CollectionOperator>& side,
                                             const char* name) const {
    const auto owner = fmt::format("mappedOutput: ");
    const CollectionTensor out{get_integer(json, op, owner), get_integer(json, output, owner)};
    check_tensor(out, side, owner, name);
    return out;
  }

  void check_tensor(const CollectionTensor& t, const std::vector<CollectionOperator>& side,
                    const std::string& owner, const char* name) const {
    const auto size = static_cast<std::int64_t>(side.size());
    if (t.op >= size) {
      fail(fmt::format("{}there is no operator {} in '{}'", owner, t.op, name),
           fmt::format("it has {}, counted from 0; negative numbers are inputs of the rule", size));
    }
    if (t.output < 0) fail(fmt::format("{}'tsId' is {}, but must be at least 0", owner, t.output));
    if (t.op < 0) return;
    const auto& op = side[static_cast<std::size_t>(t.op)];
    const auto parts = op.parameters.find("PM_NUM_OUTPUTS");
    const auto outputs = parts == op.parameters.end() ? 1 : parts->second;
    if (t.output >= outputs) {
      fail(fmt::format("{}operator {} ({}) has no output {}", owner, t.op, op.type, t.output));
    }
  }

  [[nodiscard]] std::vector<CollectionOperator> operators(const char* key) const {
    const auto& json = get_list(json_, key, "");
    if (json.size() > kMaxOperators) {
      fail(fmt::format("'{}' has {} operators, more than {}", key, json.size(), kMaxOperators));
    }
    std::vector<CollectionOperator> out;
    out.reserve(json.size());
    for (const auto& op : json) out.push_back(read_operator(op, format_owner(key, out.size())));
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (const auto& input : out[i].inputs) check_tensor(input, out, format_owner(key, i), key);
    }
    check_order(out, key);
    return out;
  }

  static std::string format_owner(const char* key, std::size_t index) {
    return fmt::format("{} {}: ", key, index);
  }

  [[nodiscard]] CollectionOperator read_operator(const OrderedJson& json,
                                                 const std::string& owner) const {
    CollectionOperator out{.type = get_text(json, "type", owner)};
    const auto& inputs = get_list(json, "input", owner);
    if (inputs.size() > kMaxOperators) {
      fail(fmt::format("{}has {} inputs, more than {}", owner, inputs.size(), kMaxOperators));
    }
    for (const auto& input : inputs) {
      out.inputs.push_back({get_integer(input, "opId", owner), get_integer(input, "tsId", owner)});
    }
    for (const auto& parameter : get_list(json, "para", owner)) {
      const auto key = get_text(parameter, "key", owner);
      if (!out.parameters.emplace(key, get_integer(parameter, "value", owner)).second) {
        fail(fmt::format("{}'{}' is given twice", owner, key));
      }
    }
    return out;
  }

  // Throws UserError if an operator needs its own result.
  void check_order(const std::vector<CollectionOperator>& side, const char* key) const {
    std::vector<bool> ready(side.size());
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < side.size(); ++i) {
        if (ready[i]) continue;
        ready[i] = std::ranges::all_of(side[i].inputs, [&](const CollectionTensor& t) {
          return t.op < 0 || ready[static_cast<std::size_t>(t.op)];
        });
        grown = grown || ready[i];
      }
    }
    const auto stuck = std::ranges::find(ready, false);
    if (stuck == ready.end()) return;
    const auto i = static_cast<std::size_t>(stuck - ready.begin());
    fail(fmt::format("{}({}) is part of a cycle", format_owner(key, i), side[i].type));
  }

  const OrderedJson& json_;
  std::string where_;
};

// Returns `text` in quotation marks, with special characters escaped.
std::string quote(const std::string& text) {
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain) return '"' + text + '"';
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

template <class Items, class Write>
void write_list(std::string& out, const Items& items, Write write) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) out += ',';
    write(item);
  }
  out += ']';
}

// Appends the operators of `side` as text. Building a tree of JSON values for each rule
// would take longer than the rest of the export.
void write_side(std::string& out, const std::vector<CollectionOperator>& side) {
  const auto end = std::back_inserter(out);
  write_list(out, side, [&](const CollectionOperator& op) {
    fmt::format_to(end, R"({{"_t":"Operator","type":{},"input":)", quote(op.type));
    write_list(out, op.inputs, [&](const CollectionTensor& t) {
      fmt::format_to(end, R"({{"_t":"Tensor","opId":{},"tsId":{}}})", t.op, t.output);
    });
    out += R"(,"para":)";
    write_list(out, op.parameters, [&](const auto& parameter) {
      fmt::format_to(end, R"({{"_t":"Parameter","key":{},"value":{}}})", quote(parameter.first),
                     parameter.second);
    });
    out += '}';
  });
}

}  // namespace

std::string_view name(Dimensions dimensions) {
  return kDimensions[static_cast<std::size_t>(dimensions)];
}

void for_each_collection_rule(std::string_view text, const std::string& source,
                              const CollectionVisit& visit) {
  bool in_list = false;
  bool in_dimensions = false;
  bool found = false;
  std::optional<Dimensions> dimensions;
  int deepest = 0;
  std::size_t count = 0;
  RepeatedKey<OrderedJson> repeated;
  // Each rule is read and discarded as soon as its text ends.
  const auto step = [&](int depth, OrderedJson::parse_event_t event, OrderedJson& value) {
    deepest = std::max(deepest, depth);
    if (depth >= kMaxDocumentDepth) return false;
    repeated.observe(depth, event, value);
    repeated.check("rules", source);
    using Event = OrderedJson::parse_event_t;
    if (event == Event::key && depth == 1) {
      in_list = value == "rule";
      in_dimensions = value == "dimensions";
      found = found || in_list;
    }
    const bool ends =
        event == Event::object_end || event == Event::array_end || event == Event::value;
    if (in_dimensions && ends && depth == 1) {
      if (count != 0) {
        throw UserError("rules", source, "'dimensions' is given after the rules",
                        "move it before the rules");
      }
      dimensions = read_dimensions(value, source);
    }
    if (!in_list || !ends || depth != kRuleDepth) return true;
    RuleReader reader(value, fmt::format("{}: rule {}", source, ++count));
    visit(reader.run(), dimensions);
    return false;
  };
  OrderedJson json;
  try {
    json = OrderedJson::parse(text, step);
  } catch (const nlohmann::json::exception& error) {
    if (deepest < kMaxDocumentDepth) {
      throw UserError("rules", source,
                      count == 0 ? "is not JSON" : fmt::format("is not JSON after rule {}", count),
                      locate_json_error(text, error));
    }
  }
  if (deepest >= kMaxDocumentDepth) throw UserError("rules", source, "is nested too deeply");
  if (!json.is_object() || !found || !json["rule"].is_array()) {
    throw UserError("rules", source, "has no list 'rule'",
                    R"({"rule": [{"name", "srcOp", "dstOp", "mappedOutput"}]})");
  }
}

std::string to_json(const CollectionRule& rule) {
  std::string out = fmt::format(R"({{"_t":"Rule","name":{},"srcOp":)", quote(rule.name));
  write_side(out, rule.source);
  out += R"(,"dstOp":)";
  write_side(out, rule.target);
  out += R"(,"mappedOutput":)";
  write_list(out, rule.outputs, [&](const auto& output) {
    fmt::format_to(std::back_inserter(out),
                   R"({{"_t":"MapOutput","srcOpId":{},"srcTsId":{},"dstOpId":{},"dstTsId":{}}})",
                   output.source.op, output.source.output, output.target.op, output.target.output);
  });
  return out + "}";
}

}  // namespace tandem::import
