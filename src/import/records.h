// The messages of an ONNX file that the importer uses (onnx.proto), as views into the file. Long
// messages stay bytes until they are needed: a node until it is converted, a tensor's contents
// until a shape depends on them. A message that is short in the file is short in memory too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace tandem::import {

using Sizes = std::vector<std::int64_t>;

// Throws UserError of kind "onnx" without a place; the importer adds the place.
[[noreturn]] void reject(std::string message, std::string hint = "");

// TensorProto.DataType
enum ElementType : std::int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};
// Returns the DType of float, double, float16 and bfloat16; nullopt for other types.
std::optional<DType> to_real_dtype(std::int32_t type);
// Returns the DType of int32 and int64, which may hold indices; nullopt for other types.
std::optional<DType> to_index_dtype(std::int32_t type);
// Returns whether `type` is an integer type or bool. Called for every element.
constexpr bool is_integer_type(std::int32_t type) {
  return (type >= kUint8 && type <= kInt64) || type == kBool || type == kUint32 || type == kUint64;
}
std::string type_name(std::int32_t type);

struct Tensor {
  std::string_view name = {};
  std::int32_t type = 0;
  Sizes sizes = {};
  bool external = false;        // contents are in another file
  std::string_view bytes = {};  // the message, for read_contents
};
// Place of a tensor's contents: a file next to the model, and a range of its bytes.
struct Location {
  std::string_view file;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
};
Location read_location(const Tensor& tensor);
Tensor read_tensor(std::string_view message);

// Returns the product of sizes that are known to be few and small.
std::int64_t compute_product(const Sizes& sizes);

// Returns the number of elements. Throws UserError if a size is negative or the number is above
// 2^50.
std::int64_t count_elements(const Sizes& sizes, std::string_view what);

// Contents of a tensor: integers and bool in `ints`, others in `reals`.
struct Contents {
  std::vector<std::int64_t> ints;
  std::vector<double> reals;
};
// Returns the contents of `tensor`. Throws UserError if they are missing or if their number differs
// from the sizes.
Contents read_contents(const Tensor& tensor);
// Reads the contents of a tensor from `raw`, the bytes of another file. count_bytes returns how
// many bytes that takes.
Contents read_contents(const Tensor& tensor, std::string_view raw);
std::int64_t count_bytes(const Tensor& tensor);

// Returns the first two elements of a floating-point tensor, or nullopt if it has fewer.
std::optional<std::pair<double, double>> read_beginning(const Tensor& tensor);

// Returns whether all elements are equal. Copies nothing.
bool is_uniform(const Tensor& tensor);

struct Attribute {
  std::string_view name;
  std::int64_t type = 0;  // AttributeProto.AttributeType; 0 if the file does not give it
  std::int64_t i = 0;
  float f = 0;
  std::string_view s;
  std::string_view tensor;  // bytes
  std::vector<std::int64_t> ints;
  std::vector<double> floats;
  std::string_view graph;   // bytes
  std::string_view refers;  // in a function: the attribute of the call that provides the value
};
Attribute read_attribute(std::string_view message);

struct NodeProto {
  std::string_view name;
  std::string_view op;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
};
NodeProto read_node(std::string_view message);

// An operator that the model defines itself.
struct FunctionProto {
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::int64_t opset = 0;  // of the default domain; 0 if not given
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> defaults;      // values of attributes that a call may omit
  std::vector<std::string_view> nodes;  // bytes
};
FunctionProto read_function(std::string_view message);

// A dimension of a shape: a number, a name, or unknown.
struct Dimension {
  std::optional<std::int64_t> size;
  std::string_view name;
};

struct ValueInfo {
  std::string_view name;
  std::int32_t type = 0;  // 0: not a tensor, or not given
  bool has_shape = false;
  std::vector<Dimension> shape;
};
ValueInfo read_value_info(std::string_view message);

struct ModelProto {
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  // of the default domain; 0 if not given
  std::string_view graph_name;
  std::vector<std::string_view> nodes;         // bytes
  std::vector<std::string_view> initializers;  // bytes
  std::vector<std::string_view> inputs;        // bytes
  std::vector<std::string_view> outputs;       // bytes
  std::vector<std::string_view> functions;     // bytes
  bool has_sparse_initializer = false;
};
ModelProto read_model(std::string_view file);
// Reads a graph inside a node, such as a branch of an If.
ModelProto read_subgraph(std::string_view message);

}  // namespace tandem::import
