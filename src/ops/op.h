// Operators: OpSpec is what one file in this folder says about one operator; Op is an operator with
// its attributes, interned, so that equality is a pointer comparison and text and hash are computed
// once. An operator file looks like ops/matmul.cc; the list of all of them is ops/registry.cc.
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
  kSource,    // input, weight: no operands
  kCompute,   // has a meaning per element and a kernel
  kParallel,  // Partition, Combine, Replicate, Reduce, Unreplicate, Send: the identity on meaning
  kJoin,      // adds tensors as the partial sums of one
};

// What limits an operator, where its index text and meaning do not tell.
enum class Pace : std::uint8_t {
  kDerived,    // products by what they contract, the rest by the bytes it moves
  kAttention,  // products whose intermediate result stays on the chip
  kLookup,     // rows that are read, and whose gradients are written, anywhere in a table
};

// name=value pairs as written in a graph's text.
using AttributeList = std::vector<std::pair<std::string, std::string>>;

// An operator's attributes behind one pointer; each spec knows the real type.
using AnyAttributes = std::shared_ptr<const void>;

struct OpSpec {
  std::string name;
  std::string doc;
  std::string index;   // as documented; attribute-dependent operators show their general form
  std::string kernel;  // what the runtime executes; empty when there is nothing to execute
  std::vector<std::string> onnx;
  Role role = Role::kCompute;
  term::InputMask index_inputs = 0;  // operands that hold integer indices; they have no gradient
  // A table whose gradient is zero but in the rows that the first operand names.
  std::optional<std::size_t> row_sparse_operand = {};
  // A matrix whose gradient is one product, so that it may be subtracted while it is multiplied.
  std::optional<std::size_t> product_operand = {};
  Pace pace = Pace::kDerived;
  // What the backward pass computes, relative to the forward pass, beyond the gradients: a kernel
  // that keeps no intermediate result makes it again.
  double backward_again = 0;

  // Is a byte for every element kept for the backward pass, as of which elements stayed?
  bool keeps_mask = false;

  // Filled in by define_op from the typed definition.
  AttributeList attributes;  // all of them, with their defaults
  const void* attributes_type = nullptr;
  std::function<AnyAttributes(const AttributeList&)> parse;
  std::function<std::string(const void*)> print;
  std::function<std::string(const void*, std::span<const Shape>)> index_text;
  std::function<Term(const void*, std::span<const Shape>)> meaning;
  // Of an operator with one operand: its gradient as a term of the result, input 0, and the
  // result's gradient, input 1, where these two say it. Then the operand need not be kept.
  std::function<Term()> gradient_from_result;
  // Only sources and parallelization operators say their type themselves.
  std::function<TensorType(const void*, std::span<const TensorType>)> type;
  // The element type of the result where it is not that of the real operands.
  std::function<std::optional<DType>(const void*)> dtype;
  // The part of the result's elements that is stored, where the meaning does not tell.
  std::function<std::optional<double>(const void*)> density;
  // Real work where it is not what the meaning counts (an embedding reads few of its rows).
  std::function<std::optional<Flops>(const void*, std::span<const Shape>)> flops;
  std::function<std::optional<Bytes>(const void*, std::span<const TensorType>)> bytes;
};

class Op {
 public:
  Op() = default;

  [[nodiscard]] const OpSpec& spec() const { return *instance_->spec; }
  [[nodiscard]] const std::string& name() const { return instance_->spec->name; }
  // "act=relu"; empty when every attribute has its default.
  [[nodiscard]] const std::string& attribute_text() const { return instance_->text; }
  [[nodiscard]] Hash hash() const { return instance_->hash; }
  [[nodiscard]] Role role() const { return instance_->spec->role; }
  [[nodiscard]] bool is(const OpSpec& spec) const { return instance_->spec == &spec; }
  [[nodiscard]] const void* raw() const { return instance_->attributes.get(); }

  // The attributes, known to be of the operator's type.
  template <class Attributes>
  [[nodiscard]] const Attributes& get() const {
    return *static_cast<const Attributes*>(raw());
  }

  bool operator==(const Op& other) const { return instance_ == other.instance_; }

 private:
  friend Op intern(const OpSpec& spec, AnyAttributes attributes);
  struct Instance {
    const OpSpec* spec;
    AnyAttributes attributes;
    std::string text;
    Hash hash;
  };
  const Instance* instance_ = nullptr;
};

// The one Op of this spec with these attributes. Thread-safe.
Op intern(const OpSpec& spec, AnyAttributes attributes);

// Its address tells types of attributes apart.
template <class Attributes>
inline constexpr char kAttributesType = 0;

template <class Attributes>
Op make_op(const OpSpec& spec, Attributes attributes) {
  CHECK(spec.attributes_type == &kAttributesType<Attributes>, spec.name, "has other attributes");
  return intern(spec, std::make_shared<const Attributes>(std::move(attributes)));
}

// From text; throws UserError on an unknown attribute or a bad value.
Op parse_op(const OpSpec& spec, const AttributeList& attributes);

// A function that may also be named where several have the name: its parameters tell which. Files
// of operators call theirs `meaning` and `index_text`, and several are compiled together.
template <class Signature>
class Says;
template <class Result, class... Arguments>
class Says<Result(Arguments...)> : public std::function<Result(Arguments...)> {
 public:
  using std::function<Result(Arguments...)>::function;
  Says() = default;
  Says(Result (*f)(Arguments...)) : std::function<Result(Arguments...)>(f) {}
};

// What an operator's file writes. Members that stay empty take the derived behaviour.
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
  std::optional<std::size_t> product_operand = {};
  Pace pace = Pace::kDerived;
  double backward_again = 0;
  bool keeps_mask = false;
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
        throw UserError("graph", "", fmt::format("{} has no attribute '{}'", op_name, name),
                        names.empty() ? "it has none" : "it has: " + join(names, ", "));
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
  spec.product_operand = d.product_operand;
  spec.pace = d.pace;
  spec.backward_again = d.backward_again;
  spec.keeps_mask = d.keeps_mask;
  spec.gradient_from_result = d.gradient_from_result;
  spec.attributes = field_values(Attributes{});
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

// For operators without attributes.
struct NoAttributes {
  bool operator==(const NoAttributes&) const = default;
  static constexpr auto fields = std::tuple{};
};

}  // namespace tandem::ops
