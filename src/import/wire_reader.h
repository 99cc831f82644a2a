// Reads the wire format of Protocol Buffers in place. A message is a sequence of fields: a number,
// then a varint, 4 bytes, 8 bytes, or a run of bytes, which may be a message. Nothing is copied, so
// weights stay in the file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::import {

// Steps through the fields of one message:
//   for (WireReader r(bytes); r.next();) if (r.field() == 1) name = r.bytes();
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Moves to the next field. Returns false at the end. Throws UserError (without a place) if the
  // message is malformed.
  bool next();

  [[nodiscard]] std::uint32_t field() const { return field_; }
  // Return the value as the type that the schema gives the field. Throw UserError if it is of
  // another type.
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] float real32() const;
  [[nodiscard]] double real64() const;
  [[nodiscard]] std::string_view bytes() const;

  // Appends the values of a repeated field, packed or not.
  void append_integers(std::vector<std::int64_t>& out) const;
  void append_reals32(std::vector<double>& out) const;
  void append_reals64(std::vector<double>& out) const;

 private:
  enum class Type : std::uint8_t { kVarint = 0, k64 = 1, kBytes = 2, k32 = 5 };

  std::uint64_t take_varint();
  std::string_view take(std::uint64_t count);
  void expect(Type type) const;

  std::string_view rest_;
  std::uint32_t field_ = 0;
  Type type_ = Type::kVarint;
  std::uint64_t varint_ = 0;
  std::string_view bytes_;
};

}  // namespace tandem::import
