// The messages of an ONNX file that the importer looks at (onnx.proto), as views into the file.
// Long ones are kept as bytes and read when they are needed: a node when it is converted, a
// tensor's contents when a shape depends on them. What takes little in the file takes little here.
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
// float, double, float16, bfloat16; none for others.
std::optional<DType> real_type(std::int32_t type);
// int32 and int64, which may hold indices.
std::optional<DType> index_type(std::int32_t type);
// Whole numbers and bool. Asked for every element.
constexpr bool is_whole(std::int32_t type) {
  return (type >= kUint8 && type <= kInt64) || type == kBool || type == kUint32 || type == kUint64;
}
std::string type_name(std::int32_t type);

struct Tensor {
  std::string_view name = {};
  std::int32_t type = 0;
  Sizes sizes = {};
  bool external = false;        // the contents are in another file
  std::string_view bytes = {};  // the message, for read_contents
};
// Where they are, if they are: a file beside this one, and bytes of it.
struct Location {
  std::string_view file;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
};
Location read_location(const Tensor& tensor);
Tensor read_tensor(std::string_view message);

// Of dimensions that are known to be few and small enough.
std::int64_t product(const Sizes& sizes);

// The number of elements; throws UserError if a size is negative or the number is absurd.
std::int64_t count_elements(const Sizes& sizes, std::string_view what);

// The contents: whole numbers and bool in `ints`, others in `reals`. Throws UserError if they are
// not there, or not as many as the sizes say.
struct Contents {
  std::vector<std::int64_t> ints;
  std::vector<double> reals;
};
Contents read_contents(const Tensor& tensor);
// Of a tensor whose contents are elsewhere: `raw` holds them. And how many bytes they are.
Contents read_contents(const Tensor& tensor, std::string_view raw);
std::int64_t count_bytes(const Tensor& tensor);

// The first two elements of real numbers; none where it has fewer.
std::optional<std::pair<double, double>> read_beginning(const Tensor& tensor);

// Are all its elements the same? Copies nothing.
bool is_uniform(const Tensor& tensor);

struct Attribute {
  std::string_view name;
  std::int64_t type = 0;  // AttributeProto.AttributeType; 0 where the file does not say
  std::int64_t i = 0;
  float f = 0;
  std::string_view s;
  std::string_view tensor;  // bytes
  std::vector<std::int64_t> ints;
  std::vector<double> floats;
  std::string_view graph;   // bytes
  std::string_view refers;  // in a function: the attribute of the call that it is
};
Attribute read_attribute(std::string_view message);

struct Node {
  std::string_view name;
  std::string_view op;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
};
Node read_node(std::string_view message);

// An operator that the model itself defines.
struct Function {
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::int64_t opset = 0;  // of the default domain; 0 where it does not say
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> defaults;      // of attributes that a call may leave out
  std::vector<std::string_view> nodes;  // bytes
};
Function read_function(std::string_view message);

// A dimension is a number, a name, or unknown.
struct Dimension {
  std::optional<std::int64_t> size;
  std::string_view name;
};

struct ValueInfo {
  std::string_view name;
  std::int32_t type = 0;  // 0: not a tensor, or not said
  bool has_shape = false;
  std::vector<Dimension> shape;
};
ValueInfo read_value_info(std::string_view message);

struct Model {
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  // of the default domain; 0 where the file does not say
  std::string_view graph_name;
  std::vector<std::string_view> nodes;         // bytes
  std::vector<std::string_view> initializers;  // bytes
  std::vector<std::string_view> inputs;        // bytes
  std::vector<std::string_view> outputs;       // bytes
  std::vector<std::string_view> functions;     // bytes
  bool has_sparse_initializer = false;
};
Model read_model(std::string_view file);
// A graph inside a node: the branch of an If.
Model read_subgraph(std::string_view message);

}  // namespace tandem::import
