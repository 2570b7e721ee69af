// SPDX-License-Identifier: Apache-2.0
#include "contract/internal/resolve.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/checkpointable.hpp"

namespace cairn::contract {
namespace {

bool is_bound(const Registration& registration) {
  return !registration.options.checkpointable_name.empty();
}

bool is_bound_to(const Registration& registration, std::string_view name) {
  return is_bound(registration) && registration.options.checkpointable_name == name;
}

/// The name of a type, as long as people read it: that of a template can have thousands of characters.
std::string short_name(std::string name) {
  constexpr std::size_t kMostBytes = 200;
  if (name.size() > kMostBytes) {
    name.resize(kMostBytes);
    name += "…";
  }
  return name;
}

std::string short_name(std::type_index type) {
  return short_name(type_name(type));
}

/// Returns what a load asks for, in the words of the program that does.
std::string show_wanted(const AnyValue& wanted) {
  if (const auto* object = wanted.as<StatefulReference>()) {
    return fmt::format("into({})", short_name(object->type()));
  }
  return short_name(wanted.type());
}

/// Returns what a handler loads, likewise.
std::string show_loaded(const ErasedHandler& handler) {
  return handler.abstract_type == typeid(StatefulReference) ? "into(object)"
                                                            : short_name(handler.abstract_type);
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

/// Returns what somebody can do whose type no handler takes.
std::string remedy_for_save(std::string_view shown_type, std::string_view near_miss) {
  if (!near_miss.empty()) {
    return fmt::format("It nearly saves itself: {}", near_miss);
  }
  return fmt::format(
      "Register a handler whose Value is {}, or give it the members 'Awaitable<Background<>> "
      "save(SaveContext) const' and 'Awaitable<Background<>> load(LoadContext)'; a struct can also be "
      "described with BOOST_DESCRIBE_STRUCT (include cairn/handlers/describe.hpp)",
      shown_type);
}

/// Says of a file that is alone what it is by its name, and what to do with it; empty for others.
std::string told_by_name(const std::vector<std::string>& files) {
  static constexpr std::string_view kNotRead = ", which is not read yet; export it as safetensors";
  static constexpr std::string_view kPacked = ": unpack it first";
  struct Kind {
    std::string_view end;
    std::string_view what;
    std::string_view remedy;
  };
  static constexpr Kind kKinds[] = {
      {".npz", "an .npz of numpy", kNotRead}, {".npy", "an .npy of numpy", kNotRead},
      {".gguf", "a file of GGUF", kNotRead},  {".h5", "a file of HDF5", kNotRead},
      {".hdf5", "a file of HDF5", kNotRead},  {".onnx", "a file of ONNX", kNotRead},
      {".gz", "compressed", kPacked},         {".tgz", "a tar archive", kPacked},
      {".tar", "a tar archive", kPacked}};
  for (const Kind& kind : kKinds) {
    if (files.size() == 1 && files.front().ends_with(kind.end)) {
      return fmt::format("; by its name it is {}{}", kind.what, kind.remedy);
    }
  }
  return {};
}

}  // namespace

std::string show(const Registration& registration) {
  std::string text =
      fmt::format("{} ({})", registration.handler->id(), short_name(registration.handler->handler_type));
  if (!registration.options.checkpointable_name.empty()) {
    text += fmt::format(" bound to '{}'", registration.options.checkpointable_name);
  }
  return text;
}

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
  const std::string shown = short_name(std::string(shown_type));
  throw Error(Errc::no_handler,
              fmt::format("'{}' is a {}. {}", name, shown, remedy_for_save(shown, near_miss)) +
                  list(registry, [&](const Registration& passed) {
                    if (is_bound(passed) && !is_bound_to(passed, name))
                      return std::string("serves another name");
                    if (passed.handler->value_type != type) {
                      return "saves " + short_name(passed.handler->value_type);
                    }
                    return std::string("refuses this value");
                  }));
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
      wanted.has_value() ? fmt::format(", wanted as {}", show_wanted(wanted)) : std::string();
  const std::string remedy =
      is_known
          ? "Ask for what its handler loads, or for nothing, or register a handler that loads what is wanted"
          : fmt::format("Register that handler, or another one with '{}' among its aliases", recorded_id);
  throw Error(is_known ? Errc::no_handler : Errc::unknown_handler_id,
              fmt::format("'{}' was saved by handler '{}'{}. {}", name, recorded_id, asked, remedy) +
                  list(registry, [&](const Registration& passed) {
                    if (is_bound(passed) && !is_bound_to(passed, name)) {
                      return std::string("serves another name");
                    }
                    if (!can_serve(passed))
                      return "loads " + show_loaded(*passed.handler);
                    return std::string("has another id");
                  }));
}

std::string explain_choice(const RegistrySnapshot& registry, std::string_view recorded_id,
                           const AnyValue& wanted, const Registration& chosen) {
  if (chosen.reads(recorded_id)) {
    return {};
  }
  const auto recorded = std::find_if(registry.rbegin(), registry.rend(),
                                     [&](const Registration& each) { return each.reads(recorded_id); });
  std::string text = fmt::format("saved by handler {}", recorded_id);
  text += recorded == registry.rend() ? ", which is not registered"
                                      : fmt::format(", which loads {}", show_loaded(*recorded->handler));
  if (wanted.has_value()) {
    text +=
        fmt::format("; asked for as {}, which handler {} loads", show_wanted(wanted), chosen.handler->id());
  } else {
    text += fmt::format("; handler {} is bound to the name", chosen.handler->id());
  }
  return text;
}

const Registration& resolve_foreign(const RegistrySnapshot& registry, const std::vector<std::string>& files,
                                    const AnyValue& wanted, const OptionSet& options, std::string_view path) {
  const auto found = std::find_if(registry.rbegin(), registry.rend(), [&](const Registration& registration) {
    return registration.handler->takes(files, options) &&
           (!wanted.has_value() || (registration.handler->abstract_type == wanted.type() &&
                                    registration.handler->is_abstract_handleable(wanted.get())));
  });
  if (found == registry.rend()) {
    throw Error(Errc::not_committed,
                fmt::format("{} is neither a committed checkpoint nor anything else that a handler reads{}",
                            path, told_by_name(files)));
  }
  return *found;
}

}  // namespace cairn::contract
