// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/core/erased_handler.hpp"

namespace cairn {

struct RegistrationOptions {
  RegistrationOptions() = default;

  /// Serve the checkpointable of this name only; empty: any name.
  std::string checkpointable_name;
  /// Ids of other handlers whose files this one reads too: former names, former versions.
  std::vector<std::string> aliases;
};

/// One handler with how it was registered.
struct Registration {
  Registration(std::shared_ptr<const ErasedHandler> handler_in, RegistrationOptions options_in)
      : handler(std::move(handler_in)), options(std::move(options_in)) {}

  /// Whether this handler reads what `id` wrote.
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

  /// Adds a handler of type `H`.
  ///
  /// Errors: Errc::ambiguous_handler when a name is bound already, or an id registered already without a name;
  ///         Errc::invalid_argument for an id that is not of the form "dotted.name/version".
  template <class H>
  HandlerRegistry& add(RegistrationOptions options = {}) {
    return add(std::make_shared<const H>(), std::move(options));
  }

  template <class H>
  HandlerRegistry& add(std::shared_ptr<const H> handler, RegistrationOptions options = {}) {
    add_erased(erase_handler(std::move(handler)), std::move(options));
    return *this;
  }

  [[nodiscard]] RegistrySnapshot snapshot() const;

 private:
  void add_erased(std::shared_ptr<const ErasedHandler> handler, RegistrationOptions options);

  struct State;
  std::unique_ptr<State> state_;
};

/// The registry of the whole program. Empty at first: built-in handlers lie below it.
HandlerRegistry& global_registry();

/// Adds a handler of type `H` to the global registry. Saves and loads that have begun do not see it.
///
/// Errors: as HandlerRegistry::add.
template <class H>
void register_handler(RegistrationOptions options = {}) {
  global_registry().add<H>(std::move(options));
}

/// Puts registries on top of each other: the later the layer, the higher its precedence.
RegistrySnapshot layer(std::vector<RegistrySnapshot> layers);

namespace core {

/// The handler that saves a value of `type`.
///
/// 1. A handler bound to the name, if it can handle the value. 2. The last registered that can.
/// (Stateful objects come as `StatefulReference`, which only their own handler takes: they come first.)
/// `near_miss` is what save_near_miss says of the type.
/// Errors: Errc::no_handler, listing every registration and why it was passed over, and what to do.
const Registration& resolve_for_save(const RegistrySnapshot& registry, std::string_view name,
                                     std::type_index type, const void* value, std::string_view shown_type,
                                     std::string_view near_miss = {});

/// The handler that loads a checkpointable whose files `recorded_id` wrote.
///
/// 1. The handler recorded, by id or alias, if it can serve `wanted`. 2. A handler bound to the name that can.
/// 3. If `wanted` is given, the last registered that can serve it.
/// Errors: Errc::unknown_handler_id when nobody reads the id and nothing else matches; Errc::no_handler when
///         the one recorded cannot serve `wanted`, nor anybody else.
const Registration& resolve_for_load(const RegistrySnapshot& registry, std::string_view name,
                                     std::string_view recorded_id, const AnyValue& wanted);

/// Says why another handler than the recorded one loads: who saved, what that handler loads, what was asked for. Empty
/// when `chosen` reads what `recorded_id` wrote.
[[nodiscard]] std::string explain_choice(const RegistrySnapshot& registry, std::string_view recorded_id,
                                         const AnyValue& wanted, const Registration& chosen);

/// The handler that recognises a foreign folder with these files.
///
/// Errors: Errc::not_committed when none does.
const Registration& resolve_foreign(const RegistrySnapshot& registry, const std::vector<std::string>& files,
                                    const AnyValue& wanted, std::string_view path);

}  // namespace core
}  // namespace cairn
