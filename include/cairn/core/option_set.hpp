// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <typeindex>
#include <utility>

#include "cairn/core/any_value.hpp"

namespace cairn {

/// Options of handlers, one of each type, carried through a save or a load to whoever knows the type.
///
/// Example: options.handler_options.set(ArrayOptions(DType::bfloat16));
class OptionSet {
 public:
  OptionSet() = default;

  template <class T>
  OptionSet& set(T options) {
    options_.insert_or_assign(typeid(T), AnyValue::of(std::move(options)));
    return *this;
  }

  /// The options of this type, or null when nobody set any.
  template <class T>
  [[nodiscard]] const T* find() const {
    const auto found = options_.find(typeid(T));
    return found == options_.end() ? nullptr : found->second.template as<T>();
  }

 private:
  std::map<std::type_index, AnyValue> options_;
};

}  // namespace cairn
