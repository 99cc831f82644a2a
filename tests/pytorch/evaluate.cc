// Evaluates operators by their meaning, for compare.py: one JSON request a line on standard input,
// one answer a line on standard output.
//
//   {"op":"relu","attributes":[],"shapes":[[2]],"values":[[1,-2]],"gradient":[1,1]}
//   {"shape":[2],"value":[1,0],"gradients":[[1,0]]}
//
// The request {"list":true} is answered with the names of all operators that compute.
#include "term/evaluate.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "ops/registry.h"
#include "ops/signature.h"

namespace {

using Json = nlohmann::json;
using tandem::Dense;
using tandem::Shape;

namespace ops = tandem::ops;

Json names() {
  Json out = Json::array();
  for (const auto* spec : ops::all_ops()) {
    if (spec->role == ops::Role::kCompute) out.push_back(spec->name);
  }
  return out;
}

Json answer(const Json& request) {
  const auto op = ops::parse_op(ops::find_op(request["op"].get<std::string>()),
                                request["attributes"].get<ops::AttributeList>());
  std::vector<Dense<double>> values;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < request["shapes"].size(); ++i) {
    shapes.emplace_back(request["shapes"][i].get<std::vector<std::int64_t>>());
    values.emplace_back(shapes[i], request["values"][i].get<std::vector<double>>());
  }
  const auto& s = ops::get_signature(op, shapes);
  std::vector<tandem::term::Operand<double>> operands;
  for (const auto& v : values) operands.emplace_back(v);
  tandem::term::Evaluation<double> evaluation(s.meaning, make_full_ranges(s.map), operands);
  const auto out = evaluation.forward(s.map.output);
  Json result = {{"shape", std::vector<std::int64_t>(out.shape.begin(), out.shape.end())},
                 {"value", out.data},
                 {"gradients", Json::array()}};

  std::vector<Dense<double>> gradients;
  std::vector<Dense<double>*> wanted;
  for (const auto& shape : shapes) gradients.emplace_back(shape);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const bool is_index = ((op.spec().index_inputs >> i) & 1U) != 0;
    wanted.push_back(is_index ? nullptr : &gradients[i]);
  }
  const Dense<double> seed(out.shape, request["gradient"].get<std::vector<double>>());
  evaluation.backward(s.map.output, seed, wanted);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    result["gradients"].push_back(wanted[i] == nullptr ? Json() : Json(gradients[i].data));
  }
  return result;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json result;
    try {
      const auto request = Json::parse(line);
      result = request.contains("list") ? names() : answer(request);
    } catch (const tandem::UserError& e) {
      result = {{"error", e.what()}};
    }
    std::cout << result.dump() << "\n" << std::flush;
  }
}
