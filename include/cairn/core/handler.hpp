// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/async/awaitable.hpp"
#include "cairn/core/description.hpp"
#include "cairn/core/load_context.hpp"
#include "cairn/core/save_context.hpp"

namespace cairn {

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

  /// What the checkpoint records: lower case, dotted, with a version ("example.point/1"); never a C++ name.
  [[nodiscard]] virtual std::string_view id() const noexcept = 0;

  /// `value` is valid during the blocking phase only, except with Snapshot::borrow.
  [[nodiscard]] virtual Awaitable<Background<>> save(SaveContext context, const T& value) const = 0;

  /// `wanted` empty: as saved.
  [[nodiscard]] virtual Awaitable<Background<T>> load(LoadContext context,
                                                      std::optional<AbstractT> wanted) const = 0;

  /// Cheap: reads no array data.
  [[nodiscard]] virtual Awaitable<AbstractT> metadata(LoadContext context) const = 0;

  /// What people and tools are told of what metadata answered. Default: nothing, so that they are shown files and sizes.
  [[nodiscard]] virtual Description describe(const AbstractT& /*stored*/) const { return {}; }

  /// Whether this very value can be saved; its type has matched already. Must be quick.
  [[nodiscard]] virtual bool is_handleable(const T&) const { return true; }
  [[nodiscard]] virtual bool is_abstract_handleable(const AbstractT&) const { return true; }

  /// Whether a folder that no Cairn wrote, holding these files, is one that this handler reads.
  [[nodiscard]] virtual bool recognises(std::span<const std::string> /*files*/) const { return false; }
};

/// Under which type values of `T` are looked up. Specialise it for a family of types that one handler serves:
///   `type`              the handler's `Value`;
///   `convert(const T&)` makes one (cheaply: it is called before the blocking phase);
///   `restore(type)`     turns a loaded one back (only for what `Loaded::take<T>` shall support).
template <class T>
struct HandledAs {
  using type = T;
};

}  // namespace cairn
