// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "cairn/base/error.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/response.hpp"
#include "cairn/observe/report.hpp"

namespace cairn {

namespace core {
class LoadJob;
}

struct LoadOptions {
  LoadOptions() = default;

  /// Compare what is read with the checkpoint's hashes. Off saves little and trusts the disk.
  bool verify = true;
  /// From the call to the end; afterwards the load fails with Errc::timed_out. Zero: no limit.
  Timeout deadline;
  /// Takes a trace of this load; see TraceSink. Null: none is made, which costs nothing.
  TraceSink trace;
  /// All ranks of the context's job call this load, in the same order among their saves and loads, for the
  /// same path and names, each for what it wants of them. Rank 0 alone reads what describes the checkpoint.
  /// One of the ranks that want a byte of its arrays reads it and passes it on. All ranks succeed or fail
  /// together, but for a rank that is lost. It does not begin again when the checkpoint is replaced
  /// meanwhile. Without it ranks load independently. Only for loads: metadata and load_latest refuse it.
  bool together = false;
  /// With `together`: as SaveOptions::join_timeout.
  Timeout join_timeout;
  /// For `together`: the ranks of this one's group, itself included; empty: all ranks. A byte is then read once in each
  /// group of which some rank wants it. All members name the same ranks.
  std::vector<std::uint32_t> group;
  /// Which checkpoint is expected, as CheckpointMetadata::uuid has it; Errc::not_found when another one has the name
  /// by now. Ranks that load independently are sure of loading the same with it. Empty: whichever is there.
  std::string uuid;
  /// What handlers look for, by type.
  OptionSet handler_options;
  /// Handlers on top of those of the context, for this call only.
  HandlerRegistry registry;
};

/// The values that a load returned, by name. A temporary returns its parts as values.
class Loaded {
 public:
  Loaded();
  Loaded(const Loaded&);
  Loaded(Loaded&&) noexcept;
  Loaded& operator=(const Loaded&);
  Loaded& operator=(Loaded&&) noexcept;
  ~Loaded();

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, AnyValue, std::less<>>& values() const& { return values_; }
  [[nodiscard]] std::map<std::string, AnyValue, std::less<>> values() && { return std::move(values_); }
  /// Returns what the load did.
  [[nodiscard]] const LoadResult& result() const& { return result_; }
  [[nodiscard]] LoadResult result() && { return std::move(result_); }

  /// Moves the value out. Of an object that loaded itself: `take<T&>` is the object, `take<T>` a copy of it; see
  /// `into`.
  ///
  /// Errors: Errc::not_found when nothing of that name was loaded (or it was taken); Errc::type_mismatch when
  ///         its handler returned another type.
  template <class T>
  T take(std::string_view name) {
    using Object = std::remove_reference_t<T>;
    if constexpr (StatefulLoadable<Object> && !std::same_as<Object, StatefulReference>) {
      if (is_held_as(name, typeid(StatefulReference))) {
        const AnyValue held = take_any(name, typeid(StatefulReference));
        const auto& reference = *held.as<StatefulReference>();
        if constexpr (std::is_reference_v<T> || std::copy_constructible<Object>) {
          if (Object* object = reference.loaded_as<Object>()) {
            return *object;
          }
        }
        throw_other_object(name, reference.type(), typeid(Object));
      }
    }
    if constexpr (std::is_reference_v<T>) {
      static_cast<void>(take_any(name, typeid(StatefulReference)));
      throw_other_object(name, typeid(void), typeid(Object));
    } else {
      return take_value<T>(name);
    }
  }

 private:
  friend class core::LoadJob;

  template <class T>
  T take_value(std::string_view name) {
    using Handled = typename HandledAs<T>::type;
    if constexpr (requires { typename HandledAs<T>::Otherwise; }) {
      using Otherwise = typename HandledAs<T>::Otherwise;
      if (is_held_as(name, typeid(Otherwise))) {
        const AnyValue value = take_any(name, typeid(Otherwise));
        try {
          return restore_otherwise<T>(name, *value.as<Otherwise>());
        } catch (const Error&) {
          rethrow_named(name);
        }
      }
    }
    AnyValue value = take_any(name, typeid(Handled));
    if constexpr (std::same_as<Handled, T>) {
      return std::move(*value.as<Handled>());
    } else {
      try {
        return HandledAs<T>::restore(std::move(*value.as<Handled>()));
      } catch (const Error&) {
        rethrow_named(name);
      }
    }
  }

  template <class T, class Otherwise>
  T restore_otherwise(std::string_view name, const Otherwise& held) {
    LoadResult found;
    if constexpr (requires { HandledAs<T>::restore_otherwise(held, options_, found); }) {
      T value = HandledAs<T>::restore_otherwise(held, options_, found);
      add_differences(name, std::move(found));
      return value;
    } else {
      return HandledAs<T>::restore_otherwise(held);
    }
  }

  /// Adds the paths of what is missing and unexpected in one of the checkpointables.
  void add_differences(std::string_view name, LoadResult found);
  [[nodiscard]] bool is_held_as(std::string_view name, std::type_index type) const;
  AnyValue take_any(std::string_view name, std::type_index type);
  /// Throws the error that is being handled, with the name of the checkpointable before it.
  [[noreturn]] static void rethrow_named(std::string_view name);
  [[noreturn]] static void throw_other_object(std::string_view name, std::type_index object,
                                              std::type_index wanted);

  std::map<std::string, AnyValue, std::less<>> values_;
  LoadResult result_;
  OptionSet options_;  // Of handlers, as the load had them.
  bool is_one_of_many_ = false;
};

/// How far a load has come.
struct LoadProgress {
  std::uint64_t total_bytes = 0;  ///< To be read; grows while handlers ask for files.
  /// Read, verified and brought to where they belong.
  std::uint64_t loaded_bytes = 0;
};

/// A load in flight; core::Response says how it ends. Where it writes into memory of the caller's (objects,
/// `place_into`), `answered` waits for `released`.
///
/// When it is dropped and goes on, its values go with it. Only one thread gets the result.
class LoadResponse : public core::Response {
 public:
  /// Refers to no load: waiting for it returns at once.
  LoadResponse() = default;
  explicit LoadResponse(std::shared_ptr<core::LoadJob> job) noexcept;

  /// Blocks until all is loaded; rethrows what went wrong. The values are moved out.
  ///
  /// Errors: Errc::invalid_argument on one of the context's own threads, which would wait for itself.
  [[nodiscard]] Loaded wait() const;
  /// Errors: Errc::still_running; the load goes on, and nothing has been promised.
  [[nodiscard]] Loaded wait(Timeout timeout) const;

  /// Awaits the result, on the caller's executor.
  ///
  /// Cancel: stops waiting. If the caller's memory is not yet released, also stops the load, and waits until it is
  ///         released.
  [[nodiscard]] Awaitable<Loaded> loaded() const;

  /// Returns what the load did. Blocks as `wait` and rethrows what went wrong, but leaves the values for
  /// `wait`.
  [[nodiscard]] LoadResult result() const;
  /// Begins again at zero when the checkpoint is replaced meanwhile, and the load with it.
  [[nodiscard]] LoadProgress progress() const;
};

/// A file of a checkpointable.
struct FileMetadata {
  std::string name;  ///< In the checkpointable's directory.
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> rank = {};  ///< Who wrote it; nothing where one process wrote all.
};

/// Holds what a checkpoint says of one checkpointable, without its data.
struct ItemMetadata {
  std::string handler_id;           ///< As recorded; of a foreign folder, of the handler that recognised it.
  std::vector<FileMetadata> files;  ///< Sorted by name.
  std::uint64_t bytes = 0;          ///< In its files.
  /// The handler's abstract value; empty when no handler could describe it, and `problem` says why: its files are
  /// damaged or missing, its handler is not registered or has failed. The other checkpointables are described all the
  /// same.
  AnyValue abstract;
  std::string problem;
  std::error_code problem_code;
  std::shared_ptr<const ErasedHandler> handler;  ///< Whose abstract value it is; null when there is none.

  /// Returns what the handler says of it to people; nothing when no handler could describe it.
  ///
  /// Errors: Errc::malformed_metadata when files are damaged; what the handler throws.
  [[nodiscard]] Description description() const;

  /// Errors: `problem_code` with `problem` when there is one; Errc::type_mismatch when the abstract value is of another
  ///         type.
  template <class Abstract>
  [[nodiscard]] const Abstract& as() const& {
    if (const Abstract* value = abstract.as<Abstract>())
      return *value;
    throw_mismatch(typeid(Abstract));
  }
  template <class Abstract>
  [[nodiscard]] Abstract as() && {
    return std::as_const(*this).template as<Abstract>();
  }

 private:
  [[noreturn]] void throw_mismatch(std::type_index wanted) const;
};

/// The arrays of a checkpointable, as its handler describes them.
///
/// Errors:  as ItemMetadata::description.
/// Example: for (const ArrayEntry& array : arrays(metadata.at("state"))) { … }
[[nodiscard]] ArrayEntries arrays(const ItemMetadata& item);

/// Holds what a checkpoint says of itself.
struct CheckpointMetadata {
  std::filesystem::path path;
  std::string uuid;  ///< Empty for foreign folders and files.
  std::string started;
  std::string committed;
  std::uint32_t world_size = 1;
  std::string custom_metadata = "null";
  std::string annotations = "{}";  ///< As SaveOptions::annotations.
  std::map<std::string, ItemMetadata, std::less<>> items;

  [[nodiscard]] auto begin() const { return items.begin(); }
  [[nodiscard]] auto end() const { return items.end(); }
  /// Errors: Errc::not_found, listing what there is.
  [[nodiscard]] const ItemMetadata& at(std::string_view name) const&;
  [[nodiscard]] ItemMetadata at(std::string_view name) && { return std::as_const(*this).at(name); }
};

}  // namespace cairn
