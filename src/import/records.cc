#include "import/records.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "import/wire_reader.h"
#include "tensor/shape.h"

namespace tandem::import {

namespace {

constexpr std::size_t kMostDimensions =
    64;  // limit for shapes in the file; a tensor of a graph has at most 8
constexpr std::size_t kMostAttributes = 64;  // of a node; operators have at most about 20

struct TypeInfo {
  std::int32_t type;
  const char* name;
  std::size_t size;  // bytes of an element in raw data
};
constexpr TypeInfo kTypes[] = {
    {kFloat, "float", 4},      {kUint8, "uint8", 1},   {kInt8, "int8", 1},
    {kUint16, "uint16", 2},    {kInt16, "int16", 2},   {kInt32, "int32", 4},
    {kInt64, "int64", 8},      {kString, "string", 0}, {kBool, "bool", 1},
    {kFloat16, "float16", 2},  {kDouble, "double", 8}, {kUint32, "uint32", 4},
    {kUint64, "uint64", 8},    {14, "complex64", 0},   {15, "complex128", 0},
    {kBfloat16, "bfloat16", 2}};

const TypeInfo* find_type(std::int32_t type) {
  for (const auto& t : kTypes) {
    if (t.type == type) return &t;
  }
  return nullptr;
}

double from_half(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = (bits >> 10U) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) return fraction != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

double from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

template <class T>
T load_element(std::string_view raw, std::size_t i) {
  T out;
  std::memcpy(&out, raw.data() + i * sizeof(T), sizeof(T));
  return out;
}

template <class T, class Out>
void append_raw(std::string_view raw, std::size_t count, std::vector<Out>& out) {
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<Out>(load_element<T>(raw, i)));
}

void append_raw(std::int32_t type, std::string_view raw, std::size_t count, Contents& out) {
  switch (type) {
    case kFloat:
      return append_raw<float>(raw, count, out.reals);
    case kDouble:
      return append_raw<double>(raw, count, out.reals);
    case kFloat16:
      for (std::size_t i = 0; i < count; ++i) {
        out.reals.push_back(from_half(load_element<std::uint16_t>(raw, i)));
      }
      return;
    case kBfloat16:
      for (std::size_t i = 0; i < count; ++i) {
        out.reals.push_back(from_bfloat(load_element<std::uint16_t>(raw, i)));
      }
      return;
    case kUint8:
    case kBool:
      return append_raw<std::uint8_t>(raw, count, out.ints);
    case kInt8:
      return append_raw<std::int8_t>(raw, count, out.ints);
    case kUint16:
      return append_raw<std::uint16_t>(raw, count, out.ints);
    case kInt16:
      return append_raw<std::int16_t>(raw, count, out.ints);
    case kInt32:
      return append_raw<std::int32_t>(raw, count, out.ints);
    case kUint32:
      return append_raw<std::uint32_t>(raw, count, out.ints);
    case kInt64:
    case kUint64:
      return append_raw<std::int64_t>(raw, count, out.ints);
    default:
      reject(fmt::format("the type {} is not supported", type_name(type)));
  }
}

std::int64_t read_opset(std::string_view message, std::int64_t otherwise) {
  std::string_view domain;
  std::int64_t version = 0;
  for (WireReader r(message); r.next();) {
    if (r.field() == 1) domain = r.bytes();
    if (r.field() == 2) version = r.integer();
  }
  return domain.empty() || domain == "ai.onnx" ? version : otherwise;
}

// Reads float_data, int32_data, int64_data, double_data and uint64_data.
void append_typed(const Tensor& tensor, Contents& out) {
  std::vector<std::int64_t> ints;
  for (WireReader r(tensor.bytes); r.next();) {
    if (r.field() == 4) r.append_reals32(out.reals);
    if (r.field() == 10) r.append_reals64(out.reals);
    if (r.field() == 5 || r.field() == 7 || r.field() == 11) r.append_integers(ints);
  }
  if (is_integer_type(tensor.type)) {
    out.ints = std::move(ints);
  } else if (tensor.type == kFloat16 || tensor.type == kBfloat16) {
    for (auto bits : ints) {
      const auto half = static_cast<std::uint16_t>(bits);
      out.reals.push_back(tensor.type == kFloat16 ? from_half(half) : from_bfloat(half));
    }
  }
}

void read_shape(std::string_view message, ValueInfo& out) {
  out.has_shape = true;
  for (WireReader r(message); r.next();) {
    if (r.field() != 1) continue;
    if (out.shape.size() == kMostDimensions) {
      reject(fmt::format("a shape has more than {} dimensions", kMostDimensions));
    }
    auto& dimension = out.shape.emplace_back();
    for (WireReader d(r.bytes()); d.next();) {
      if (d.field() == 1) dimension.size = d.integer();
      if (d.field() == 2) dimension.name = d.bytes();
    }
  }
}

void read_graph(std::string_view message, ModelProto& out) {
  for (WireReader r(message); r.next();) {
    switch (r.field()) {
      case 1:
        out.nodes.push_back(r.bytes());
        break;
      case 2:
        out.graph_name = r.bytes();
        break;
      case 5:
        out.initializers.push_back(r.bytes());
        break;
      case 11:
        out.inputs.push_back(r.bytes());
        break;
      case 12:
        out.outputs.push_back(r.bytes());
        break;
      case 15:
        out.has_sparse_initializer = true;
        break;
      default:
        break;
    }
  }
}

}  // namespace

void reject(std::string message, std::string hint) {
  throw UserError("onnx", "", std::move(message), std::move(hint));
}

std::optional<DType> to_real_dtype(std::int32_t type) {
  switch (type) {
    case kFloat:
      return DType::kFp32;
    case kDouble:
      return DType::kFp64;
    case kFloat16:
      return DType::kFp16;
    case kBfloat16:
      return DType::kBf16;
    default:
      return std::nullopt;
  }
}

std::optional<DType> to_index_dtype(std::int32_t type) {
  if (type == kInt32) return DType::kInt32;
  if (type == kInt64) return DType::kInt64;
  return std::nullopt;
}

std::string type_name(std::int32_t type) {
  const auto* t = find_type(type);
  return t == nullptr ? fmt::format("number {}", type) : t->name;
}

Tensor read_tensor(std::string_view message) {
  Tensor out{.bytes = message};
  for (WireReader r(message); r.next();) {
    if (r.field() == 1) r.append_integers(out.sizes);
    if (r.field() == 2) out.type = static_cast<std::int32_t>(r.integer());
    if (r.field() == 8) out.name = r.bytes();
    if (r.field() == 13) out.external = true;
    if (r.field() == 14 && r.integer() == 1) out.external = true;
    if (out.sizes.size() > kMostDimensions) {
      reject(fmt::format("a tensor has more than {} dimensions", kMostDimensions));
    }
  }
  return out;
}

std::int64_t compute_product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t count_elements(const Sizes& sizes, std::string_view what) {
  double count = 1;
  for (auto size : sizes) {
    if (size < 0) reject(fmt::format("{} has a size of {}", what, size));
    count *= static_cast<double>(size);
  }
  if (count > 0x1p50) reject(fmt::format("{} has more than 2^50 elements", what));
  return static_cast<std::int64_t>(count);
}

namespace {

std::string describe_tensor(const Tensor& tensor) {
  return fmt::format("tensor '{}'", tensor.name);
}

const TypeInfo& get_type_info(const Tensor& tensor) {
  const auto* type = find_type(tensor.type);
  if (type == nullptr || type->size == 0) {
    reject(fmt::format("{} has the unsupported element type {}", describe_tensor(tensor),
                       type_name(tensor.type)));
  }
  return *type;
}

}  // namespace

Location read_location(const Tensor& tensor) {
  Location out;
  const auto number = [&](std::string_view text) {
    std::int64_t value = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc() || stop != end || value < 0) {
      reject(fmt::format("{} has an invalid offset or length of external data",
                         describe_tensor(tensor)));
    }
    return value;
  };
  for (WireReader r(tensor.bytes); r.next();) {
    if (r.field() != 13) continue;
    std::string_view key;
    std::string_view value;
    for (WireReader entry(r.bytes()); entry.next();) {
      if (entry.field() == 1) key = entry.bytes();
      if (entry.field() == 2) value = entry.bytes();
    }
    if (key == "location") out.file = value;
    if (key == "offset") out.offset = number(value);
    if (key == "length") out.length = number(value);
  }
  return out;
}

std::int64_t count_bytes(const Tensor& tensor) {
  return count_elements(tensor.sizes, describe_tensor(tensor)) *
         static_cast<std::int64_t>(get_type_info(tensor).size);
}

Contents read_contents(const Tensor& tensor, std::string_view raw) {
  const auto& type = get_type_info(tensor);
  const auto count =
      static_cast<std::size_t>(count_elements(tensor.sizes, describe_tensor(tensor)));
  if (raw.size() / type.size != count || raw.size() % type.size != 0) {
    reject(fmt::format("{} contains {} bytes, but its shape requires {} elements of {} bytes",
                       describe_tensor(tensor), raw.size(), count, type.size));
  }
  Contents out;
  append_raw(tensor.type, raw, count, out);
  return out;
}

Contents read_contents(const Tensor& tensor) {
  const auto what = describe_tensor(tensor);
  if (tensor.external) {
    reject(fmt::format("{} is stored in an external file, which was not loaded", what));
  }
  get_type_info(tensor);
  const auto count = static_cast<std::size_t>(count_elements(tensor.sizes, what));
  Contents out;
  bool is_raw = false;
  for (WireReader r(tensor.bytes); r.next();) {
    if (r.field() != 9) continue;
    is_raw = true;
    out = read_contents(tensor, r.bytes());
  }
  if (!is_raw) append_typed(tensor, out);
  const auto found = is_integer_type(tensor.type) ? out.ints.size() : out.reals.size();
  if (found != count) {
    reject(fmt::format("{} contains {} elements, but its shape requires {}", what, found, count));
  }
  return out;
}

std::optional<std::pair<double, double>> read_beginning(const Tensor& tensor) {
  const auto* type = find_type(tensor.type);
  if (type == nullptr || !to_real_dtype(tensor.type)) return std::nullopt;
  Contents out;
  for (WireReader r(tensor.bytes); r.next();) {
    if (r.field() == 4) r.append_reals32(out.reals);
    if (r.field() == 10) r.append_reals64(out.reals);
    if (r.field() == 9 && r.bytes().size() >= 2 * type->size) {
      append_raw(tensor.type, r.bytes(), 2, out);
    }
    if (out.reals.size() >= 2) return std::pair{out.reals[0], out.reals[1]};
  }
  return std::nullopt;
}

bool is_uniform(const Tensor& tensor) {
  const auto* type = find_type(tensor.type);
  if (type == nullptr || type->size == 0) return false;
  for (WireReader r(tensor.bytes); r.next();) {
    if (r.field() != 9 && r.field() != 4 && r.field() != 10) continue;
    const auto data = r.bytes();
    if (data.size() < type->size) return false;
    return data.substr(type->size) == data.substr(0, data.size() - type->size);
  }
  return false;
}

Attribute read_attribute(std::string_view message) {
  Attribute out;
  for (WireReader r(message); r.next();) {
    switch (r.field()) {
      case 1:
        out.name = r.bytes();
        break;
      case 2:
        out.f = r.real32();
        break;
      case 3:
        out.i = r.integer();
        break;
      case 4:
        out.s = r.bytes();
        break;
      case 5:
        out.tensor = r.bytes();
        break;
      case 6:
        out.graph = r.bytes();
        break;
      case 7:
        r.append_reals32(out.floats);
        break;
      case 8:
        r.append_integers(out.ints);
        break;
      case 20:
        out.type = r.integer();
        break;
      case 21:
        out.refers = r.bytes();
        break;
      default:
        break;
    }
  }
  return out;
}

NodeProto read_node(std::string_view message) {
  NodeProto out;
  for (WireReader r(message); r.next();) {
    switch (r.field()) {
      case 1:
        out.inputs.push_back(r.bytes());
        break;
      case 2:
        out.outputs.push_back(r.bytes());
        break;
      case 3:
        out.name = r.bytes();
        break;
      case 4:
        out.op = r.bytes();
        break;
      case 5:
        if (out.attributes.size() == kMostAttributes) {
          reject(fmt::format("a node has more than {} attributes", kMostAttributes));
        }
        out.attributes.push_back(read_attribute(r.bytes()));
        break;
      case 7:
        out.domain = r.bytes();
        break;
      case 8:
        out.overload = r.bytes();
        break;
      default:
        break;
    }
  }
  return out;
}

FunctionProto read_function(std::string_view message) {
  FunctionProto out;
  for (WireReader r(message); r.next();) {
    switch (r.field()) {
      case 1:
        out.name = r.bytes();
        break;
      case 4:
        out.inputs.push_back(r.bytes());
        break;
      case 5:
        out.outputs.push_back(r.bytes());
        break;
      case 7:
        out.nodes.push_back(r.bytes());
        break;
      case 9:
        out.opset = read_opset(r.bytes(), out.opset);
        break;
      case 10:
        out.domain = r.bytes();
        break;
      case 11:
        if (out.defaults.size() == kMostAttributes) {
          reject(fmt::format("a function has more than {} attributes", kMostAttributes));
        }
        out.defaults.push_back(read_attribute(r.bytes()));
        break;
      case 13:
        out.overload = r.bytes();
        break;
      default:
        break;
    }
  }
  return out;
}

ValueInfo read_value_info(std::string_view message) {
  ValueInfo out;
  for (WireReader r(message); r.next();) {
    if (r.field() == 1) out.name = r.bytes();
    if (r.field() != 2) continue;
    for (WireReader type(r.bytes()); type.next();) {
      if (type.field() != 1) continue;
      for (WireReader tensor(type.bytes()); tensor.next();) {
        if (tensor.field() == 1) out.type = static_cast<std::int32_t>(tensor.integer());
        if (tensor.field() == 2) read_shape(tensor.bytes(), out);
      }
    }
  }
  return out;
}

ModelProto read_subgraph(std::string_view message) {
  ModelProto out;
  read_graph(message, out);
  return out;
}

ModelProto read_model(std::string_view file) {
  ModelProto out;
  bool has_graph = false;
  for (WireReader r(file); r.next();) {
    if (r.field() == 1) out.ir_version = r.integer();
    if (r.field() == 7) {
      has_graph = true;
      read_graph(r.bytes(), out);
    }
    if (r.field() == 8) out.opset = read_opset(r.bytes(), out.opset);
    if (r.field() == 25) out.functions.push_back(r.bytes());
  }
  if (!has_graph) reject("the file contains no graph", "is it an ONNX model?");
  return out;
}

}  // namespace tandem::import
