// Operators. OpSpec is the definition of one operator, written in one file of this directory. Op is
// an operator with its attributes. Ops are interned: equality is a pointer comparison, and text and
// hash are computed once. ops/matmul.cc is an example of an operator file; ops/registry.cc lists
// all operators.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "base/hash.h"
#include "tensor/tensor_type.h"
#include "term/term.h"

namespace tandem::ops {

using term::Term;

enum class Role : std::uint8_t {
  kSource,    // input, weight, constant: no operands
  kCompute,   // has a meaning per element and a kernel
  kParallel,  // Partition, Combine, Replicate, Reduce, Unreplicate, Send: change the layout alone
  kJoin,      // combines several tensors to the partial sums of one
};

// Limit of an operator's speed, if its index text and meaning do not determine it.
enum class Pace : std::uint8_t {
  kDerived,    // matmuls: the contracted work; all others: the bytes that they move
  kAttention,  // matmuls whose intermediate result stays on the chip
  kLookup,     // reads, and gradient writes, of arbitrary rows of a table
};

// name=value pairs, as in a graph's text.
using AttributeList = std::vector<std::pair<std::string, std::string>>;

// Type-erased attributes of an operator; each spec knows the real type.
using AnyAttributes = std::shared_ptr<const void>;

// The definition of one operator.
struct OpSpec {
  std::string name;
  std::string doc;
  std::string index;   // as documented; the general form if the attributes change it
  std::string kernel;  // name of the kernel that the runtime executes; empty if there is none
  std::vector<std::string> onnx;
  Role role = Role::kCompute;
  term::InputMask index_inputs = 0;  // operands that hold integer indices and have no gradient
  // Table operand whose gradient is zero outside the rows that the first operand names.
  std::optional<std::size_t> row_sparse_operand = {};
  // Matrix operand whose gradient is one matmul. The kernel may subtract it from the weight during
  // that matmul.
  std::optional<std::size_t> matmul_operand = {};
  Pace pace = Pace::kDerived;
  // Extra work of the backward pass beyond the gradients, relative to the forward pass. A kernel
  // that stores no intermediate result has to recompute it.
  double backward_recompute = 0;

  // Whether the operator saves one byte per element for backward, a mask of the retained elements.
  bool saves_mask = false;

  // The members below are filled in by define_op from the typed definition.
  AttributeList attributes;  // all attributes with their defaults
  const void* attributes_type = nullptr;
  std::function<AnyAttributes(const AttributeList&)> parse;
  std::function<std::string(const void*)> print;
  std::function<std::string(const void*, std::span<const Shape>)> index_text;
  std::function<Term(const void*, std::span<const Shape>)> meaning;
  // The gradient of an operator with one operand, as a term of the result (input 0) and the
  // result's gradient (input 1), if these two determine it. The operand then need not be saved for
  // backward.
  std::function<Term()> gradient_from_result;
  // Result type; only sources and parallelization operators define it themselves.
  std::function<TensorType(const void*, std::span<const TensorType>)> type;
  // Element type of the result, if it differs from that of the real operands.
  std::function<std::optional<DType>(const void*)> dtype;
  // Fraction of the result's elements that is stored, if the meaning does not determine it.
  std::function<std::optional<double>(const void*)> density;
  // Work, if it differs from what the meaning counts (an embedding reads few of its rows).
  std::function<std::optional<Flops>(const void*, std::span<const Shape>)> flops;
  std::function<std::optional<Bytes>(const void*, std::span<const TensorType>)> bytes;
};

// An operator with its attributes. Copying it copies a pointer.
class Op {
 public:
  Op() = default;

  [[nodiscard]] const OpSpec& spec() const { return *instance_->spec; }
  [[nodiscard]] const std::string& name() const { return instance_->spec->name; }
  // Returns the attributes that differ from their defaults: "act=relu".
  [[nodiscard]] const std::string& attribute_text() const { return instance_->text; }
  [[nodiscard]] Hash hash() const { return instance_->hash; }
  [[nodiscard]] Role role() const { return instance_->spec->role; }
  [[nodiscard]] bool is(const OpSpec& spec) const { return instance_->spec == &spec; }
  [[nodiscard]] const void* raw() const { return instance_->attributes.get(); }

  // Returns the attributes, which must be of type Attributes.
  template <class Attributes>
  [[nodiscard]] const Attributes& get() const {
    return *static_cast<const Attributes*>(raw());
  }

  bool operator==(const Op& other) const { return instance_ == other.instance_; }

 private:
  friend Op intern(const OpSpec& spec, AnyAttributes attributes);
  struct OpInstance {
    const OpSpec* spec;
    AnyAttributes attributes;
    std::string text;
    Hash hash;
  };
  const OpInstance* instance_ = nullptr;
};

// Returns the unique Op of this spec with these attributes. Thread-safe.
Op intern(const OpSpec& spec, AnyAttributes attributes);

// Variable whose address identifies a type of attributes.
template <class Attributes>
inline constexpr char kAttributesType = 0;

// Returns the operator of `spec` with `attributes`, which must be of the spec's type.
template <class Attributes>
Op make_op(const OpSpec& spec, Attributes attributes) {
  CHECK(spec.attributes_type == &kAttributesType<Attributes>, spec.name, "has other attributes");
  return intern(spec, std::make_shared<const Attributes>(std::move(attributes)));
}

// Returns the operator that `attributes` describe as text. Throws UserError on an unknown attribute
// or a bad value.
Op parse_op(const OpSpec& spec, const AttributeList& attributes);

// A std::function that can be initialised from an overloaded function name; its signature selects
// the overload. Operator files all call their functions `meaning` and `index_text`, and several
// files are compiled as one.
template <class Signature>
class Says;
template <class Result, class... Arguments>
class Says<Result(Arguments...)> : public std::function<Result(Arguments...)> {
 public:
  using std::function<Result(Arguments...)>::function;
  Says() = default;
  Says(Result (*f)(Arguments...)) : std::function<Result(Arguments...)>(f) {}
};

// The definition that an operator's file writes. Members left empty take the derived behaviour; see
// OpSpec for their meaning.
template <class Attributes>
struct OpDefinition {
  std::string name;
  std::string doc;
  std::string index;
  std::string kernel = {};
  std::vector<std::string> onnx = {};
  Role role = Role::kCompute;
  term::InputMask index_inputs = 0;
  std::optional<std::size_t> row_sparse_operand = {};
  std::optional<std::size_t> matmul_operand = {};
  Pace pace = Pace::kDerived;
  double backward_recompute = 0;
  bool saves_mask = false;
  Says<std::string(const Attributes&, std::span<const Shape>)> index_text = {};
  Says<Term(const Attributes&, std::span<const Shape>)> meaning = {};
  Says<Term()> gradient_from_result = {};
  Says<TensorType(const Attributes&, std::span<const TensorType>)> type = {};
  Says<DType(const Attributes&)> dtype = {};
  Says<double(const Attributes&)> density = {};
  Says<Flops(const Attributes&, std::span<const Shape>)> flops = {};
  Says<Bytes(const Attributes&, std::span<const TensorType>)> bytes = {};
};

template <class Attributes>
AnyAttributes parse_attributes(const std::string& op_name, const AttributeList& list) {
  auto out = std::make_shared<Attributes>();
  for (const auto& [name, text] : list) {
    switch (set_field(*out, name, text)) {
      case FieldResult::kOk:
        break;
      case FieldResult::kUnknownName: {
        std::vector<std::string> names;
        for_each_field<Attributes>([&](const auto& f) { names.emplace_back(f.name); });
        throw UserError(
            "graph", "", fmt::format("{} has no attribute '{}'", op_name, name),
            names.empty() ? "it has no attributes" : "its attributes: " + join(names, ", "));
      }
      case FieldResult::kBadValue:
        throw UserError("graph", "",
                        fmt::format("{}: attribute '{}' cannot be '{}'", op_name, name, text));
    }
  }
  return out;
}

template <class Attributes>
OpSpec define_op(OpDefinition<Attributes> d) {
  const auto as = [](const void* raw) -> const Attributes& {
    return *static_cast<const Attributes*>(raw);
  };
  OpSpec spec;
  spec.name = d.name;
  spec.doc = d.doc;
  spec.index = d.index;
  spec.kernel = d.kernel;
  spec.onnx = d.onnx;
  spec.role = d.role;
  spec.index_inputs = d.index_inputs;
  spec.row_sparse_operand = d.row_sparse_operand;
  spec.matmul_operand = d.matmul_operand;
  spec.pace = d.pace;
  spec.backward_recompute = d.backward_recompute;
  spec.saves_mask = d.saves_mask;
  spec.gradient_from_result = d.gradient_from_result;
  spec.attributes = list_field_values(Attributes{});
  spec.attributes_type = &kAttributesType<Attributes>;
  spec.parse = [name = d.name](const AttributeList& list) {
    return parse_attributes<Attributes>(name, list);
  };
  spec.print = [as](const void* raw) { return fields_text(as(raw)); };
  spec.index_text = [as, d](const void* raw, std::span<const Shape> in) {
    return d.index_text ? d.index_text(as(raw), in) : d.index;
  };
  spec.meaning = [as, f = d.meaning](const void* raw, std::span<const Shape> in) {
    return f(as(raw), in);
  };
  if (d.type) {
    spec.type = [as, f = d.type](const void* raw, std::span<const TensorType> in) {
      return f(as(raw), in);
    };
  }
  spec.dtype = [as, f = d.dtype](const void* raw) {
    return f ? std::optional(f(as(raw))) : std::nullopt;
  };
  spec.density = [as, f = d.density](const void* raw) {
    return f ? std::optional(f(as(raw))) : std::nullopt;
  };
  spec.flops = [as, f = d.flops](const void* raw, std::span<const Shape> in) {
    return f ? std::optional(f(as(raw), in)) : std::nullopt;
  };
  spec.bytes = [as, f = d.bytes](const void* raw, std::span<const TensorType> in) {
    return f ? std::optional(f(as(raw), in)) : std::nullopt;
  };
  return spec;
}

// Attributes of operators that have none.
struct NoAttributes {
  bool operator==(const NoAttributes&) const = default;
  static constexpr auto fields = std::tuple{};
};

}  // namespace tandem::ops
