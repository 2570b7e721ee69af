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

}  // namespace cairn
