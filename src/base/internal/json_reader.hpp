// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "cairn/base/error.hpp"

namespace cairn {

/// A value of JSON that holds no others. Integers are exact: what is not negative and below 2^64 is unsigned, what is
/// negative and not below -2^63 is signed ("-0" too); all other numbers are the nearest double.
using JsonScalar = std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string_view>;

/// Is told what a document holds, in the order in which it is written; what it is told is valid JSON.
///
/// Ownership: views are valid during the call.
class JsonEvents {
 public:
  JsonEvents() = default;
  virtual ~JsonEvents() = default;

  /// `bracket` is '{' or '['.
  virtual void on_begin(char bracket) = 0;
  /// The end of what was begun last.
  virtual void on_end() = 0;
  /// The member's value comes next.
  virtual void on_key(std::string_view key) = 0;
  virtual void on_scalar(const JsonScalar& value) = 0;

 protected:
  JsonEvents(const JsonEvents&) = default;
  JsonEvents& operator=(const JsonEvents&) = default;
};

/// Holds what a text must keep to beyond RFC 8259.
struct JsonRules {
  JsonRules() = default;

  /// The code of every refusal.
  Errc code = Errc::malformed_metadata;
  /// How deep objects and lists may lie in each other; the reference implementation of safetensors stops there too.
  std::size_t max_depth = 127;
  /// Refuses a key that an object has twice. Takes memory for the keys of each open object.
  bool has_unique_keys = false;
};

/// Reads one JSON text front to back, strictly, and builds nothing: the caller asks for what must come next.
///
/// Headers of data files hold a hundred thousand tensors and come from strangers. A reader that is asked for each
/// value needs no tree and no recursion, and the caller sees every key, also one that comes twice. Stricter than
/// many: no byte order mark, no NUL after the end, no halves of surrogate pairs, no numbers beyond those of a double.
/// Every refusal names the text and the byte.
///
/// Ownership: text and name must stay valid while the reader and the views that it returned are used.
/// Threads:   not safe.
/// Errors:    JsonRules::code.
/// Source:    RFC 8259.
class JsonReader {
 public:
  JsonReader(std::string_view text, std::string_view name, JsonRules rules = JsonRules());

  void begin_object() { begin('{'); }
  /// The next key of the object that was begun last, whose value must be read next; nothing at the end of the object,
  /// which is read, too.
  ///
  /// Ownership: valid until the next key is read.
  [[nodiscard]] std::optional<std::string_view> next_key();

  void begin_list() { begin('['); }
  /// Returns whether the list that was begun last has one more element; read it next. False also reads its
  /// end.
  [[nodiscard]] bool next_element() { return next_member(']'); }

  /// An integer of digits alone: no sign, fraction or exponent, no leading zero, below 2^64.
  [[nodiscard]] std::uint64_t read_unsigned();
  /// Ownership: valid until the next string is read.
  [[nodiscard]] std::string_view read_string();
  /// Ownership: a string is valid until the next one is read.
  [[nodiscard]] JsonScalar read_scalar();
  /// Reads any value and tells `events`.
  void read_value(JsonEvents& events);
  /// Checks any value and forgets it.
  void skip_value();
  /// Reads `null` if that is what comes next.
  [[nodiscard]] bool skip_null();
  /// Accepts nothing but white space up to the end of the text.
  void finish();

  /// The first byte of what comes next, behind white space; -1 at the end of the text.
  [[nodiscard]] int peek() noexcept;
  /// Throws what is wrong at the current byte.
  [[noreturn]] void fail(std::string_view why) const;

 private:
  void expect(char c);
  [[nodiscard]] bool take(std::string_view literal) noexcept;
  void begin(char bracket);
  [[nodiscard]] bool next_member(char closing);
  [[nodiscard]] bool next_of_any(JsonEvents& events);
  [[nodiscard]] std::string_view read_string(std::string& scratch);
  void read_escape(std::string& out);
  [[nodiscard]] unsigned read_hex4();
  void skip_digits();
  [[nodiscard]] JsonScalar read_number();

  std::string_view text_;
  std::string_view name_;
  JsonRules rules_;
  std::size_t at_ = 0;
  std::string open_;                                   // The brackets of what is open.
  std::vector<std::unordered_set<std::string>> keys_;  // Keys of the open objects, where they must be unique.
  bool is_first_ = false;                              // Whether what was begun last has had no member yet.
  std::string key_scratch_;                            // Holds a key with escapes.
  std::string text_scratch_;                           // Likewise, a string.
};

}  // namespace cairn
