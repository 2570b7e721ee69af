// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace cairn::formats {

/// Writes a pickle of protocol 2, the one that torch.load(weights_only=True) expects, in the order in which the
/// machine that reads it works: parts first, then what is made of them. It has the opcodes that torch.save uses for
/// data, and no others.
///
/// Containers are opened and closed; a map gets keys and values in turn. Whoever calls keeps them balanced.
/// Threads: a value.
/// Example: a call of `torch.Size` is `global("torch", "Size")`, a tuple of the tuple of extents, `call()`.
/// Source:  docs/format.md, "Pickles"; Lib/pickletools.py of Python 3.
class PickleWriter {
 public:
  PickleWriter() = default;

  PickleWriter& none() { return opcode('N'); }
  PickleWriter& boolean(bool value) { return opcode(value ? '\x88' : '\x89'); }
  PickleWriter& integer(std::int64_t value);
  PickleWriter& unsigned_integer(std::uint64_t value);
  PickleWriter& real(double value);
  /// UTF-8 of less than 4 GiB.
  PickleWriter& text(std::string_view value);
  /// As Python 3 writes bytes by this protocol: the call that encodes a text as latin-1.
  PickleWriter& bytes(std::span<const std::byte> value);

  PickleWriter& begin_map() { return opcode('}').opcode('('); }
  PickleWriter& end_map() { return opcode('u'); }
  PickleWriter& begin_list() { return opcode(']').opcode('('); }
  PickleWriter& end_list() { return opcode('e'); }
  PickleWriter& begin_tuple() { return opcode('('); }
  PickleWriter& end_tuple() { return opcode('t'); }
  /// A tuple of numbers from 0 up.
  PickleWriter& tuple(std::span<const std::uint64_t> numbers);

  /// A class or function; a text without line breaks each.
  PickleWriter& global(std::string_view module, std::string_view name);
  /// Calls a function with a tuple; both were written before, and are replaced by what it returns.
  PickleWriter& call() { return opcode('R'); }
  /// Makes an object of a class, which was written before, without calling its constructor.
  PickleWriter& new_object() { return opcode(')').opcode('\x81'); }
  /// Gives an object its state: both were written before, and the object stays.
  PickleWriter& build() { return opcode('b'); }
  /// Makes what stands for a stored object of its identity, which was written before.
  PickleWriter& persistent() { return opcode('Q'); }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return out_.size(); }
  /// Ends the pickle.
  [[nodiscard]] std::string take() &&;

 private:
  PickleWriter& opcode(char code) {
    out_.push_back(code);
    return *this;
  }
  template <class T>
  PickleWriter& number(char code, T value);

  std::string out_ = "\x80\x02";
  std::map<std::string, std::uint32_t, std::less<>> globals_;  // Where each lies in the reader's memo.
};

}  // namespace cairn::formats
