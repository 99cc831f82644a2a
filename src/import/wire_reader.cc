#include "import/wire_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"

namespace tandem::import {

namespace {

[[noreturn]] void reject_malformed(std::string why) {
  throw UserError("onnx", "", std::move(why),
                  "the file is damaged, truncated or not an ONNX model");
}

// The format is little-endian, like the machines that this program supports.
template <class T>
T load(std::string_view bytes) {
  T out;
  std::memcpy(&out, bytes.data(), sizeof(T));
  return out;
}

template <class T>
void append_packed(std::string_view bytes, std::vector<double>& out) {
  if (bytes.size() % sizeof(T) != 0) reject_malformed("a packed list of numbers is truncated");
  out.reserve(out.size() + bytes.size() / sizeof(T));
  for (; !bytes.empty(); bytes.remove_prefix(sizeof(T))) {
    out.push_back(static_cast<double>(load<T>(bytes)));
  }
}

}  // namespace

std::uint64_t WireReader::take_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (rest_.empty()) reject_malformed("the data is truncated inside a number");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80U) return value;
  }
  reject_malformed("a number has more than 10 bytes");
}

std::string_view WireReader::take(std::uint64_t count) {
  if (count > rest_.size()) {
    reject_malformed(
        fmt::format("the data is truncated inside a field: {} bytes are expected, {} are left",
                    count, rest_.size()));
  }
  const auto out = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return out;
}

bool WireReader::next() {
  if (rest_.empty()) return false;
  const auto key = take_varint();
  const auto type = key & 7U;
  if (key >> 3U == 0 || key >> 32U != 0)
    reject_malformed(fmt::format("the field number {} is invalid", key >> 3U));
  if (type != 0 && type != 1 && type != 2 && type != 5) {
    reject_malformed(fmt::format("field {} has the unknown wire type {}", key >> 3U, type));
  }
  field_ = static_cast<std::uint32_t>(key >> 3U);
  type_ = static_cast<Type>(type);
  switch (type_) {
    case Type::kVarint:
      varint_ = take_varint();
      break;
    case Type::k64:
      bytes_ = take(8);
      break;
    case Type::k32:
      bytes_ = take(4);
      break;
    case Type::kBytes:
      bytes_ = take(take_varint());
      break;
  }
  return true;
}

void WireReader::expect(Type type) const {
  if (type_ != type) reject_malformed(fmt::format("field {} has an unexpected wire type", field_));
}

std::int64_t WireReader::integer() const {
  expect(Type::kVarint);
  return static_cast<std::int64_t>(varint_);
}

float WireReader::real32() const {
  expect(Type::k32);
  return load<float>(bytes_);
}

double WireReader::real64() const {
  expect(Type::k64);
  return load<double>(bytes_);
}

std::string_view WireReader::bytes() const {
  expect(Type::kBytes);
  return bytes_;
}

void WireReader::append_integers(std::vector<std::int64_t>& out) const {
  if (type_ == Type::kVarint) {
    out.push_back(integer());
    return;
  }
  WireReader packed(bytes());
  while (!packed.rest_.empty()) out.push_back(static_cast<std::int64_t>(packed.take_varint()));
}

void WireReader::append_reals32(std::vector<double>& out) const {
  if (type_ == Type::k32) {
    out.push_back(real32());
  } else {
    append_packed<float>(bytes(), out);
  }
}

void WireReader::append_reals64(std::vector<double>& out) const {
  if (type_ == Type::k64) {
    out.push_back(real64());
  } else {
    append_packed<double>(bytes(), out);
  }
}

}  // namespace tandem::import
