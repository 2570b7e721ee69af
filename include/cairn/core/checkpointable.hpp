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
#include "cairn/core/handler.hpp"
#include "cairn/core/stateful.hpp"

namespace cairn {

/// A name and a reference to the value to be saved under it.
///
/// Ownership: the value is the caller's, and must live until the call that saves it returns; with
///            Snapshot::borrow until `committed`. A temporary is therefore refused for borrow.
class Checkpointable {
 public:
  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, Checkpointable>)
      Checkpointable(std::string name, T&& value)  // NOLINT: implicit, so that {"name", value} is one.
      : name_(std::move(name)), shown_type_(typeid(T)), is_temporary_(!std::is_lvalue_reference_v<T>) {
    using Plain = std::remove_cvref_t<T>;
    near_miss_ = save_near_miss<Plain>();
    if constexpr (StatefulSavable<Plain>) {
      own(StatefulReference::to_save(std::as_const(value)));
    } else if constexpr (requires { HandledAs<Plain>::convert(std::as_const(value)); }) {
      own(HandledAs<Plain>::convert(std::as_const(value)));
    } else {
      using Handled = typename HandledAs<Plain>::type;
      const Handled& handled = value;
      type_ = typeid(Handled);
      value_ = &handled;
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
  [[nodiscard]] bool is_temporary() const noexcept { return is_temporary_; }

 private:
  template <class Handled>
  void own(Handled handled) {
    owned_ = AnyValue::of(std::move(handled));
    type_ = owned_.type();
    value_ = owned_.get();
  }

  std::string name_;
  std::type_index shown_type_;
  std::string_view near_miss_;
  bool is_temporary_;
  std::type_index type_ = typeid(void);
  const void* value_ = nullptr;
  AnyValue owned_;
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
      : name_(std::move(name)), wanted_(AnyValue::of(std::move(wanted))) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const AnyValue& wanted() const noexcept { return wanted_; }

 private:
  std::string name_;
  AnyValue wanted_;
};

using Requests = std::vector<Request>;

/// Asks for a load into an object that loads itself.
///
/// Ownership: `object` must live until the load has finished.
template <StatefulLoadable T>
StatefulReference into(T& object) {
  return StatefulReference::to_load(object);
}

}  // namespace cairn
