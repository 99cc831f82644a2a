#include "generate/program.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "ops/registry.h"
#include "ops/sources.h"
#include "rewrite/type_table.h"

namespace tandem::generate {

ops::Op make_operator(const rewrite::PatternNode& node) {
  ops::AttributeList attributes;
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    CHECK(node.attributes[i].operation == rewrite::Operation::kLiteral, node.spec->name);
    attributes.emplace_back(node.spec->attributes[i].first,
                            rewrite::to_text(node.attributes[i].literal));
  }
  return ops::parse_op(*node.spec, attributes);
}

std::vector<Field> draw_random_values(const TensorType& type, std::int64_t below, Hash key,
                                      std::size_t draw) {
  // Expected number of positive elements among eight, by draw.
  constexpr std::array<Hash, kDraws> kAbove = {4, 1, 7, 4, 2, 6, 4, 4};
  std::vector<Field> out(static_cast<std::size_t>(type.shape.sizes.count()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Hash h = hash_combine(hash_combine(key, draw), i);
    if (below > 0) {
      out[i] = Field(h % static_cast<Hash>(below));
      continue;
    }
    const bool above = h % 8 < kAbove[draw];
    do {
      h = mix(h);
      out[i] = Field(h);
    } while (term::Numbers<Field>::greater(out[i], Field(0)) != above);
  }
  return out;
}

namespace {

std::vector<Field> compute_constant_values(const ops::Op& op) {
  const auto& constant = op.get<ops::Constant>();
  std::vector<Field> out(static_cast<std::size_t>(constant.shape.sizes.count()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = term::Numbers<Field>::from(
        ops::compute_constant_element(constant, static_cast<std::int64_t>(i)));
  }
  return out;
}

}  // namespace

const FieldKernel& KernelCache::get_kernel(const ops::Signature& signature) {
  auto& kernel = kernels_[&signature];
  if (kernel == nullptr) kernel = std::make_unique<const FieldKernel>(signature);
  return *kernel;
}

PatternProgram::PatternProgram(const rewrite::Side& pattern, rewrite::PatternId output,
                               std::span<const TensorType> operands,
                               std::span<const std::optional<rewrite::Value>> symbols,
                               KernelCache& kernels) {
  auto& table = rewrite::TypeTable::get_thread_local();
  std::vector<const TensorType*> pointers;
  pointers.reserve(operands.size());
  for (const auto& type : operands) pointers.push_back(&type);
  std::vector<rewrite::TypeTable::TypeId> types;
  for (const auto& node : std::span(pattern.nodes).first(output + 1U)) {
    PatternStep step;
    if (node.is_variable()) {
      step.operand = node.variable;
      types.push_back(table.intern(operands[node.variable]));
      steps_.push_back(std::move(step));
      continue;
    }
    const auto op = table.make_op(node, {pointers, symbols});
    std::vector<rewrite::TypeTable::TypeId> inputs;
    std::vector<Shape> sizes;
    for (auto i : node.inputs) {
      step.inputs.push_back(i);
      inputs.push_back(types[i]);
      sizes.push_back(table.type(types[i]).shape.sizes);
    }
    types.push_back(op ? table.infer_result_type(*op, inputs) : rewrite::TypeTable::kNone);
    if (types.back() == rewrite::TypeTable::kNone) {
      throw UserError("graph", node.spec->name, "does not accept these operands");
    }
    if (op->is(ops::kConstant)) {
      step.fixed = compute_constant_values(*op);
    } else {
      step.kernel = &kernels.get_kernel(ops::get_signature(*op, sizes));
    }
    steps_.push_back(std::move(step));
  }
  type_ = table.type(types[output]);
  size_ = static_cast<std::size_t>(type_.shape.sizes.count());
}

void PatternProgram::run(std::span<const Field* const> operands, Field* out,
                         EvaluationMemory& memory) const {
  std::vector<const Field*> made(steps_.size());
  std::array<const Field*, kMaxArity> inputs{};
  if (memory.between.size() < steps_.size()) memory.between.resize(steps_.size());
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const auto& step = steps_[s];
    if (step.operand >= 0) {
      made[s] = operands[static_cast<std::size_t>(step.operand)];
      continue;
    }
    const bool last = s + 1 == steps_.size();
    if (step.kernel == nullptr) {
      made[s] = step.fixed.data();
      if (last) std::ranges::copy(step.fixed, out);
      continue;
    }
    CHECK(step.inputs.size() <= kMaxArity);
    for (std::size_t i = 0; i < step.inputs.size(); ++i) inputs[i] = made[step.inputs[i]];
    Field* to = out;
    if (!last) {
      memory.between[s].resize(step.kernel->result_size());
      to = memory.between[s].data();
    }
    step.kernel->run(std::span(inputs).first(step.inputs.size()), to, memory.scratch);
    made[s] = to;
  }
}

Programs::Programs(std::vector<GeneratorOperation> operations, std::int64_t largest)
    : operations_(std::move(operations)), largest_(largest) {}

TypeId Programs::type_id(const TensorType& type) {
  const auto at = std::ranges::find(types_, type);
  const auto id = static_cast<TypeId>(at - types_.begin());
  if (at == types_.end()) types_.push_back(type);
  return id;
}

Programs::Key Programs::make_key(std::size_t operation, std::span<const TypeId> operands) {
  static_assert(sizeof(Key) == (kMaxArity + 1) * sizeof(TypeId));
  Key key = operation;
  for (std::size_t i = 0; i < kMaxArity; ++i) {
    key = (key << 16U) | (i < operands.size() ? operands[i] : 0U);
  }
  return key;
}

std::size_t Programs::find_slot(Key key) const {
  const auto mask = places_.size() - 1;
  auto at = mix(key) & mask;
  while (places_[at].is_taken && places_[at].key != key) at = (at + 1) & mask;
  return at;
}

void Programs::grow() {
  std::vector<ProgramTableSlot> old(places_.size() * 2);
  std::swap(old, places_);
  for (const auto& place : old) {
    if (place.is_taken) places_[find_slot(place.key)] = place;
  }
}

const PatternProgram* Programs::find_known(std::size_t operation,
                                           std::span<const TypeId> operands) const {
  return places_[find_slot(make_key(operation, operands))].program;
}

const PatternProgram* Programs::find(std::size_t operation, std::span<const TypeId> operands) {
  const auto key = make_key(operation, operands);
  const auto& place = places_[find_slot(key)];
  if (place.is_taken) return place.program;
  auto made = make_program(operation, operands);
  if (made != nullptr) made->type_id_ = type_id(made->type());
  const auto* program = made.get();
  if (made != nullptr) programs_.push_back(std::move(made));
  if (++places_taken_ * 2 > places_.size()) grow();
  places_[find_slot(key)] = {key, true, program};
  return program;
}

std::unique_ptr<PatternProgram> Programs::make_program(std::size_t operation,
                                                       std::span<const TypeId> operands) {
  const auto& o = operations_[operation];
  if (o.arity != operands.size()) return nullptr;
  std::vector<TensorType> types;
  types.reserve(operands.size());
  for (auto id : operands) types.push_back(types_[id]);
  std::vector<const TensorType*> pointers;
  pointers.reserve(types.size());
  for (const auto& t : types) pointers.push_back(&t);
  const auto holds = [&](const rewrite::Expression& c) {
    return rewrite::holds(c, {pointers, {}});
  };
  if (!std::ranges::all_of(o.conditions, holds)) return nullptr;
  try {
    auto out = std::make_unique<PatternProgram>(o.pattern, o.pattern.outputs[0], types,
                                                std::span<const std::optional<rewrite::Value>>{},
                                                kernels_);
    if (static_cast<std::int64_t>(out->size()) > largest_) return nullptr;
    return out;
  } catch (const UserError&) {  // the operator does not take the operands
    return nullptr;
  }
}

}  // namespace tandem::generate
