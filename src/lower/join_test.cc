// Tests in the task interpreter that a join moves nothing. Tensors on disjoint devices become the
// partial sums of one tensor.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "lower/lower.h"
#include "lower/mapped_text_test_support.h"
#include "lower/training_step_test_support.h"
#include "plan/random_choices_test_support.h"

namespace tandem::lower {
namespace {

using plan::make_digits;
using plan::Optimizer;

// Returns the model x w0 + x w1 + ..., with one device for each weight.
std::string make_matmul_sum(std::int64_t n) {
  std::string out = fmt::format("graph g\n%x = input() shape=[4, 6]*{}\n", n);
  std::string operands;
  for (std::int64_t i = 0; i < n; ++i) {
    out += fmt::format(
        "%w{0} = weight() shape=[2, 6]\n%x{0} = unreplicate(%x) degree={1}\n"
        "%y{0} = linear(%x{0}, %w{0})\n",
        i, n);
    operands += fmt::format("{}%y{}", i == 0 ? "" : ", ", i);
  }
  return out + fmt::format(
                   "%s = join({0}) : [4, 2]+{1} fp32\n%r = reduce(%s) degree={1}\n"
                   "%a = replicate(%r) degree={1}\n%t = input() shape=[4, 2]*{1}\n"
                   "%loss = mse(%a, %t) : []*{1} fp32\nreturn %loss\n",
                   operands, n);
}

// Returns the layouts of the tensors by name. There are two digits if `n` is 4.
std::map<std::string, std::string> places(std::int64_t n) {
  const auto all = [&](char role) { return std::string(n == 4 ? 2 : 1, role); };
  std::map<std::string, std::string> out = {{"x", all('r')}, {"s", all('p')},    {"r", all('.')},
                                            {"a", all('r')}, {"loss", all('r')}, {"t", all('r')}};
  const std::vector<std::string> of_four = {"..", ".A", "A.", "AA"};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = n == 4  ? of_four[static_cast<std::size_t>(i)]
                    : i > 0 ? std::string(1, static_cast<char>('A' + i - 1))
                            : ".";
    for (const auto* name : {"x", "w", "y"}) out[fmt::format("{}{}", name, i)] = at;
  }
  return out;
}

TEST(Join, TrainsLikeOneDevice) {
  for (const std::int64_t n : {2, 3, 4}) {
    const auto digits =
        make_digits(n == 4 ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{n});
    const auto mapped = parse_mapped(make_matmul_sum(n), places(n));
    const auto program = lower(mapped, digits, {}, Optimizer::kSgd);
    SCOPED_TRACE(to_text(program));
    expect_same_step(erase_parallelism(mapped.pcg), program, 3);
    // There are two all-reduces: one of the sum, and one of the gradient of its replicas.
    EXPECT_EQ(count_communicated_elements(program), static_cast<double>(2 * 2 * (n - 1) * 4 * 2));
  }
}

TEST(Join, IsALocalStep) {
  const auto program =
      lower(parse_mapped(make_matmul_sum(2), places(2)), make_digits({2}), {}, Optimizer::kSgd);
  EXPECT_EQ(to_text(program), R"(-> drop %x [4, 6] r -> . (96 B)
-> forward linear %y0
-> drop %x [4, 6] r -> A (96 B)
-> forward linear %y1
-> join join %s
-> all_reduce %s [4, 2] p -> r (32 B)
-> forward mse %loss
<- seed mse %loss
<- backward mse %loss
<- all_reduce %a' [4, 2] p -> r (32 B)
<- drop %a' [4, 2] r -> . (32 B)
<- drop %a' [4, 2] r -> A (32 B)
<- backward linear %y1
<- backward linear %y0
<- update weight %w1
<- update weight %w0
)");
}

TEST(Join, ReportsWrongPlacements) {
  const auto error = [](std::string name, std::string layout) {
    auto layouts = places(2);
    layouts[std::move(name)] = std::move(layout);
    try {
      lower(parse_mapped(make_matmul_sum(2), layouts), make_digits({2}), {}, Optimizer::kSgd);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(error("y1", "."),
            "linear %y1: the layouts of its operands and its result are inconsistent");
  auto layouts = places(2);
  for (const auto* name : {"x1", "w1", "y1"}) layouts[name] = ".";
  try {
    lower(parse_mapped(make_matmul_sum(2), layouts), make_digits({2}), {}, Optimizer::kSgd);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "join %s: operand 1 has layout '.', but joining into 'p' requires 'A'");
  }
}

}  // namespace
}  // namespace tandem::lower
