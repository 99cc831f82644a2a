// Writes small ONNX files for tests, byte by byte as onnx.proto defines.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "import/records.h"

namespace tandem::import {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  return out + static_cast<char>(value);
}
inline std::string number(std::uint32_t field, std::int64_t value) {
  return varint(field << 3U) + varint(static_cast<std::uint64_t>(value));
}
inline std::string bytes(std::uint32_t field, const std::string& value) {
  return varint(field << 3U | 2U) + varint(value.size()) + value;
}
inline std::string real(std::uint32_t field, float value) {
  std::string raw(sizeof(value), '\0');
  std::memcpy(raw.data(), &value, sizeof(value));
  return varint(field << 3U | 5U) + raw;
}

// Returns a tensor whose contents are given as raw bytes; without `has_data` they are omitted.
template <class T>
std::string tensor(const std::string& name, std::int32_t type, const Sizes& sizes,
                   const std::vector<T>& values, bool has_data = true) {
  std::string out;
  for (auto size : sizes) out += number(1, size);
  out += number(2, type) + bytes(8, name);
  std::string raw(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return has_data ? out + bytes(9, raw) : out;
}
inline std::string weights(const std::string& name, const Sizes& sizes) {
  std::int64_t count = 1;
  for (auto size : sizes) count *= size;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 7) - 3);
  return tensor<float>(name, kFloat, sizes, values);
}
inline std::string whole(const std::string& name, const Sizes& values) {
  return tensor<std::int64_t>(name, kInt64, {static_cast<std::int64_t>(values.size())}, values);
}

inline std::string integer(const std::string& name, std::int64_t value) {
  return bytes(5, bytes(1, name) + number(3, value) + number(20, 2));
}
inline std::string list(const std::string& name, const Sizes& values) {
  std::string out = bytes(1, name) + number(20, 7);
  for (auto v : values) out += number(8, v);
  return bytes(5, out);
}
inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& attributes = "",
                        const std::string& name = "") {
  std::string out;
  for (const auto& i : inputs) out += bytes(1, i);
  for (const auto& o : outputs) out += bytes(2, o);
  return out + bytes(3, name) + bytes(4, op) + attributes;
}

// Return a call of a function, and the function.
inline std::string call(const std::string& domain, const std::string& op,
                        const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs,
                        const std::string& attributes = "") {
  return node(op, inputs, outputs, attributes) + bytes(7, domain);
}
inline std::string function(const std::string& domain, const std::string& name,
                            const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs,
                            const std::vector<std::string>& nodes) {
  std::string out = bytes(1, name) + bytes(10, domain);
  for (const auto& i : inputs) out += bytes(4, i);
  for (const auto& o : outputs) out += bytes(5, o);
  for (const auto& n : nodes) out += bytes(7, n);
  return out;
}
// Returns an attribute that refers to the attribute `of` of the call.
inline std::string refer(const std::string& name, const std::string& of) {
  return bytes(5, bytes(1, name) + number(20, 2) + bytes(21, of));
}

// A dimension is a number, or a name.
struct Dim {
  std::int64_t size = 0;
  std::string name = {};
};
inline std::string value_info(const std::string& name, std::int32_t type,
                              const std::vector<Dim>& dims) {
  std::string shape;
  for (const auto& d : dims) {
    shape += bytes(1, d.name.empty() ? number(1, d.size) : bytes(2, d.name));
  }
  return bytes(1, name) + bytes(2, bytes(1, number(1, type) + bytes(2, shape)));
}

struct File {
  std::vector<std::string> nodes = {};
  std::vector<std::string> initializers = {};
  std::vector<std::string> inputs = {value_info("x", kFloat, {{2}, {3}})};
  std::vector<std::string> outputs = {"y"};
  std::int64_t opset = 13;
  std::vector<std::string> functions = {};

  [[nodiscard]] std::string text() const {
    std::string graph;
    for (const auto& n : nodes) graph += bytes(1, n);
    graph += bytes(2, "test");
    for (const auto& t : initializers) graph += bytes(5, t);
    for (const auto& i : inputs) graph += bytes(11, i);
    for (const auto& o : outputs) graph += bytes(12, bytes(1, o));
    std::string out = number(1, 8) + bytes(7, graph) + bytes(8, number(2, opset));
    for (const auto& f : functions) out += bytes(25, f);
    return out;
  }
};

}  // namespace tandem::import
