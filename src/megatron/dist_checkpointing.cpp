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
#include "megatron/foreign_folder.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"

namespace cairn::megatron {
namespace {

constexpr const char* kContentMetadata = "content_metadata";
constexpr const char* kAnnotation = "cairn.megatron";

/// The annotations of a save, and the form that it is in.
std::string with_backend(const std::string& annotations, const Backend& backend) {
  nlohmann::ordered_json all = nlohmann::ordered_json::parse(annotations, nullptr, false);
  if (!all.is_object()) {
    return annotations;  // The save says what is wrong with them.
  }
  all[kAnnotation] = {{"backend", backend.name}, {"version", backend.version}};
  return all.dump();
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

/// Makes a call that reads `path`. Where that is not a whole checkpoint, its error says what is missing.
template <class Call>
auto explained(const std::filesystem::path& path, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    const std::string why = error.code() == Errc::cancelled ? "" : detail::why_not_a_checkpoint(path);
    if (why.empty()) {
      throw;
    }
    throw Error(Errc::not_committed, why);
  }
}

StateDict load_own(AbstractStateDict wanted, detail::LoadParts parts, const std::filesystem::path& path,
                   const Context& context) {
  wanted.checks_access = false;
  const Requests requests = {Request(store::kStateName, std::move(wanted))};
  return explained(path, [&] {
    return load_checkpointables(path, requests, own_load(parts), context).take<StateDict>(store::kStateName);
  });
}

bool is_tensor(const StateDict& leaf) {
  return leaf.leaf_if<ShardedTensor>() != nullptr;
}

/// The tensors that a checkpoint has, and the objects. `left_out` is told what cannot be loaded; null: that is an
/// error.
StateDict stored_state(const std::filesystem::path& path, const Context& context, bool has_objects,
                       std::vector<LeftOutKey>* left_out) {
  const std::vector<std::string> names = {store::kStateName};
  AbstractStateDict stored = explained(path, [&] {
    return checkpointables_metadata(path, names, own_load(detail::LoadParts()), context)
        .at(store::kStateName)
        .as<AbstractStateDict>();
  });
  if (!has_objects) {
    std::erase_if(stored.left_out, [](const LeftOutKey& one) { return !one.is_tensor; });
    stored.requested = extract_matching_values(stored.requested, is_tensor).first;
  }
  if (left_out == nullptr && !stored.left_out.empty()) {
    const LeftOutKey& first = stored.left_out.front();
    throw Error(
        Errc::structure_mismatch,
        fmt::format(
            "{}: '{}' cannot be loaded: {}{}; 'left_out' takes the names, and the call then "
            "returns the others",
            path.string(), first.key, first.why,
            stored.left_out.size() > 1 ? fmt::format(", and {} more", stored.left_out.size() - 1) : ""));
  }
  if (left_out != nullptr) {
    *left_out = std::move(stored.left_out);
  }
  return std::move(stored.requested);
}

/// Returns the form of files that no Cairn wrote.
std::optional<Backend> foreign_backend(const store::Source& source) {
  const std::vector<std::string> files = source.files("");
  const std::string name(detail::kForeignConfigFile);
  const bool is_recognised = StateDictHandler().recognises(files);
  const std::uint64_t bytes = source.file_bytes(name).value_or(detail::kMostConfigBytes + 1);
  if (bytes <= detail::kMostConfigBytes) {
    staging::OwnPlane own(io::posix_syscalls(), 1);
    const std::string text = source.read_verified(own.plane().engine, name);
    try {
      if (const auto config = detail::parse_config(text, (source.root() / name).string())) {
        return config->backend;
      }
    } catch (const Error&) {
      if (is_recognised) {
        throw;
      }
    }
  }
  return is_recognised ? std::optional<Backend>(Backend{"torch_dist", 1}) : std::nullopt;
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
    Loaded values = explained(path, [&] { return load_checkpointables(path, requests, how, context); });
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

StateDict load_tensors_metadata(const std::filesystem::path& path, const Context& context,
                                std::vector<LeftOutKey>* left_out) {
  return stored_state(path, context, false, left_out);
}

StateDict load_sharded_metadata(const std::filesystem::path& path, const Context& context,
                                std::vector<LeftOutKey>* left_out) {
  return stored_state(path, context, true, left_out);
}

std::map<std::string, Array> load_plain_tensors(const std::filesystem::path& path, const Context& context,
                                                std::vector<LeftOutKey>* left_out) {
  const detail::LoadParts sharded_only{false, true};
  AbstractStateDict all(load_tensors_metadata(path, context, left_out));
  const Tree state = load_own(std::move(all), sharded_only, path, context).tree();
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
    backend = detail::backend_in(annotations[kAnnotation], "backend", "version");
  }
  return backend ? backend : PlainSave().backend();
}

bool check_is_distributed_checkpoint(const std::filesystem::path& path) {
  return backend_of(path).has_value();
}

}  // namespace cairn::megatron
