// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

namespace cairn {

/// The name of a C++ type as people write it.
std::string type_name(std::type_index type);

/// A value of any type, shared between copies. Empty by default. What would point into a temporary does not compile.
class AnyValue {
 public:
  AnyValue() = default;

  template <class T>
  static AnyValue of(T value) {
    return {typeid(T), std::make_shared<T>(std::move(value))};
  }

  [[nodiscard]] bool has_value() const noexcept { return value_ != nullptr; }
  [[nodiscard]] std::type_index type() const noexcept { return type_; }
  [[nodiscard]] const void* get() const& noexcept { return value_.get(); }
  const void* get() const&& = delete;

  /// The value when it is a `T`, else null.
  template <class T>
  [[nodiscard]] const T* as() const& noexcept {
    return type_ == typeid(T) ? static_cast<const T*>(value_.get()) : nullptr;
  }

  /// As above, to be moved from.
  template <class T>
  [[nodiscard]] T* as() & noexcept {
    return type_ == typeid(T) ? static_cast<T*>(value_.get()) : nullptr;
  }
  template <class T>
  const T* as() const&& = delete;

 private:
  AnyValue(std::type_index type, std::shared_ptr<void> value) : type_(type), value_(std::move(value)) {}

  std::type_index type_ = typeid(void);
  std::shared_ptr<void> value_;
};

/// Holds what one save makes of an option. Made when it begins, of a copy of the option.
class OptionUse {
 public:
  virtual ~OptionUse() = default;

  /// All blocking phases of the save are over. Called on rank 0 only; what it throws fails the save.
  virtual void end() const = 0;
};

/// What options say, for messages: of each its name, and what it is.
using OptionWords = std::vector<std::pair<std::string, std::string>>;

/// Options of handlers, one of each type, carried through a save or a load to the code that knows the type.
///
/// A type of options with a member class `Use`, which is an OptionUse and made of such options, has what it remembers
/// of one save there; see SaveContext::use. One with a const member `same_on_all_ranks`, which returns OptionWords,
/// says there what the ranks of a job must have alike: a save whose ranks differ in it fails on all of them, with
/// those words. What is left at its default is left out, so that ranks which do not set such options say the same.
/// Example: options.handler_options.set(ArrayOptions(DType::bfloat16));
class OptionSet {
 public:
  using Uses = std::map<std::type_index, std::shared_ptr<OptionUse>>;

  OptionSet();
  OptionSet(const OptionSet&);
  OptionSet(OptionSet&&) noexcept;
  OptionSet& operator=(const OptionSet&);
  OptionSet& operator=(OptionSet&&) noexcept;
  ~OptionSet();

  template <class T>
  OptionSet& set(T options) {
    if constexpr (requires { typename T::Use; }) {
      set_use(typeid(T), [](const void* value) -> std::shared_ptr<OptionUse> {
        return std::make_shared<typename T::Use>(*static_cast<const T*>(value));
      });
    }
    if constexpr (requires { options.same_on_all_ranks(); }) {
      set_say(typeid(T), [](const void* value) -> OptionWords {
        return static_cast<const T*>(value)->same_on_all_ranks();
      });
    }
    set_value(AnyValue::of(std::move(options)));
    return *this;
  }

  /// The options of this type, or null when nobody set any. Not of a temporary.
  template <class T>
  [[nodiscard]] const T* find() const& {
    const AnyValue* found = find(typeid(T));
    return found == nullptr ? nullptr : found->as<T>();
  }
  template <class T>
  const T* find() const&& = delete;

  /// Returns what one save makes of the options, by their types.
  [[nodiscard]] Uses begin_uses() const;

  /// Returns what all options say that ranks must have alike, in an order that is the same on all.
  [[nodiscard]] OptionWords same_on_all_ranks() const;

 private:
  using MakeUse = std::shared_ptr<OptionUse> (*)(const void* options);
  using Say = OptionWords (*)(const void* options);

  void set_use(std::type_index type, MakeUse make);
  void set_say(std::type_index type, Say say);
  void set_value(AnyValue value);
  [[nodiscard]] const AnyValue* find(std::type_index type) const;

  std::map<std::type_index, AnyValue> options_;
  std::map<std::type_index, MakeUse> uses_;
  std::map<std::type_index, Say> says_;
};

}  // namespace cairn
