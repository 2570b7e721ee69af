// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "cairn/contract/registry.hpp"

namespace cairn::contract {

/// A registration, for messages.
[[nodiscard]] std::string show(const Registration& registration);

/// The handler that saves a value of `type`; null when there is none.
///
/// 1. A handler bound to the name, if it can handle the value. 2. The last registered that can.
/// (Stateful objects come as `StatefulReference`, which only their own handler takes: they come first.)
const Registration* find_for_save(const RegistrySnapshot& registry, std::string_view name,
                                  std::type_index type, const void* value);

/// As find_for_save. `near_miss` is what save_near_miss says of the type.
///
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

/// The handler that takes a foreign folder with these files.
///
/// Errors: Errc::not_committed when none does.
const Registration& resolve_foreign(const RegistrySnapshot& registry, const std::vector<std::string>& files,
                                    const AnyValue& wanted, const OptionSet& options, std::string_view path);

}  // namespace cairn::contract
