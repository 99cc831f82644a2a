#include "ops/signature.h"

namespace tandem::ops {

namespace {

FactorUse use_of(const IndexMap& map, const term::BoundTerm& meaning, FactorId f) {
  if (map.factors[f].whole) return FactorUse::kWhole;
  if (map.output_dim(f) >= 0) return FactorUse::kParallel;
  return term::sums_in_parts(meaning, f) ? FactorUse::kReducing : FactorUse::kWhole;
}

}  // namespace

Signature signature(const Op& op, std::span<const Shape> inputs) {
  CHECK(op.role() == Role::kCompute, op.name());
  Signature out;
  out.map = term::resolve_index(op.spec().index_text(op.raw(), inputs), inputs);
  out.meaning = term::bind(op.spec().meaning(op.raw(), inputs), out.map);
  for (FactorId f = 0; f < out.map.factors.size(); ++f) {
    out.use.push_back(use_of(out.map, out.meaning, f));
  }
  out.backward_reads = term::backward_reads(out.meaning);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputMask one = InputMask{1} << i;
    if (term::is_linear(out.meaning, one)) out.partial_inputs.push_back(one);
  }
  const InputMask all = (InputMask{1} << inputs.size()) - 1;
  if (out.partial_inputs.empty() && inputs.size() > 1 && term::is_linear(out.meaning, all)) {
    out.partial_inputs.push_back(all);
  }
  return out;
}

}  // namespace tandem::ops
