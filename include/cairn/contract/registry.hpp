// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/value_traits.hpp"

namespace cairn {

/// A handler of any type, as the registry keeps it. Pointers are to the handler's own types.
class ErasedHandler {
 public:
  ErasedHandler(std::type_index handler, std::type_index value, std::type_index abstract)
      : handler_type(handler), value_type(value), abstract_type(abstract) {}
  virtual ~ErasedHandler() = default;
  ErasedHandler(const ErasedHandler&) = delete;
  ErasedHandler& operator=(const ErasedHandler&) = delete;

  /// The handler itself.
  [[nodiscard]] virtual const void* object() const noexcept = 0;
  /// Returns whether nothing but its type says what it does: it was made by add<H>().
  [[nodiscard]] bool is_made_of_type() const noexcept { return is_made_of_type_; }
  void mark_made_of_type() noexcept { is_made_of_type_ = true; }
  [[nodiscard]] virtual std::string_view id() const noexcept = 0;
  [[nodiscard]] virtual std::span<const std::string_view> other_ids() const noexcept = 0;
  /// Returns whether `id` is its own or one of the others.
  [[nodiscard]] bool has_id(std::string_view id) const;
  [[nodiscard]] virtual Participation participation() const noexcept = 0;
  [[nodiscard]] virtual bool is_handleable(const void* value) const = 0;
  [[nodiscard]] virtual bool is_abstract_handleable(const void* abstract) const = 0;
  [[nodiscard]] virtual bool takes(std::span<const std::string> files, const OptionSet& options) const = 0;
  [[nodiscard]] virtual Awaitable<Background<>> save(SaveContext context, const void* value) const = 0;
  /// A copy of the value, to be given to `save` in its place; null when its type does not say how it is copied.
  [[nodiscard]] virtual const void* copy(const void* value,
                                         const std::shared_ptr<WatchedMemory>& memory) const = 0;
  /// `wanted` holds an abstract value or nothing; the result holds a value.
  [[nodiscard]] virtual Awaitable<Background<AnyValue>> load(LoadContext context, AnyValue wanted) const = 0;
  /// The result holds an abstract value.
  [[nodiscard]] virtual Awaitable<AnyValue> metadata(LoadContext context) const = 0;
  [[nodiscard]] virtual Description describe(const void* abstract) const = 0;

  const std::type_index handler_type;
  const std::type_index value_type;
  const std::type_index abstract_type;

 private:
  bool is_made_of_type_ = false;
};

namespace detail {

// A handler's types may well lie in an unnamed namespace of a program; g++ says so of these coroutines' frames.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wsubobject-linkage"

/// `what`, a literal, is what has returned `background`.
template <class T>
Background<AnyValue> erase_result(Background<T> background, const char* what) {
  async::require_coroutine(background, what);
  co_return AnyValue::of(co_await std::move(background));
}

/// Binds a typed handler to the erased interface. The coroutines keep the handler alive.
template <class T, class Abstract>
class HandlerAdapter final : public ErasedHandler {
 public:
  using Handler = CheckpointableHandler<T, Abstract>;

  HandlerAdapter(std::type_index handler_type_index, std::shared_ptr<const Handler> handler)
      : ErasedHandler(handler_type_index, typeid(T), typeid(Abstract)), handler_(std::move(handler)) {}

  const void* object() const noexcept override { return handler_.get(); }
  std::string_view id() const noexcept override { return handler_->id(); }
  std::span<const std::string_view> other_ids() const noexcept override { return handler_->other_ids(); }
  Participation participation() const noexcept override { return handler_->participation(); }
  bool is_handleable(const void* value) const override {
    return handler_->is_handleable(*static_cast<const T*>(value));
  }
  bool is_abstract_handleable(const void* abstract) const override {
    return handler_->is_abstract_handleable(*static_cast<const Abstract*>(abstract));
  }
  bool takes(std::span<const std::string> files, const OptionSet& options) const override {
    return handler_->takes(files, options);
  }

  Awaitable<Background<>> save(SaveContext context, const void* value) const override {
    return handler_->save(std::move(context), *static_cast<const T*>(value));
  }

  const void* copy(const void* value, const std::shared_ptr<WatchedMemory>& memory) const override {
    return WatchedCopy<T>::make(*static_cast<const T*>(value), memory);
  }

  Awaitable<Background<AnyValue>> load(LoadContext context, AnyValue wanted) const override {
    return load_with(handler_, std::move(context), std::move(wanted));
  }

  Awaitable<AnyValue> metadata(LoadContext context) const override {
    return erase_result(handler_->metadata(std::move(context)), "'metadata'");
  }

  Description describe(const void* abstract) const override {
    return handler_->describe(*static_cast<const Abstract*>(abstract));
  }

 private:
  static Awaitable<Background<AnyValue>> load_with(std::shared_ptr<const Handler> handler,
                                                   LoadContext context, AnyValue wanted) {
    std::optional<Abstract> abstract;
    if (const Abstract* asked = std::as_const(wanted).template as<Abstract>()) {
      abstract = *asked;
    }
    Awaitable<Background<T>> blocking = handler->load(std::move(context), std::move(abstract));
    async::require_coroutine(blocking, "'load'");
    Background<T> background = co_await std::move(blocking);
    co_return erase_result(std::move(background), "the blocking phase of 'load'");
  }

  std::shared_ptr<const Handler> handler_;
};

#pragma GCC diagnostic pop

template <class T, class Abstract>
std::shared_ptr<ErasedHandler> adapt(std::type_index type,
                                     std::shared_ptr<const CheckpointableHandler<T, Abstract>> handler) {
  return std::make_shared<HandlerAdapter<T, Abstract>>(type, std::move(handler));
}

}  // namespace detail

/// Makes a handler ready for a registry.
template <class H>
std::shared_ptr<ErasedHandler> erase_handler(std::shared_ptr<const H> handler) {
  using Base = CheckpointableHandler<typename H::Value, typename H::Abstract>;
  return detail::adapt<typename H::Value, typename H::Abstract>(
      typeid(H), std::static_pointer_cast<const Base>(std::move(handler)));
}

struct RegistrationOptions {
  RegistrationOptions() = default;

  /// Serve the checkpointable of this name only; empty: any name.
  std::string checkpointable_name;
  /// Ids of other handlers whose files this one reads too: former names, former versions. LoadContext::handler_id
  /// tells which of them wrote the files.
  std::vector<std::string> aliases;

  friend bool operator==(const RegistrationOptions&, const RegistrationOptions&) = default;
};

/// One handler with how it was registered.
struct Registration {
  Registration(std::shared_ptr<const ErasedHandler> handler_in, RegistrationOptions options_in)
      : handler(std::move(handler_in)), options(std::move(options_in)) {}

  /// Returns whether this handler reads what `id` wrote.
  [[nodiscard]] bool reads(std::string_view id) const;

  std::shared_ptr<const ErasedHandler> handler;
  RegistrationOptions options;
};

/// The registrations that one save or load sees: fixed when it begins. Later ones take precedence.
using RegistrySnapshot = std::vector<Registration>;

/// The handlers that may serve checkpointables, in the order in which they were registered.
///
/// Threads: every method may be called from any thread. Copying copies the registrations.
class HandlerRegistry {
 public:
  HandlerRegistry();
  HandlerRegistry(const HandlerRegistry& other);
  HandlerRegistry& operator=(const HandlerRegistry& other);
  ~HandlerRegistry();

  /// Adds a handler of type `H`, or that very object. Does nothing when it is there already with equal options:
  /// several parts of a program may register what they need. Two objects of one type are not the same handler.
  ///
  /// Errors: Errc::ambiguous_handler when a name is bound already, or an id, its own or one of its other_ids,
  ///         registered already without a name; Errc::invalid_argument for an id that is not of the form
  ///         "dotted.name/version".
  template <class H>
  HandlerRegistry& add(RegistrationOptions options = {}) {
    static_assert(
        !std::is_abstract_v<H>,
        "this handler leaves out 'id', 'save', 'load' or 'metadata', or has it in another form than "
        "CheckpointableHandler: 'Awaitable<Background<>> save(SaveContext, const Value&) const override' and "
        "so on; write 'override' behind each, and the compiler says which differs");
    if constexpr (!std::is_abstract_v<H>) {  // Else that is all the compiler says.
      auto erased = erase_handler(std::make_shared<const H>());
      erased->mark_made_of_type();
      add_erased(std::move(erased), std::move(options));
    }
    return *this;
  }

  template <class H>
  HandlerRegistry& add(std::shared_ptr<const H> handler, RegistrationOptions options = {}) {
    add_erased(erase_handler(std::move(handler)), std::move(options));
    return *this;
  }

  /// Takes back every registration of the handler with that id; false when there is none. Saves and loads that have
  /// begun keep it.
  bool remove(std::string_view id);

  /// Returns whether a handler with that id is registered here, for any name. Aliases do not count.
  [[nodiscard]] bool contains(std::string_view id) const;

  [[nodiscard]] RegistrySnapshot snapshot() const;

 private:
  void add_erased(std::shared_ptr<const ErasedHandler> handler, RegistrationOptions options);

  struct State;
  std::unique_ptr<State> state_;
};

/// The registry of the whole program. Empty at first: built-in handlers lie below it.
HandlerRegistry& global_registry();

/// Adds a handler of type `H` to the global registry, as HandlerRegistry::add. Saves and loads that have begun do not
/// see it.
///
/// Errors: as HandlerRegistry::add.
template <class H>
void register_handler(RegistrationOptions options = {}) {
  global_registry().add<H>(std::move(options));
}

/// Puts registries on top of each other: the later the layer, the higher its precedence.
RegistrySnapshot layer(std::vector<RegistrySnapshot> layers);

}  // namespace cairn
