// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::formats {

/// Reads one JSON text front to back, strictly, and builds nothing: the caller asks for what must come next.
///
/// Headers of data files hold a hundred thousand tensors and come from strangers. A reader that is asked for
/// each value needs no tree, no recursion and no memory that grows with depth, and it sees every duplicate key.
/// Every refusal is Errc::malformed_metadata and names the text and the byte.
///
/// Threads: not safe. The text must stay valid while the reader and the views that it returned are used.
/// Source:  RFC 8259.
class JsonReader {
 public:
  /// How deep a skipped value may nest; the reference implementation of safetensors stops there too.
  static constexpr std::size_t kMaxDepth = 127;

  /// Errors: Errc::malformed_metadata when `text` is no UTF-8.
  JsonReader(std::string_view text, std::string_view name);

  void begin_object();

  /// Reads the next key of the object that was begun last, or its end (then false). Read the value next.
  ///
  /// Ownership: `key` is valid until the next read with the same `scratch`, which holds a key with escapes.
  [[nodiscard]] bool next_key(std::string_view& key, std::string& scratch);

  void begin_array();

  /// Whether the array that was begun last has one more element; read it next. False also reads its end.
  [[nodiscard]] bool next_element();

  /// An integer of digits alone: no sign, fraction or exponent, no leading zero, below 2^64.
  [[nodiscard]] std::uint64_t read_unsigned();

  /// A string; `scratch` is used only when it has escapes.
  [[nodiscard]] std::string_view read_string(std::string& scratch);

  /// Reads `null` if that is what comes next.
  [[nodiscard]] bool skip_null();

  /// Whether the next value is an integer of digits alone (that may still be too large for 64 bits).
  [[nodiscard]] bool is_unsigned_next();

  /// Checks any value and forgets it.
  void skip_value();

  /// Accepts nothing but white space up to the end of the text.
  void finish();

  /// Throws what is wrong at the current byte.
  [[noreturn]] void fail(std::string_view why) const;

 private:
  [[nodiscard]] int peek();
  void expect(char c);
  void skip_white_space() noexcept;
  void read_escape(std::string& out);
  [[nodiscard]] unsigned read_hex4();
  void skip_digits();
  void skip_number();
  void skip_literal(std::string_view literal);
  void skip_scalar();

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
  // Whether the innermost open container has had no member yet. One flag is enough: when an inner container
  // ends, the outer one has had a member.
  bool is_first_ = false;
};

}  // namespace cairn::formats
