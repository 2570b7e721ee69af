// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <typeindex>
#include <utility>

#include "cairn/base/error.hpp"

namespace cairn {

/// The name of a C++ type as people write it.
std::string type_name(std::type_index type);

/// A value of any type, shared between copies. Empty by default.
class AnyValue {
 public:
  AnyValue() = default;

  template <class T>
  static AnyValue of(T value) {
    return {typeid(T), std::make_shared<T>(std::move(value))};
  }

  [[nodiscard]] bool has_value() const noexcept { return value_ != nullptr; }
  [[nodiscard]] std::type_index type() const noexcept { return type_; }
  [[nodiscard]] const void* get() const noexcept { return value_.get(); }

  /// The value when it is a `T`, else null.
  template <class T>
  [[nodiscard]] const T* as() const noexcept {
    return type_ == typeid(T) ? static_cast<const T*>(value_.get()) : nullptr;
  }

  /// As above, to be moved from.
  template <class T>
  [[nodiscard]] T* as() noexcept {
    return type_ == typeid(T) ? static_cast<T*>(value_.get()) : nullptr;
  }

 private:
  AnyValue(std::type_index type, std::shared_ptr<void> value) : type_(type), value_(std::move(value)) {}

  std::type_index type_ = typeid(void);
  std::shared_ptr<void> value_;
};

}  // namespace cairn
