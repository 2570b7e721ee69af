// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string_view>

#include "cairn/async/awaitable.hpp"
#include "cairn/core/load_context.hpp"
#include "cairn/core/save_context.hpp"

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

 private:
  void* object_ = nullptr;
  Awaitable<Background<>> (*save_)(void*, SaveContext) = nullptr;
  Awaitable<Background<>> (*load_)(void*, LoadContext) = nullptr;
};

}  // namespace cairn
