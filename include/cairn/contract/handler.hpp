// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/load_context.hpp"
#include "cairn/contract/save_context.hpp"

namespace cairn {

class StoredSlices;  // cairn/array/stored_slices.hpp

/// Holds what a checkpoint says of one array.
/// Ownership: the name is valid as long as the range it came from.
struct ArrayEntry {
  std::string_view name;  ///< Its path, as Tree describes paths; empty where the array is all there is.
  DType dtype{};
  Shape shape;
  std::uint64_t bytes = 0;
  std::uint64_t parts = 1;  ///< In which it is stored.
  std::string_view layout;  ///< How it was divided among ranks: JSON; empty when nobody said so.
  std::shared_ptr<const StoredSlices> stored = {};  ///< The parts; null where there is one and no layout.
  std::string_view alias_of = {};  ///< The first name of the array, where this is a further one; else empty.
};

/// The arrays of a checkpointable, in the order of their names; an array with several names comes under each. Reads
/// them where they are described: no tree is built.
///
/// Threads: a value; copies share what they view.
/// Errors:  Errc::malformed_metadata while iterating, when the index is damaged.
/// Example: for (const ArrayEntry& array : arrays(item)) { … }
class ArrayEntries {
 public:
  /// An array that is described in memory.
  struct Described {
    std::string name;
    DType dtype{};
    Shape shape;
    std::uint64_t parts = 1;
    std::string layout = {};
    std::shared_ptr<const StoredSlices> stored = {};
  };

  /// Where arrays are described.
  class Source {
   public:
    virtual ~Source() = default;

    [[nodiscard]] virtual std::size_t size() const noexcept = 0;
    /// Finds the first array at `position` or behind it, and moves `position` there; false when there is none.
    /// `entry` holds the one before, or nothing.
    [[nodiscard]] virtual bool find(std::size_t& position, ArrayEntry& entry) const = 0;
  };

  class Iterator {
   public:
    using value_type = ArrayEntry;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;

    explicit Iterator(const Source* source) : source_(source) { settle(); }

    [[nodiscard]] const ArrayEntry& operator*() const noexcept { return current_; }

    [[nodiscard]] const ArrayEntry* operator->() const noexcept { return &current_; }

    Iterator& operator++() {
      ++position_;
      settle();
      return *this;
    }

    void operator++(int) { ++*this; }

    [[nodiscard]] bool operator==(std::default_sentinel_t) const noexcept { return source_ == nullptr; }

   private:
    void settle() {
      if (source_ != nullptr && !source_->find(position_, current_)) {
        source_ = nullptr;
      }
    }

    const Source* source_ = nullptr;
    std::size_t position_ = 0;
    ArrayEntry current_;
  };

  ArrayEntries() = default;

  explicit ArrayEntries(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  explicit ArrayEntries(std::vector<Described> arrays);

  /// Ownership: iterators refer to what this range and its copies share.
  [[nodiscard]] Iterator begin() const { return Iterator(source_.get()); }

  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// How many there are.
  [[nodiscard]] std::size_t size() const noexcept { return source_ ? source_->size() : 0; }

  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

 private:
  std::shared_ptr<const Source> source_;
};

/// A value of a checkpointable that is not an array.
struct DescribedValue {
  std::string name;  ///< Its path; empty where the value is all there is.
  std::string kind;  ///< "integer", "string", "list", …
  /// Nothing for null, for containers, whose elements are values of their own, and where only the kind is known.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::byte>>
      value;
};

/// Holds what a sharding policy says of itself, in a sentence, and which files it made: none where it made
/// all.
struct FilesOfPolicy {
  std::string policy;
  std::vector<std::string> files;
};

/// A part of a checkpointable that lies in one piece in one of its files.
struct DescribedPart {
  std::string name;  ///< Its path; empty for a part of what is all there is. Several parts may have one name.
  std::string kind;  ///< "message", "bytes", …
  std::string file;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// Holds what a checkpointable holds, for people and for tools that do not know its type.
struct Description {
  Description();
  Description(const Description& other);
  Description(Description&& other) noexcept;
  Description& operator=(const Description& other);
  Description& operator=(Description&& other) noexcept;
  ~Description();

  std::string kind;  ///< "tree", "JSON object": what it is, with what a load would refuse to mix up.
  ArrayEntries arrays;
  std::vector<DescribedValue> values;
  std::vector<FilesOfPolicy>
      policies;        ///< By which the arrays were divided among files; none when nobody asked for anything.
  std::string layout;  ///< Of files of other programs: by which they were read.
  /// Objects that another program has saved and no value can be: `kind` says what it is, and why.
  std::vector<DescribedValue> left_out;
  /// What a load tells of these files, too, in LoadResult::problems: a sentence each.
  std::vector<std::string> problems;
  /// What a load puts together. Two checkpointables of one kind with equal parts are equal.
  std::vector<DescribedPart> parts;
  /// Files that people can read. One whose name ends in ".json" is a JSON document, any other is made of lines.
  std::vector<std::string> texts;
  /// Says whether arrays, values and texts are all that is loaded: then two that agree in them are equal,
  /// whatever their files look like. Else texts only show what the other files hold.
  bool says_all = false;
};

/// Which processes of a job call a handler when they save together; see ContextOptions::coordinator.
enum class Participation : std::uint8_t {
  primary,  ///< Rank 0 alone: right for every value that all ranks have alike.
  all,      ///< Each rank: for values of which each holds a part. Their files need names of their own.
};

/// Saves, loads and describes checkpointables of type `T`. `Abstract` says what a load asks for (types, shapes)
/// and what metadata answers.
///
/// `save` and `load` have two phases. The coroutine itself is the blocking phase: when it returns, the caller
/// may change its values. The awaitable that it returns is the background phase and owns all it touches.
/// The blocking phases of one save run concurrently, and so do the background phases; "concurrently" means on
/// one strand: never two at the same instant. Handlers are shared by saves in flight, hence const.
/// Example: docs/guide.md, "A handler of your own".
template <class T, class AbstractT = T>
class CheckpointableHandler {
 public:
  using Value = T;
  using Abstract = AbstractT;

  virtual ~CheckpointableHandler() = default;

  /// Returns what the checkpoint records: lower case, dotted, with a version ("example.point/1"); never a C++
  /// name.
  [[nodiscard]] virtual std::string_view id() const noexcept = 0;

  /// Returns ids of other forms of its files, which this handler reads too, and may have a save record in place of
  /// `id` (SaveContext::record_id). They are its own: no other handler is registered with one of them.
  [[nodiscard]] virtual std::span<const std::string_view> other_ids() const noexcept { return {}; }

  /// Returns which ranks save where several processes save together. Default: rank 0, so that a handler that
  /// was written for one process is right unchanged. The same on every rank.
  [[nodiscard]] virtual Participation participation() const noexcept { return Participation::primary; }

  /// `value` is valid during the blocking phase only, except with Snapshot::borrow.
  [[nodiscard]] virtual Awaitable<Background<>> save(SaveContext context, const T& value) const = 0;

  /// `wanted` empty: as saved.
  [[nodiscard]] virtual Awaitable<Background<T>> load(LoadContext context,
                                                      std::optional<AbstractT> wanted) const = 0;

  /// Cheap: reads no array data.
  [[nodiscard]] virtual Awaitable<AbstractT> metadata(LoadContext context) const = 0;

  /// Returns what people and tools are told of what metadata answered. Default: nothing, so that they are
  /// shown files and sizes.
  [[nodiscard]] virtual Description describe(const AbstractT& /*stored*/) const { return {}; }

  /// Returns whether this very value can be saved; its type has matched already. Must be quick.
  [[nodiscard]] virtual bool is_handleable(const T&) const { return true; }
  [[nodiscard]] virtual bool is_abstract_handleable(const AbstractT&) const { return true; }

  /// Returns whether a folder that no Cairn wrote, holding these files, is one that this handler reads.
  [[nodiscard]] virtual bool recognises(std::span<const std::string> /*files*/) const { return false; }

  /// Returns whether a load with these options takes them. Default: as `recognises` says.
  [[nodiscard]] virtual bool takes(std::span<const std::string> files, const OptionSet& /*options*/) const {
    return recognises(files);
  }
};

/// Under which type values of `T` are looked up. Specialise it for a family of types that one handler serves:
///   `type`              the handler's `Value`;
///   `convert(const T&)` makes one (cheaply: it is called before the blocking phase);
///   `restore(type)`     turns a loaded one back (only for what `Loaded::take<T>` is to support).
/// Or, for types that somebody may have a handler for, which comes first:
///   `type`              `T` itself;
///   `Otherwise`         the `Value` of the handler that serves `T` where none takes it;
///   `convert_otherwise(const T&)`, `restore_otherwise(const Otherwise&)` as above.
template <class T>
struct HandledAs {
  using type = T;
};

}  // namespace cairn
