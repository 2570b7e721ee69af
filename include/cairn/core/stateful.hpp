// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "cairn/async/awaitable.hpp"
#include "cairn/core/load_context.hpp"
#include "cairn/core/save_context.hpp"
#include "cairn/core/watched_memory.hpp"

namespace cairn {

/// An object that saves itself: `Awaitable<Background<>> save(SaveContext) const`.
template <class T>
concept StatefulSavable = requires(const T& object, SaveContext context) {
  { object.save(context) } -> std::same_as<Awaitable<Background<>>>;
};

/// An object that loads itself, in place: `Awaitable<Background<>> load(LoadContext)`.
template <class T>
concept StatefulLoadable = requires(T& object, LoadContext context) {
  { object.load(context) } -> std::same_as<Awaitable<Background<>>>;
};

/// An object that does both, found by its members: no base class, no registration.
template <class T>
concept StatefulCheckpointable = StatefulSavable<T> && StatefulLoadable<T>;

/// Says what keeps a type with a member `save` from saving itself; empty when it has none that can be seen.
template <class T>
constexpr std::string_view save_near_miss() noexcept {
  if constexpr (StatefulSavable<T>) {
    return {};
  } else if constexpr (requires(const T& object, SaveContext context) { object.save(context); }) {
    return "its member 'save(SaveContext) const' returns another type than Awaitable<Background<>>";
  } else if constexpr (requires(T & object, SaveContext context) { object.save(context); }) {
    return "its member 'save(SaveContext)' is not const";
  } else if constexpr (requires { &T::save; }) {
    return "its member 'save' takes something else than one SaveContext";
  } else {
    return {};
  }
}

/// A reference to some object that saves or loads itself; what the handler of such objects works on.
///
/// Ownership: the object is the caller's, until the save is committed or the load has finished.
class StatefulReference {
 public:
  StatefulReference() = default;

  template <StatefulSavable T>
  static StatefulReference to_save(const T& object) {
    StatefulReference reference;
    reference.object_ = const_cast<T*>(&object);  // Only passed back to a const T below.
    reference.save_ = [](void* self, SaveContext context) {
      return static_cast<const T*>(self)->save(std::move(context));
    };
    reference.copy_ = [](const void* self, const std::shared_ptr<WatchedMemory>& memory) -> const void* {
      return WatchedCopy<T>::make(*static_cast<const T*>(self), memory);
    };
    return reference;
  }

  template <StatefulLoadable T>
  static StatefulReference to_load(T& object) {
    StatefulReference reference;
    reference.object_ = &object;
    reference.load_ = [](void* self, LoadContext context) {
      return static_cast<T*>(self)->load(std::move(context));
    };
    return reference;
  }

  [[nodiscard]] bool can_save() const noexcept { return save_ != nullptr; }
  [[nodiscard]] bool can_load() const noexcept { return load_ != nullptr; }
  /// Where the object lies.
  [[nodiscard]] const void* object() const noexcept { return object_; }
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context) const {
    return save_(object_, std::move(context));
  }
  [[nodiscard]] Awaitable<Background<>> load(LoadContext context) const {
    return load_(object_, std::move(context));
  }
  /// Refers to a copy of the object to be saved, in `memory`; nothing when the object cannot be copied.
  [[nodiscard]] std::optional<StatefulReference> copy(const std::shared_ptr<WatchedMemory>& memory) const {
    const void* copied = copy_ != nullptr ? copy_(object_, memory) : nullptr;
    if (copied == nullptr) {
      return std::nullopt;
    }
    StatefulReference reference = *this;
    reference.object_ = const_cast<void*>(copied);  // As in to_save.
    return reference;
  }

 private:
  void* object_ = nullptr;
  Awaitable<Background<>> (*save_)(void*, SaveContext) = nullptr;
  Awaitable<Background<>> (*load_)(void*, LoadContext) = nullptr;
  const void* (*copy_)(const void*, const std::shared_ptr<WatchedMemory>&) = nullptr;
};

/// The object is copied with the reference to it.
template <>
struct WatchedCopy<StatefulReference> {
  static const StatefulReference* make(const StatefulReference& value,
                                       const std::shared_ptr<WatchedMemory>& memory) {
    const std::optional<StatefulReference> copied = value.copy(memory);
    return copied ? &memory->make<StatefulReference>(*copied) : nullptr;
  }
};

}  // namespace cairn
