// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/dist_checkpointing.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/api/load.hpp"
#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/megatron/handler.hpp"

#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "megatron/call_options.hpp"
#include "megatron/state_files.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"

namespace cairn::megatron {
namespace {

constexpr const char* kContentMetadata = "content_metadata";
constexpr const char* kAnnotation = "cairn.megatron";
constexpr const char* kForeignConfig = "metadata.json";

/// The annotations of a save, and the form that it is in.
std::string with_backend(const std::string& annotations, const Backend& backend) {
  nlohmann::ordered_json all = nlohmann::ordered_json::parse(annotations, nullptr, false);
  if (!all.is_object()) {
    return annotations;  // The save says what is wrong with them.
  }
  all[kAnnotation] = {{"backend", backend.name}, {"version", backend.version}};
  return all.dump();
}

/// The form that a JSON object names.
std::optional<Backend> backend_in(const nlohmann::json& object, const char* name_key,
                                  const char* version_key) {
  if (!object.is_object() || !object.contains(name_key) || !object[name_key].is_string()) {
    return std::nullopt;
  }
  Backend backend{object[name_key].get<std::string>(), 1};
  if (object.contains(version_key) && object[version_key].is_number_unsigned()) {
    backend.version = object[version_key].get<std::uint32_t>();
  }
  return backend;
}

/// A save as the library makes it.
struct PreparedSave {
  StateDict dict;
  cairn::SaveOptions options;
};

void prepare_save(PreparedSave& call, const StateDictSaveOptions& options) {
  std::shared_ptr<const SaveStrategy> strategy = options.strategy;
  if (!strategy && options.backend) {
    strategy = options.strategies.save(*options.backend);
  }
  StateDictSaveRules rules = options.rules;
  if (strategy) {
    strategy->prepare(rules, call.options);
  }
  call.options.handler_options.set(std::move(rules));
  call.options.annotations =
      with_backend(call.options.annotations, strategy ? strategy->backend() : PlainSave().backend());
  if (options.content_metadata.is_null()) {
    return;
  }
  StateDict::Map* children = call.dict.map_if();
  if (children != nullptr && !children->try_emplace(kContentMetadata, options.content_metadata).second) {
    throw Error(Errc::invalid_argument,
                fmt::format("the dict has '{}' already, and a save was given some", kContentMetadata));
  }
}

PreparedSave prepared_save(const StateDict& dict, const StateDictSaveOptions& options) {
  PreparedSave call{dict, options.save};
  call.options.registry.add<StateDictHandler>();
  try {
    prepare_save(call, options);
  } catch (...) {
    call.options.handler_options.set(detail::FailedBefore{std::current_exception()});
  }
  return call;
}

/// How this rank's own loads are made.
cairn::LoadOptions own_load(detail::LoadParts parts) {
  cairn::LoadOptions options;
  options.registry.add<StateDictHandler>();
  options.handler_options.set(parts);
  return options;
}

StateDict load_own(AbstractStateDict wanted, detail::LoadParts parts, const std::filesystem::path& path,
                   const Context& context) {
  wanted.checks_access = false;
  const Requests requests = {Request(store::kStateName, std::move(wanted))};
  return load_checkpointables(path, requests, own_load(parts), context).take<StateDict>(store::kStateName);
}

/// The tensors that a checkpoint has, and the objects.
StateDict stored_state(const std::filesystem::path& path, const Context& context) {
  const std::vector<std::string> names = {store::kStateName};
  const CheckpointMetadata stored =
      checkpointables_metadata(path, names, own_load(detail::LoadParts()), context);
  return stored.at(store::kStateName).as<AbstractStateDict>().requested;
}

/// Returns the form of files that no Cairn wrote.
std::optional<Backend> foreign_backend(const store::Source& source) {
  const std::vector<std::string> files = source.files("");
  if (std::find(files.begin(), files.end(), kForeignConfig) != files.end()) {
    staging::OwnPlane own(io::posix_syscalls(), 1);
    const std::string text = source.read_verified(own.plane().engine, kForeignConfig);
    const nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
    if (auto backend = backend_in(config, "sharded_backend", "sharded_backend_version")) {
      return backend;
    }
  }
  return StateDictHandler().recognises(files) ? std::optional<Backend>(Backend{"torch_dist", 1})
                                              : std::nullopt;
}

}  // namespace

cairn::SaveResult save(const StateDict& dict, const std::filesystem::path& path,
                       const StateDictSaveOptions& options, const Context& context) {
  return save_async(dict, path, options, context).wait();
}

AsyncResponse save_async(const StateDict& dict, const std::filesystem::path& path,
                         const StateDictSaveOptions& options, const Context& context) {
  PreparedSave call = prepared_save(dict, options);
  Checkpointables items;
  items.emplace_back(store::kStateName, std::move(call.dict));
  return save_checkpointables_async(path, items, call.options, context);
}

LoadedStateDict load(const StateDict& requested, const std::filesystem::path& path,
                     const StateDictLoadOptions& options, const Context& context) {
  cairn::LoadOptions how = options.load;
  how.registry.add<StateDictHandler>();
  const auto& coordinator = context.options().coordinator;
  how.together = !options.is_alone && coordinator && coordinator->size() > 1;
  AbstractStateDict wanted(requested);
  wanted.strict = options.strict;
  wanted.checks_access = options.checks_access;
  const auto mismatch = std::make_shared<Mismatch>();
  wanted.mismatch = mismatch;
  std::optional<detail::FailedBefore> failed;
  try {
    const std::shared_ptr<const LoadStrategy> strategy =
        options.strategy ? options.strategy
                         : options.strategies.load(backend_of(path).value_or(PlainSave().backend()));
    strategy->prepare(wanted, how);
  } catch (...) {
    failed.emplace(detail::FailedBefore{std::current_exception()});
    how.handler_options.set(*failed);
  }
  LoadedStateDict loaded;
  try {
    const Requests requests = {Request(store::kStateName, std::move(wanted))};
    Loaded values = load_checkpointables(path, requests, how, context);
    loaded.state = values.take<StateDict>(store::kStateName).tree();
    loaded.result = values.result();
  } catch (...) {
    if (failed && !*failed->was_thrown) {  // The load has not come that far: this says more.
      std::rethrow_exception(failed->why);
    }
    throw;
  }
  static_cast<Mismatch&>(loaded) = *mismatch;
  return loaded;
}

Tree load_common_state_dict(const std::filesystem::path& path, const Context& context) {
  const detail::LoadParts common_only{true, false};
  return load_own(AbstractStateDict(), common_only, path, context).tree();
}

std::optional<Tree> load_content_metadata(const std::filesystem::path& path, const Context& context) {
  return content_metadata_of(load_common_state_dict(path, context));
}

std::optional<Tree> content_metadata_of(const Tree& loaded) {
  if (!loaded.is_map()) {
    return std::nullopt;
  }
  const auto found = loaded.as_map().find(kContentMetadata);
  return found == loaded.as_map().end() ? std::nullopt : std::optional<Tree>(found->second);
}

StateDict load_tensors_metadata(const std::filesystem::path& path, const Context& context) {
  const auto is_tensor = [](const StateDict& leaf) { return leaf.leaf_if<ShardedTensor>() != nullptr; };
  return extract_matching_values(stored_state(path, context), is_tensor).first;
}

StateDict load_sharded_metadata(const std::filesystem::path& path, const Context& context) {
  return stored_state(path, context);
}

std::map<std::string, Array> load_plain_tensors(const std::filesystem::path& path, const Context& context) {
  const detail::LoadParts sharded_only{false, true};
  const Tree state =
      load_own(AbstractStateDict(load_tensors_metadata(path, context)), sharded_only, path, context).tree();
  std::map<std::string, Array> tensors;
  for (const auto& [key, value] : state.as_map()) {
    tensors.emplace_hint(tensors.end(), key, *value.array_if());
  }
  return tensors;
}

std::optional<Backend> backend_of(const std::filesystem::path& path) {
  std::shared_ptr<const store::Source> source;
  try {
    source = store::open_source(io::posix_syscalls(), path);
  } catch (const Error& error) {
    if (error.code() == Errc::not_found || error.code() == Errc::not_committed) {
      return std::nullopt;
    }
    throw;
  }
  if (source->manifest() == nullptr) {
    return foreign_backend(*source);
  }
  const auto is_state = [](const store::SourceItem& item) { return item.handler_id == kStateDictId; };
  if (std::none_of(source->items().begin(), source->items().end(), is_state)) {
    return std::nullopt;
  }
  const auto annotations = nlohmann::json::parse(source->manifest()->annotations, nullptr, false);
  std::optional<Backend> backend;
  if (annotations.is_object() && annotations.contains(kAnnotation)) {
    backend = backend_in(annotations[kAnnotation], "backend", "version");
  }
  return backend ? backend : PlainSave().backend();
}

bool check_is_distributed_checkpoint(const std::filesystem::path& path) {
  return backend_of(path).has_value();
}

}  // namespace cairn::megatron
