// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/load_context.hpp"
#include "cairn/contract/save_context.hpp"
#include "cairn/contract/value_traits.hpp"

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

/// Says whether a type has said that it is saved only, as a log for people is: `static constexpr bool kIsSavedOnly =
/// true` in it. Any other object that saves itself loads itself, too, or does not compile where it is saved.
template <class T>
inline constexpr bool kIsSavedOnly = requires {
  requires T::kIsSavedOnly;
};

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
    reference.type_ = typeid(T);
    reference.load_ = [](void* self, LoadContext context) {
      return static_cast<T*>(self)->load(std::move(context));
    };
    return reference;
  }

  [[nodiscard]] bool can_save() const noexcept { return save_ != nullptr; }
  [[nodiscard]] bool can_load() const noexcept { return load_ != nullptr; }
  /// Where the object lies.
  [[nodiscard]] const void* object() const noexcept { return object_; }
  /// The object when it is a `T` that was to be loaded, else null.
  template <class T>
  [[nodiscard]] T* loaded_as() const noexcept {
    return type_ == typeid(T) ? static_cast<T*>(object_) : nullptr;
  }
  /// The type of an object that was to be loaded.
  [[nodiscard]] std::type_index type() const noexcept { return type_; }
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
  std::type_index type_ = typeid(void);
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

/// A name and the value to be saved under it.
///
/// Ownership: an lvalue is the caller's, who keeps it until the save has released it: until `staged` with
///            Snapshot::copy and share, to the end with Snapshot::borrow. A value given as an rvalue is moved into
///            the save; what it refers to (a view's elements) stays the caller's.
class Checkpointable {
 public:
  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, Checkpointable>)
      Checkpointable(std::string name, T&& value)  // NOLINT: implicit, so that {"name", value} is one.
      : name_(std::move(name)), shown_type_(typeid(T)) {
    using Plain = std::remove_cvref_t<T>;
    near_miss_ = save_near_miss<Plain>();
    if constexpr (!std::is_lvalue_reference_v<T> && std::constructible_from<Plain, T>) {
      const auto held = std::make_shared<const Plain>(std::forward<T>(value));
      refer(*held);
      hold(held);
    } else {
      refer(std::as_const(value));
      is_temporary_ = !std::is_lvalue_reference_v<T>;
      if constexpr (requires { OwnsItsMemory<Plain>::kIsShared; }) {
        original_ = &value;
        hold_ = [](Checkpointable& self) {
          const auto held = std::make_shared<const Plain>(*static_cast<const Plain*>(self.original_));
          self.refer(*held);
          self.hold(held);
        };
      }
    }
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The type under which it is looked up, and the value as that type.
  [[nodiscard]] std::type_index type() const noexcept { return type_; }
  [[nodiscard]] const void* value() const noexcept { return value_; }
  /// The type that the caller wrote, for messages.
  [[nodiscard]] std::type_index shown_type() const noexcept { return shown_type_; }
  /// See save_near_miss.
  [[nodiscard]] std::string_view near_miss() const noexcept { return near_miss_; }

  /// Returns whether it is a temporary that cannot be moved: it ends with the expression that made it.
  [[nodiscard]] bool is_temporary() const noexcept { return is_temporary_; }
  /// Returns whether the value was moved, or copied, into this.
  [[nodiscard]] bool is_held() const noexcept { return held_ != nullptr; }
  /// Returns whether nothing that it shows is the caller's. Looks at the whole value.
  [[nodiscard]] bool owns_memory() const { return is_held() && owns_memory_(held_.get()); }

  /// Makes it a value of the other type that HandledAs gives it; false when there is none. For when no handler takes
  /// its own.
  bool take_other_form() {
    if (other_form_ == nullptr) {
      return false;
    }
    const auto make = std::exchange(other_form_, nullptr);
    make(*this);
    return true;
  }

  /// Copies the value into this, if copies of it share what they show.
  void hold_copy() {
    if (!held_ && hold_ != nullptr) {
      hold_(*this);
    }
  }

 private:
  template <class Plain>
  void hold(std::shared_ptr<const Plain> held) {
    held_ = std::move(held);
    owns_memory_ = [](const void* value) {
      return OwnsItsMemory<Plain>::check(*static_cast<const Plain*>(value));
    };
  }

  template <class Plain>
  void refer(const Plain& value) {
    if constexpr (StatefulSavable<Plain>) {
      static_assert(
          StatefulLoadable<Plain> || kIsSavedOnly<Plain>,
          "this object saves itself and could not be loaded: give it the member "
          "'Awaitable<Background<>> load(LoadContext)', or say that it is saved only, by 'static constexpr "
          "bool kIsSavedOnly = true' in its type");
      own(StatefulReference::to_save(value));
    } else if constexpr (requires { HandledAs<Plain>::convert(value); }) {
      own(HandledAs<Plain>::convert(value));
    } else {
      using Handled = typename HandledAs<Plain>::type;
      const Handled& handled = value;
      type_ = typeid(Handled);
      value_ = &handled;
      if constexpr (requires { HandledAs<Plain>::convert_otherwise(value); }) {
        other_form_ = [](Checkpointable& self) {
          self.own(HandledAs<Plain>::convert_otherwise(*static_cast<const Plain*>(self.value_)));
        };
      }
    }
  }

  template <class Handled>
  void own(Handled handled) {
    converted_ = AnyValue::of(std::move(handled));
    type_ = converted_.type();
    value_ = converted_.get();
  }

  std::string name_;
  std::type_index shown_type_;
  std::string_view near_miss_;
  bool is_temporary_ = false;
  std::type_index type_ = typeid(void);
  const void* value_ = nullptr;
  AnyValue converted_;                // What `value_` points to, where the handler takes another type.
  std::shared_ptr<const void> held_;  // What was moved in.
  bool (*owns_memory_)(const void* held) = nullptr;
  const void* original_ = nullptr;
  void (*hold_)(Checkpointable& self) = nullptr;
  void (*other_form_)(Checkpointable& self) = nullptr;
};

using Checkpointables = std::vector<Checkpointable>;

/// Holds what a load is asked for: the name of a checkpointable, and perhaps in which form.
class Request {
 public:
  /// As it was saved.
  Request(std::string name) : name_(std::move(name)) {}  // NOLINT: implicit, so that "name" is one.
  Request(const char* name) : name_(name) {}             // NOLINT

  /// In the form that an abstract value describes, or into an object (see `into`).
  template <class Abstract>
  Request(std::string name, Abstract wanted)
      : name_(std::move(name)),
        wanted_(AnyValue::of(std::move(wanted))),
        writes_to_caller_([](const void* value) {
          return WritesToCaller<Abstract>::check(*static_cast<const Abstract*>(value));
        }) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const AnyValue& wanted() const noexcept { return wanted_; }
  /// Returns whether the load may write into memory of the caller's. Looks at all that is wanted.
  [[nodiscard]] bool writes_to_caller() const {
    return writes_to_caller_ != nullptr && writes_to_caller_(wanted_.get());
  }

 private:
  std::string name_;
  AnyValue wanted_;
  bool (*writes_to_caller_)(const void* wanted) = nullptr;
};

using Requests = std::vector<Request>;

/// Asks for a load into an object that loads itself.
///
/// Ownership: `object` must live until the load has released it.
template <StatefulLoadable T>
StatefulReference into(T& object) {
  return StatefulReference::to_load(object);
}

}  // namespace cairn
