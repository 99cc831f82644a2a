// Local response normalisation: divides every channel by a power of the sum of squares around it.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

struct Lrn {
  std::int64_t size = 5;  // channels in the sum
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
  bool operator==(const Lrn&) const = default;
  static constexpr auto fields =
      std::tuple{AttributeField{"size", &Lrn::size}, AttributeField{"alpha", &Lrn::alpha},
                 AttributeField{"beta", &Lrn::beta}, AttributeField{"bias", &Lrn::bias}};
};

constexpr std::int64_t kMostChannels = 1 << 20;

std::string format_space(const Shape& x) {
  std::string out;
  for (std::size_t d = 2; d < x.rank(); ++d) out += fmt::format(" d{}", d);
  return out;
}

std::string index_text(const Lrn& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  check_rank(in, 0, 2, Shape::kMaxRank);
  check_range("size", a.size, 1, kMostChannels);
  check_finite("alpha", a.alpha);
  check_finite("beta", a.beta);
  check_finite("bias", a.bias);
  return fmt::format("b !c{} -> b c{} | r:{}", format_space(in[0]), format_space(in[0]), a.size);
}

Term meaning(const Lrn& a, std::span<const Shape> in) {
  const auto around =
      term::input_at(0, fmt::format("b c+r-{}{}", (a.size - 1) / 2, format_space(in[0])));
  const auto squares = term::sum("r", around * around);
  const auto base =
      term::constant(a.bias) + term::constant(a.alpha / static_cast<double>(a.size)) * squares;
  const auto log = term::apply(term::Function::kLog, base);
  return term::input(0) * term::exp(term::constant(-a.beta) * log);
}

}  // namespace

const OpSpec kLrn = define_op<Lrn>({
    .name = "lrn",
    .doc = "out[b,c,...] = x[b,c,...] / (bias + alpha / size * sum_r x[b,c+r-(size-1)/2,...]^2) ^ "
           "beta",
    .index = "b !c h w -> b c h w | r",
    .kernel = "lrn",
    .onnx = {"LRN"},
    .index_text = index_text,
    .meaning = meaning,
});

}  // namespace tandem::ops
