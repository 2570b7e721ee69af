// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::formats {

/// The largest pickle that is read.
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

/// The number of a node in its Pickle. Number 0 is None.
enum class PickleNode : std::uint32_t {};

inline constexpr PickleNode kNoneNode{};

/// What a pickle says, as nodes. A pickle is a program that imports classes and calls them; this reads its text and
/// keeps what it would have done as a graph: a class is a pair of names, a call is a node. Nothing is imported, looked
/// up or called, whatever the bytes say.
///
/// Nodes may be shared, and a list may hold itself: who follows items bounds depth and number.
/// Ownership: a view of the input, which must outlive it.
/// Threads:   const methods may run at the same time.
/// Source:    docs/format.md, "Pickles".
class Pickle {
 public:
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
      while (left_ == 0) {
        if (next_run_ == 0) {
          return false;
        }
        at_ = next_run_ + 2;
        left_ = runs_[next_run_ + 1];
        next_run_ = runs_[next_run_];
      }
      node = PickleNode{runs_[at_++]};
      --left_;
      return true;
    }

   private:
    friend class Pickle;
    const std::uint32_t* runs_ = nullptr;
    std::uint32_t at_ = 0;
    std::uint32_t left_ = 0;
    std::uint32_t next_run_ = 0;
  };

  [[nodiscard]] PickleNode root() const noexcept { return root_; }
  [[nodiscard]] std::uint64_t input_bytes() const noexcept { return input_.size(); }
  [[nodiscard]] PickleKind kind(PickleNode node) const noexcept { return at(node).kind; }

  /// Each of these is for nodes of its kind; an integer's value is that of unsigned ones, too.
  [[nodiscard]] bool boolean(PickleNode node) const noexcept { return at(node).value != 0; }
  [[nodiscard]] std::uint64_t integer(PickleNode node) const noexcept { return at(node).value; }
  [[nodiscard]] double real(PickleNode node) const noexcept { return std::bit_cast<double>(at(node).value); }

  /// The bytes of a text or of bytes, and where they begin in the input.
  [[nodiscard]] std::string_view text(PickleNode node) const noexcept;
  [[nodiscard]] std::uint64_t offset(PickleNode node) const noexcept { return at(node).value; }

  /// How many items a container or an object has; a map has two for each of its keys.
  [[nodiscard]] std::size_t size(PickleNode node) const noexcept { return at(node).size; }
  [[nodiscard]] Items items(PickleNode node) const noexcept;
  /// An item of a tuple; `i` is below its size.
  [[nodiscard]] PickleNode item(PickleNode tuple, std::size_t i) const noexcept;
  /// The value of a map's last key that is this text, or nothing. Looks at all of them.
  [[nodiscard]] std::optional<PickleNode> find(PickleNode map, std::string_view key) const noexcept;

  /// The parts of an object. What no arguments came with has None for them: arguments that have names are dropped.
  [[nodiscard]] PickleNode callable(PickleNode object) const noexcept { return object_at(object).callable; }
  [[nodiscard]] PickleNode arguments(PickleNode object) const noexcept { return object_at(object).arguments; }
  [[nodiscard]] PickleNode state(PickleNode object) const noexcept { return object_at(object).state; }
  /// Returns whether the items of an object are keys and values.
  [[nodiscard]] bool is_mapping(PickleNode object) const noexcept { return at(object).is_mapping; }

  /// What stands for an object that is stored elsewhere.
  [[nodiscard]] PickleNode identity(PickleNode persistent) const noexcept {
    return PickleNode{static_cast<std::uint32_t>(at(persistent).value)};
  }

  /// "torch._utils._rebuild_tensor_v2": of a global, or of an object's callable; empty where that is computed. Names
  /// of Python 2 and of old numpy are those of today: "builtins", "numpy._core".
  [[nodiscard]] std::string class_name(PickleNode node) const;

 private:
  friend class PickleReader;

  struct Node {
    PickleKind kind{};
    bool is_mapping = false;
    std::uint32_t size = 0;   ///< Of a text in bytes, of a container in items.
    std::uint64_t value = 0;  ///< A number, an offset, or two numbers: the first and the last run of items.
  };
  static_assert(sizeof(Node) == 16);

  struct Object {
    PickleNode callable{};
    PickleNode arguments{};
    PickleNode state{};
    std::uint64_t runs = 0;  ///< As the value of a container.
  };

  [[nodiscard]] const Node& at(PickleNode node) const noexcept {
    return nodes_[static_cast<std::uint32_t>(node)];
  }
  [[nodiscard]] const Object& object_at(PickleNode object) const noexcept {
    return objects_[static_cast<std::size_t>(at(object).value)];
  }

  std::span<const std::byte> input_;
  PickleNode root_{};
  std::vector<Node> nodes_;
  std::vector<Object> objects_;
  /// Of a tuple its items. Of other containers runs: the place of the next run or 0, the number of items, the items.
  std::vector<std::uint32_t> runs_;
};

}  // namespace cairn::formats
