// Short notation for rule collections in tests, with a list for every operator:
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tandem::import {

using TestJson = nlohmann::ordered_json;

// An operator and the index of one of its outputs.
struct TestTensor {
  int op;
  int output = 0;
  TestTensor(int of) : op(of) {}  // NOLINT: written as a number
  TestTensor(int of, int which) : op(of), output(which) {}
};

inline TestJson op(const std::string& type, const std::vector<TestTensor>& inputs,
                   const std::map<std::string, int>& parameters = {}) {
  TestJson out = {{"_t", "Operator"}, {"type", type}};
  out["input"] = TestJson::array();
  for (const auto& t : inputs) {
    out["input"].push_back({{"_t", "Tensor"}, {"opId", t.op}, {"tsId", t.output}});
  }
  out["para"] = TestJson::array();
  for (const auto& [key, value] : parameters) {
    out["para"].push_back({{"_t", "Parameter"}, {"key", key}, {"value", value}});
  }
  return out;
}

using TestOutputs = std::vector<std::pair<TestTensor, TestTensor>>;

// Returns a rule. If `outputs` is empty, the last operator of each side is its output.
inline TestJson rule(const std::string& name, const std::vector<TestJson>& source,
                     const std::vector<TestJson>& target, TestOutputs outputs = {}) {
  if (outputs.empty()) {
    outputs = {{static_cast<int>(source.size()) - 1, static_cast<int>(target.size()) - 1}};
  }
  TestJson mapped = TestJson::array();
  for (const auto& [from, to] : outputs) {
    mapped.push_back({{"_t", "MapOutput"},
                      {"srcOpId", from.op},
                      {"srcTsId", from.output},
                      {"dstOpId", to.op},
                      {"dstTsId", to.output}});
  }
  return {{"_t", "Rule"},
          {"name", name},
          {"srcOp", source},
          {"dstOp", target},
          {"mappedOutput", mapped}};
}

inline std::string collection(const std::vector<TestJson>& rules) {
  return TestJson{{"_t", "RuleCollection"}, {"rule", rules}}.dump();
}

}  // namespace tandem::import
