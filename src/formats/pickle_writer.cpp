// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/pickle_writer.hpp"

#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "base/internal/utf8.hpp"

namespace cairn::formats {

template <class T>
PickleWriter& PickleWriter::number(char code, T value) {
  opcode(code);
  out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

PickleWriter& PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    return number('K', static_cast<std::uint8_t>(value));
  }
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    return number('J', static_cast<std::int32_t>(value));
  }
  opcode('\x8a');  // A length of one byte, and a number in two's complement.
  return number(static_cast<char>(sizeof value), value);
}

PickleWriter& PickleWriter::unsigned_integer(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return integer(static_cast<std::int64_t>(value));
  }
  opcode('\x8a');
  return number(static_cast<char>(sizeof value + 1), value)
      .opcode('\0');  // Without it the number is negative.
}

PickleWriter& PickleWriter::real(double value) {
  return number('G', __builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
}

PickleWriter& PickleWriter::text(std::string_view value) {
  number('X', static_cast<std::uint32_t>(value.size()));
  out_.append(value);
  return *this;
}

PickleWriter& PickleWriter::bytes(std::span<const std::byte> value) {
  std::string latin1;
  latin1.reserve(value.size());
  for (const std::byte byte : value) {
    append_code_point(latin1, std::to_integer<char32_t>(byte));
  }
  return global("_codecs", "encode").begin_tuple().text(latin1).text("latin1").end_tuple().call();
}

PickleWriter& PickleWriter::tuple(std::span<const std::uint64_t> numbers) {
  begin_tuple();
  for (const std::uint64_t each : numbers) {
    unsigned_integer(each);
  }
  return end_tuple();
}

PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) {
  std::string lines(module);
  lines.append("\n").append(name).append("\n");
  const auto [known, is_new] = globals_.try_emplace(lines, static_cast<std::uint32_t>(globals_.size()));
  if (!is_new) {
    return number('j', known->second);
  }
  opcode('c');
  out_.append(lines);
  return number('r', known->second);
}

std::string PickleWriter::take() && {
  opcode('.');
  return std::move(out_);
}

}  // namespace cairn::formats
