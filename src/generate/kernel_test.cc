#include "generate/kernel.h"

#include <gtest/gtest.h>

#include "ops/examples_test_support.h"
#include "term/evaluate.h"

namespace tandem::generate {
namespace {

// At every example size, every operator's kernel computes what the slow evaluator does.
TEST(Kernel, ComputesTheMeaning) {
  Scratch scratch;
  std::size_t compared = 0;
  for (const auto& example : ops::examples()) {
    const auto op = ops::make(example);
    if (op.role() != ops::Role::kCompute || op.name() == "dropout") continue;
    const auto& signature = ops::get_signature(op, example.inputs);
    std::vector<Dense<Field>> values;
    for (std::size_t i = 0; i < example.inputs.size(); ++i) {
      Dense<Field> dense(example.inputs[i]);
      for (std::size_t e = 0; e < dense.data.size(); ++e) {
        const Hash h = hash_combine(hash_combine(7, i), e);
        const bool index = ((op.spec().index_inputs >> i) & 1U) != 0;
        dense.data[e] = index ? Field(h % 3) : Field(h);
      }
      values.push_back(std::move(dense));
    }
    std::vector<term::Operand<Field>> operands;
    std::vector<const Field*> inputs;
    for (const auto& v : values) {
      operands.emplace_back(v);
      inputs.push_back(v.data.data());
    }
    term::Evaluation<Field> slow(signature.meaning, term::make_full_ranges(signature.map),
                                 operands);
    const auto expected = slow.forward(signature.map.output);
    const FieldKernel kernel(signature);
    std::vector<Field> got(kernel.result_size());
    kernel.run(inputs, got.data(), scratch);
    EXPECT_EQ(got, expected.data) << op.name() << " " << op.attribute_text();
    ++compared;
  }
  EXPECT_GT(compared, 60U);
}

}  // namespace
}  // namespace tandem::generate
