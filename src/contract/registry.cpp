// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/registry.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/at_fork.hpp"
#include "base/internal/mutex.hpp"
#include "contract/internal/resolve.hpp"

namespace cairn {
namespace {

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/// "dotted.name/version": a lower-case name, a slash, a number.
bool is_id(std::string_view id) {
  const std::size_t slash = id.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == id.size()) {
    return false;
  }
  const std::string_view name = id.substr(0, slash);
  const std::string_view version = id.substr(slash + 1);
  return std::all_of(name.begin(), name.end(), is_id_character) &&
         std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns whether both are one object, or were made of one type alike.
bool is_same(const ErasedHandler& a, const ErasedHandler& b) {
  return a.object() == b.object() ||
         (a.is_made_of_type() && b.is_made_of_type() && a.handler_type == b.handler_type);
}

/// Returns an id that both have; empty when there is none.
std::string_view common_id(const ErasedHandler& a, const ErasedHandler& b) {
  if (b.has_id(a.id())) {
    return a.id();
  }
  const std::span<const std::string_view> others = a.other_ids();
  const auto found = std::find_if(others.begin(), others.end(), [&b](auto id) { return b.has_id(id); });
  return found == others.end() ? std::string_view() : *found;
}

/// Says why `handler` cannot be registered after `earlier`: its id is taken, or the name that it would be bound to.
[[noreturn]] void throw_taken(const ErasedHandler& handler, const Registration& earlier) {
  if (const std::string_view taken = common_id(handler, *earlier.handler); !taken.empty()) {
    throw Error(Errc::ambiguous_handler,
                fmt::format("{} is already registered, {}: {}", taken,
                            is_same(*earlier.handler, handler) ? "with other options" : "by another handler",
                            contract::show(earlier)));
  }
  throw Error(Errc::ambiguous_handler,
              fmt::format("{} cannot be bound to '{}': {} is already", handler.id(),
                          earlier.options.checkpointable_name, contract::show(earlier)));
}

/// While this thread makes the registry of the program, the only one that lives as long as the process.
thread_local bool makes_global = false;

}  // namespace

bool ErasedHandler::has_id(std::string_view id) const {
  const std::span<const std::string_view> others = other_ids();
  return this->id() == id || std::find(others.begin(), others.end(), id) != others.end();
}

bool Registration::reads(std::string_view id) const {
  return handler->has_id(id) ||
         std::find(options.aliases.begin(), options.aliases.end(), id) != options.aliases.end();
}

struct HandlerRegistry::State {
  mutable Mutex mutex;
  RegistrySnapshot registrations CAIRN_GUARDED_BY(mutex);
};

HandlerRegistry::HandlerRegistry() : state_(std::make_unique<State>()) {
  if (makes_global) {
    keep_whole_in_forks(state_->mutex);  // The default context of a forked child goes on with it.
  }
}

HandlerRegistry::HandlerRegistry(const HandlerRegistry& other) : HandlerRegistry() {
  state_->registrations = other.snapshot();
}

HandlerRegistry& HandlerRegistry::operator=(const HandlerRegistry& other) {
  RegistrySnapshot copy = other.snapshot();
  const MutexLock lock(state_->mutex);
  state_->registrations.swap(copy);  // What was there ends without the lock, as in `remove`.
  return *this;
}

HandlerRegistry::~HandlerRegistry() = default;

void HandlerRegistry::add_erased(std::shared_ptr<const ErasedHandler> handler, RegistrationOptions options) {
  const auto require_id = [&handler](std::string_view id) {
    if (!is_id(id)) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: the id '{}' is not of the form 'dotted.name/version'",
                              type_name(handler->handler_type), id));
    }
  };
  require_id(handler->id());
  const std::span<const std::string_view> others = handler->other_ids();
  std::for_each(others.begin(), others.end(), require_id);
  const MutexLock lock(state_->mutex);
  for (const Registration& registration : state_->registrations) {
    if (is_same(*registration.handler, *handler) && registration.options == options) {
      return;
    }
    const std::string& bound_name = registration.options.checkpointable_name;
    if (bound_name == options.checkpointable_name &&
        (!bound_name.empty() || !common_id(*registration.handler, *handler).empty())) {
      throw_taken(*handler, registration);
    }
  }
  state_->registrations.emplace_back(std::move(handler), std::move(options));
}

bool HandlerRegistry::remove(std::string_view id) {
  RegistrySnapshot removed;  // Ends without the lock: the last reference to a handler runs its destructor.
  const MutexLock lock(state_->mutex);
  const auto kept =
      std::stable_partition(state_->registrations.begin(), state_->registrations.end(),
                            [id](const Registration& each) { return each.handler->id() != id; });
  removed.assign(std::make_move_iterator(kept), std::make_move_iterator(state_->registrations.end()));
  state_->registrations.erase(kept, state_->registrations.end());
  return !removed.empty();
}

bool HandlerRegistry::contains(std::string_view id) const {
  const MutexLock lock(state_->mutex);
  return std::any_of(state_->registrations.begin(), state_->registrations.end(),
                     [id](const Registration& each) { return each.handler->id() == id; });
}

RegistrySnapshot HandlerRegistry::snapshot() const {
  const MutexLock lock(state_->mutex);
  return state_->registrations;
}

HandlerRegistry& global_registry() {
  // Never destroyed: destructors of other static objects may still save and load.
  static HandlerRegistry& registry = []() -> HandlerRegistry& {
    makes_global = true;
    auto& made = *new HandlerRegistry;
    makes_global = false;
    return made;
  }();
  return registry;
}

RegistrySnapshot layer(std::vector<RegistrySnapshot> layers) {
  RegistrySnapshot all;
  for (RegistrySnapshot& registrations : layers) {
    for (Registration& registration : registrations) {
      all.push_back(std::move(registration));
    }
  }
  return all;
}

}  // namespace cairn
