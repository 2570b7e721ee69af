// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/registry.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/resolve.hpp"

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

std::string show(const Registration& registration) {
  std::string text =
      fmt::format("{} ({})", registration.handler->id(), type_name(registration.handler->handler_type));
  if (!registration.options.checkpointable_name.empty()) {
    text += fmt::format(" bound to '{}'", registration.options.checkpointable_name);
  }
  return text;
}

bool is_bound(const Registration& registration) {
  return !registration.options.checkpointable_name.empty();
}

bool is_bound_to(const Registration& registration, std::string_view name) {
  return is_bound(registration) && registration.options.checkpointable_name == name;
}

/// Whether both are one object, or were made of one type alike.
bool is_same(const ErasedHandler& a, const ErasedHandler& b) {
  return a.object() == b.object() ||
         (a.is_made_of_type() && b.is_made_of_type() && a.handler_type == b.handler_type);
}

/// Lists every registration with the reason why it does not serve.
template <class WhyNot>
std::string list(const RegistrySnapshot& registry, WhyNot why_not) {
  if (registry.empty()) {
    return "; no handler is registered";
  }
  std::string text = "; registered are";
  const char* separator = " ";
  for (const Registration& registration : registry) {
    text += fmt::format("{}{}: {}", separator, show(registration), why_not(registration));
    separator = "; ";
  }
  return text;
}

/// What somebody can do whose type no handler takes.
std::string remedy_for_save(std::string_view shown_type, std::string_view near_miss) {
  if (!near_miss.empty()) {
    return fmt::format(". It nearly saves itself: {}", near_miss);
  }
  return fmt::format(
      ". Register a handler whose Value is {}, or give it the members 'Awaitable<Background<>> "
      "save(SaveContext) const' and 'Awaitable<Background<>> load(LoadContext)'",
      shown_type);
}

}  // namespace

bool Registration::reads(std::string_view id) const {
  return handler->id() == id ||
         std::find(options.aliases.begin(), options.aliases.end(), id) != options.aliases.end();
}

struct HandlerRegistry::State {
  mutable std::mutex mutex;
  RegistrySnapshot registrations;
};

HandlerRegistry::HandlerRegistry() : state_(std::make_unique<State>()) {}

HandlerRegistry::HandlerRegistry(const HandlerRegistry& other) : HandlerRegistry() {
  state_->registrations = other.snapshot();
}

HandlerRegistry& HandlerRegistry::operator=(const HandlerRegistry& other) {
  RegistrySnapshot copy = other.snapshot();
  const std::lock_guard lock(state_->mutex);
  state_->registrations = std::move(copy);
  return *this;
}

HandlerRegistry::~HandlerRegistry() = default;

void HandlerRegistry::add_erased(std::shared_ptr<const ErasedHandler> handler, RegistrationOptions options) {
  if (!is_id(handler->id())) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: the id '{}' is not of the form 'dotted.name/version'",
                            type_name(handler->handler_type), handler->id()));
  }
  const std::lock_guard lock(state_->mutex);
  for (const Registration& registration : state_->registrations) {
    if (is_same(*registration.handler, *handler) && registration.options == options) {
      return;
    }
    const std::string& bound_name = registration.options.checkpointable_name;
    if (bound_name == options.checkpointable_name &&
        (!bound_name.empty() || registration.handler->id() == handler->id())) {
      throw Error(Errc::ambiguous_handler,
                  fmt::format("{} cannot be registered beside {}", handler->id(), show(registration)));
    }
  }
  state_->registrations.emplace_back(std::move(handler), std::move(options));
}

bool HandlerRegistry::remove(std::string_view id) {
  RegistrySnapshot removed;  // Ends without the lock: the last reference to a handler runs its destructor.
  const std::lock_guard lock(state_->mutex);
  const auto kept =
      std::stable_partition(state_->registrations.begin(), state_->registrations.end(),
                            [id](const Registration& each) { return each.handler->id() != id; });
  removed.assign(std::make_move_iterator(kept), std::make_move_iterator(state_->registrations.end()));
  state_->registrations.erase(kept, state_->registrations.end());
  return !removed.empty();
}

bool HandlerRegistry::contains(std::string_view id) const {
  const std::lock_guard lock(state_->mutex);
  return std::any_of(state_->registrations.begin(), state_->registrations.end(),
                     [id](const Registration& each) { return each.handler->id() == id; });
}

RegistrySnapshot HandlerRegistry::snapshot() const {
  const std::lock_guard lock(state_->mutex);
  return state_->registrations;
}

HandlerRegistry& global_registry() {
  // Never destroyed: destructors of other static objects may still save and load.
  static HandlerRegistry& registry = *new HandlerRegistry;
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

namespace core {

const Registration* find_for_save(const RegistrySnapshot& registry, std::string_view name,
                                  std::type_index type, const void* value) {
  const auto can_save = [&](const Registration& registration) {
    return registration.handler->value_type == type && registration.handler->is_handleable(value);
  };
  const auto bound = std::find_if(registry.rbegin(), registry.rend(), [&](const Registration& registration) {
    return is_bound_to(registration, name) && can_save(registration);
  });
  if (bound != registry.rend()) {
    return &*bound;
  }
  const auto last = std::find_if(registry.rbegin(), registry.rend(), [&](const Registration& registration) {
    return !is_bound(registration) && can_save(registration);
  });
  return last != registry.rend() ? &*last : nullptr;
}

const Registration& resolve_for_save(const RegistrySnapshot& registry, std::string_view name,
                                     std::type_index type, const void* value, std::string_view shown_type,
                                     std::string_view near_miss) {
  if (const Registration* found = find_for_save(registry, name, type, value)) {
    return *found;
  }
  throw Error(Errc::no_handler,
              fmt::format("'{}' is a {}", name, shown_type) + list(registry, [&](const Registration& passed) {
                if (is_bound(passed) && !is_bound_to(passed, name))
                  return std::string("serves another name");
                if (passed.handler->value_type != type) {
                  return "saves " + type_name(passed.handler->value_type);
                }
                return std::string("refuses this value");
              }) + remedy_for_save(shown_type, near_miss));
}

const Registration& resolve_for_load(const RegistrySnapshot& registry, std::string_view name,
                                     std::string_view recorded_id, const AnyValue& wanted) {
  const auto can_serve = [&](const Registration& registration) {
    return !wanted.has_value() || (registration.handler->abstract_type == wanted.type() &&
                                   registration.handler->is_abstract_handleable(wanted.get()));
  };
  const auto find = [&](auto matches) {
    return std::find_if(registry.rbegin(), registry.rend(), [&](const Registration& registration) {
      return matches(registration) && can_serve(registration);
    });
  };
  // A registration that is bound to the name and reads the id comes before one for all names.
  auto found = find([&](const Registration& r) { return is_bound_to(r, name) && r.reads(recorded_id); });
  if (found != registry.rend())
    return *found;
  found = find([&](const Registration& r) { return !is_bound(r) && r.reads(recorded_id); });
  if (found != registry.rend())
    return *found;
  found = find([&](const Registration& r) { return is_bound_to(r, name); });
  if (found != registry.rend())
    return *found;
  if (wanted.has_value()) {
    found = find([&](const Registration& r) { return !is_bound(r); });
    if (found != registry.rend())
      return *found;
  }

  const bool is_known = std::any_of(registry.begin(), registry.end(),
                                    [&](const Registration& r) { return r.reads(recorded_id); });
  const std::string asked =
      wanted.has_value() ? fmt::format(", wanted as {}", type_name(wanted.type())) : std::string();
  throw Error(
      is_known ? Errc::no_handler : Errc::unknown_handler_id,
      fmt::format("'{}' was saved by handler '{}'{}", name, recorded_id, asked) +
          list(registry,
               [&](const Registration& passed) {
                 if (is_bound(passed) && !is_bound_to(passed, name)) {
                   return std::string("serves another name");
                 }
                 if (!can_serve(passed))
                   return "loads " + type_name(passed.handler->abstract_type);
                 return std::string("has another id");
               }) +
          (is_known
               ? ". Ask for what its handler loads, or for nothing, or register a handler that loads what "
                 "is wanted"
               : fmt::format(". Register that handler, or another one with '{}' among its aliases",
                             recorded_id)));
}

std::string explain_choice(const RegistrySnapshot& registry, std::string_view recorded_id,
                           const AnyValue& wanted, const Registration& chosen) {
  if (chosen.reads(recorded_id)) {
    return {};
  }
  const auto recorded = std::find_if(registry.rbegin(), registry.rend(),
                                     [&](const Registration& each) { return each.reads(recorded_id); });
  std::string text = fmt::format("saved by handler {}", recorded_id);
  text += recorded == registry.rend()
              ? ", which is not registered"
              : fmt::format(", which loads {}", type_name(recorded->handler->abstract_type));
  if (wanted.has_value()) {
    text += fmt::format("; asked for as {}, which handler {} loads", type_name(wanted.type()),
                        chosen.handler->id());
  } else {
    text += fmt::format("; handler {} is bound to the name", chosen.handler->id());
  }
  return text;
}

const Registration& resolve_foreign(const RegistrySnapshot& registry, const std::vector<std::string>& files,
                                    const AnyValue& wanted, std::string_view path) {
  const auto found = std::find_if(registry.rbegin(), registry.rend(), [&](const Registration& registration) {
    return registration.handler->recognises(files) &&
           (!wanted.has_value() || (registration.handler->abstract_type == wanted.type() &&
                                    registration.handler->is_abstract_handleable(wanted.get())));
  });
  if (found == registry.rend()) {
    throw Error(
        Errc::not_committed,
        fmt::format("{} is neither a committed checkpoint nor anything else that a handler reads", path));
  }
  return *found;
}

}  // namespace core
}  // namespace cairn
