// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::formats {

/// The largest pickle that is read: the place of a byte fits in 31 bits.
inline constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{1} << 31;

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,           ///< Fits in std::int64_t.
  unsigned_integer,  ///< Fits in std::uint64_t only.
  huge_integer,      ///< Fits in neither.
  real,
  text,  ///< UTF-8 unless the file lies: nobody has looked.
  bytes,
  global,  ///< The name of a class or function of a module.
  tuple,
  list,
  map,  ///< Its items are keys and values in turn.
  set,
  object,      ///< A call that was not made: of `callable` with `arguments`, then `state`, then items.
  persistent,  ///< What stands for an object that is stored elsewhere: a storage of torch.
};

/// A node of a Pickle: where in the input its opcode lies, or, with the highest bit, where in the words of the Pickle
/// it is described.
enum class PickleNode : std::uint32_t {};

inline constexpr PickleNode kNoneNode{0x8000'0000u};

/// The contents of a pickle, as nodes. A pickle is a program that imports classes and calls them; this reads its text
/// and keeps what it would have done as a graph: a class is a pair of names, a call is a node. Nothing is imported,
/// looked up or called, whatever the bytes say.
///
/// Nodes may be shared, and a list may hold itself: who follows items bounds depth and number.
/// Ownership: a view of the input, which must outlive it. Numbers and texts are read from there each time.
/// Threads:   const methods may run at the same time.
/// Source:    docs/format.md, "Pickles".
class Pickle {
 public:
  using Nodes = std::span<const PickleNode>;

  /// Reads the opcodes of protocols 0 to 5 that binary pickles of data have. Memory is bounded by a multiple of the
  /// input, whatever lengths and numbers stand in it. `path` is used in errors only.
  ///
  /// Errors: Errc::malformed_metadata, naming the byte and the opcode; Errc::unsupported_version for protocol 6.
  [[nodiscard]] static Pickle read(std::span<const std::byte> input, std::string_view path);

  /// Walks over the items of a container or an object.
  class Items {
   public:
    /// Gives the next one; false at the end.
    [[nodiscard]] bool next(PickleNode& node) noexcept {
      if (run_.empty()) {
        if (next_run_ == 0) {
          return false;
        }
        const auto size = static_cast<std::uint32_t>(words_[next_run_ + 1]);
        run_ = words_.subspan(next_run_ + 2, size);  // Runs are never empty.
        next_run_ = static_cast<std::uint32_t>(words_[next_run_]);
      }
      node = run_.front();
      run_ = run_.subspan(1);
      return true;
    }

   private:
    friend class Pickle;
    Nodes words_;
    Nodes run_;
    std::uint32_t next_run_ = 0;
  };

  [[nodiscard]] PickleNode root() const noexcept { return root_; }
  [[nodiscard]] std::uint64_t input_bytes() const noexcept { return input_.size(); }
  [[nodiscard]] PickleKind kind(PickleNode node) const noexcept;

  /// Each of these is for nodes of its kind; an integer's value is that of unsigned ones, too.
  [[nodiscard]] bool boolean(PickleNode node) const noexcept;
  [[nodiscard]] std::uint64_t integer(PickleNode node) const noexcept;
  [[nodiscard]] double real(PickleNode node) const noexcept;
  /// The decimal digits of an integer of any kind; nothing for one that is written with more than 255 bytes, and for
  /// all that is not an integer.
  [[nodiscard]] std::optional<std::string> decimal(PickleNode node) const;
  /// The bytes of a text or of bytes, which are a part of the input.
  [[nodiscard]] std::string_view text(PickleNode node) const noexcept;

  /// How many items a container or an object has; a map has two for each of its keys. 0 for all else.
  [[nodiscard]] std::size_t size(PickleNode node) const noexcept;
  [[nodiscard]] Items items(PickleNode node) const noexcept;
  /// The items of a tuple; none for all else.
  [[nodiscard]] Nodes tuple(PickleNode node) const noexcept;
  /// The value of a map's last key that is this text, or nothing. Looks at all of them.
  [[nodiscard]] std::optional<PickleNode> find(PickleNode map, std::string_view key) const noexcept;

  /// The parts of an object, each of them None where there is none. Arguments that have names drop all of them.
  [[nodiscard]] PickleNode callable(PickleNode object) const noexcept { return word(object, 4); }
  [[nodiscard]] PickleNode arguments(PickleNode object) const noexcept { return word(object, 5); }
  [[nodiscard]] PickleNode state(PickleNode object) const noexcept { return word(object, 6); }
  /// Returns whether the items of an object are keys and values.
  [[nodiscard]] bool is_mapping(PickleNode object) const noexcept;
  /// The arguments of a call of `name`; nothing for any other node, and where the arguments are not known.
  [[nodiscard]] std::optional<Nodes> call(PickleNode node, std::string_view name) const;
  /// Returns the persistent id: the node that stands for an object which is stored elsewhere.
  [[nodiscard]] PickleNode identity(PickleNode persistent) const noexcept { return word(persistent, 1); }

  /// "torch._utils._rebuild_tensor_v2": of a global, or of an object's callable; empty where that is computed. Names
  /// of Python 2 and of old numpy are those of today: "builtins", "numpy._core". Of a very long one the beginning.
  [[nodiscard]] std::string class_name(PickleNode node) const;

 private:
  friend class PickleReader;

  [[nodiscard]] PickleNode word(PickleNode node, std::uint32_t i) const noexcept {
    return words_[(static_cast<std::uint32_t>(node) & ~static_cast<std::uint32_t>(kNoneNode)) + i];
  }

  std::span<const std::byte> input_;
  PickleNode root_{};
  /// Nodes that are not in the input: a kind, then what pickle.cpp says there. Runs of items lie between them.
  std::vector<PickleNode> words_;
};

}  // namespace cairn::formats
