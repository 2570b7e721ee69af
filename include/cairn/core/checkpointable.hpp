// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/core/any_value.hpp"
#include "cairn/core/callers_memory.hpp"
#include "cairn/core/handler.hpp"
#include "cairn/core/stateful.hpp"

namespace cairn {

/// A name and the value to be saved under it.
///
/// Ownership: an lvalue is the caller's, who keeps it until the save has released it: until `staged` with Snapshot::copy and
///            share, to the end with Snapshot::borrow. A value given as an rvalue is moved into the save; what it refers to
///            (a view's elements) stays the caller's.
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

  /// Whether it is a temporary that cannot be moved: it ends with the expression that made it.
  [[nodiscard]] bool is_temporary() const noexcept { return is_temporary_; }
  /// Whether the value was moved, or copied, into this.
  [[nodiscard]] bool is_held() const noexcept { return held_ != nullptr; }
  /// Whether nothing that it shows is the caller's. Looks at the whole value.
  [[nodiscard]] bool owns_memory() const { return is_held() && owns_memory_(held_.get()); }

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
      own(StatefulReference::to_save(value));
    } else if constexpr (requires { HandledAs<Plain>::convert(value); }) {
      own(HandledAs<Plain>::convert(value));
    } else {
      using Handled = typename HandledAs<Plain>::type;
      const Handled& handled = value;
      type_ = typeid(Handled);
      value_ = &handled;
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
};

using Checkpointables = std::vector<Checkpointable>;

/// What a load is asked for: the name of a checkpointable, and perhaps in which form.
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
  /// Whether the load may write into memory of the caller's. Looks at all that is wanted.
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
