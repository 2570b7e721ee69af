// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/megatron/handler.hpp"

#include "formats/internal/foreign_index.hpp"
#include "handlers/internal/array_files.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "megatron/call_options.hpp"
#include "megatron/foreign_folder.hpp"
#include "megatron/prepare.hpp"
#include "megatron/rank_requests.hpp"
#include "megatron/state_files.hpp"

namespace cairn::megatron {
namespace detail {
namespace {

using Files = std::shared_ptr<const array_store::StoredFiles>;
using Layout = std::shared_ptr<const array_store::FileLayout>;

std::string full_name(const array_store::StoredFiles& files, std::string_view name) {
  return (files.directory() / name).string();
}

/// Reads a file; ranks that load together read it once.
Awaitable<std::vector<std::byte>> read_whole(Files files, std::string name) {
  const std::optional<std::uint64_t> size = files->size_bytes(name);
  if (!size) {
    throw Error(Errc::not_found, full_name(*files, name));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(*size));
  PiecesByFile pieces;
  if (!bytes.empty()) {
    DestinationPiece piece;
    piece.size_bytes = bytes.size();
    piece.data = bytes.data();
    pieces[name].push_back(std::move(piece));
  }
  NotesByFile none;
  Awaitable<> reading = files->read_files(std::move(pieces), std::move(none));
  co_await std::move(reading);
  co_return bytes;
}

/// Makes trees of objects.
struct ObjectMaker {
  LoadContext context;
  Layout layout;  ///< Null: they are Cairn's.
  std::string source;
  /// Objects were asked for: one that has no place in a tree is an error, and not null.
  bool is_asked = false;

  [[nodiscard]] Tree make(const formats::Index& index, const formats::IndexEntry& entry,
                          const Array& array) const;
  [[nodiscard]] Tree make(const array_store::StoredObject& object, std::string_view path) const;
};

Tree ObjectMaker::make(const formats::Index& index, const formats::IndexEntry& entry,
                       const Array& array) const {
  const std::span<const std::byte> bytes = array.view().bytes();
  return layout == nullptr ? unpack_tree(bytes, fmt::format("{}: {}", source, formats::shown(entry.name)))
                           : make({*layout, index, entry, bytes}, entry.name);
}

Tree ObjectMaker::make(const array_store::StoredObject& object, std::string_view path) const {
  std::vector<formats::LeftOut> left_out;
  Tree tree = read_object(layout, object, path, &left_out);
  for (const formats::LeftOut& one : left_out) {
    if (is_asked && one.path.empty()) {
      throw Error(Errc::structure_mismatch, fmt::format("{}: {} is asked for, and has no place in a tree: {}",
                                                        source, formats::shown(path), one.why));
    }
    context.add_problem(fmt::format("{}: {} has no place in a tree, and is left out: {}",
                                    formats::shown(path), formats::shown(one.path), one.why));
  }
  return tree;
}

/// Reads what a folder of another program says of itself; nothing where it is not one of Megatron-Core's.
Awaitable<std::optional<ForeignConfig>> read_config(Files files) {
  const std::string name(kForeignConfigFile);
  const std::uint64_t size = files->size_bytes(name).value_or(kMostConfigBytes + 1);
  if (size > kMostConfigBytes) {
    co_return std::nullopt;
  }
  Awaitable<std::vector<std::byte>> reading = read_whole(files, name);
  const std::vector<std::byte> bytes = co_await std::move(reading);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  co_return parse_config(text, full_name(*files, name));
}

/// Refuses a folder of Megatron-Core's whose save did not end, or of which common state that is wanted is gone.
void check_folder(const array_store::StoredFiles& files, const std::optional<ForeignConfig>& config,
                  const StoredDict& stored, bool has_common) {
  const bool has_file = files.size_bytes(kForeignCommonFile).has_value();
  if (!config && (has_file || stored.common)) {
    throw Error(
        Errc::not_committed,
        fmt::format("{}: it is missing, or names no backend; Megatron-Core writes it last, so that the "
                    "save did not end: load another checkpoint",
                    full_name(files, kForeignConfigFile)));
  }
  if (!has_common || stored.common) {
    return;
  }
  if (const LeftOutKey* one = stored.find_left_out(kCommonUniqueKey)) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: {}; load another checkpoint", files.directory().string(), one->why));
  }
  if (config && config->has_common_file) {
    throw Error(Errc::not_found,
                fmt::format("{}: it is gone, and metadata.json names it: bring it back, or load the tensors "
                            "alone (load_plain_tensors)",
                            full_name(files, kForeignCommonFile)));
  }
}

/// Common state is a map, whatever the file says that another program wrote.
Tree checked_common(Tree tree, std::string_view name) {
  if (!tree.is_map()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: common state is a dict that torch.save wrote; this is of kind {}", name,
                            cairn::name(tree.kind())));
  }
  return tree;
}

/// Reads common state of Cairn's, which has a file of its own.
Awaitable<Tree> read_common_file(Files files) {
  const std::string name(kStateDictCommonFile);
  Awaitable<std::vector<std::byte>> reading = read_whole(files, name);
  const std::vector<std::byte> bytes = co_await std::move(reading);
  co_return unpack_tree(bytes, full_name(*files, name));
}

/// A load reads this of the files of arrays.
struct WantedState {
  std::deque<AbstractShardedArray> boxes;
  std::vector<array_store::WantedArray> arrays;  ///< Tensors, which refer to `boxes`, then objects.
  std::size_t memories = 0;                      ///< Of tensors.
  std::vector<std::string> objects;              ///< Their unique keys.
  bool has_common = false;                       ///< Common state comes behind the objects.
};

/// Refuses a key that is asked for, and cannot be loaded.
void refuse_left_out(std::string_view key, const StoredDict& stored) {
  if (const LeftOutKey* one = stored.find_left_out(key)) {
    throw Error(
        Errc::structure_mismatch,
        fmt::format("'{}' is asked for, and cannot be loaded: {}; a request without it loads the rest", key,
                    one->why));
  }
}

WantedState wanted_state(const PreparedDict& prepared, const StoredDict& stored,
                         const std::set<std::string>& dropped, bool has_common) {
  WantedState wanted_now;
  for (const PreparedTensor& tensor : prepared.tensors) {
    refuse_left_out(tensor.key, stored);
  }
  for (const PreparedTensor& tensor : prepared.tensors) {
    if (!tensor.boxes.empty() && !dropped.contains(tensor.key)) {
      wanted_now.boxes.push_back(wanted(tensor));
      wanted_now.arrays.push_back(
          {stored.tensors.find(tensor.key)->second.entry, nullptr, &wanted_now.boxes.back()});
      wanted_now.memories += tensor.boxes.size();
    }
  }
  for (const PreparedObject& object : prepared.objects) {
    if (dropped.contains(object.key)) {
      continue;
    }
    const auto found = stored.objects.find(object.unique_key);
    if (found == stored.objects.end()) {
      refuse_left_out(object.key, stored);
      refuse_left_out(object.unique_key, stored);
      throw Error(Errc::not_found,
                  fmt::format("'{}': objects of this key are stored, but not this one", object.unique_key));
    }
    wanted_now.arrays.push_back({found->second.entry});
    wanted_now.objects.push_back(object.unique_key);
  }
  wanted_now.has_common = has_common && stored.common.has_value();
  if (wanted_now.has_common) {
    wanted_now.arrays.push_back({stored.common->entry});
  }
  return wanted_now;
}

array_store::ReadOptions read_options(const LoadContext& context) {
  array_store::ReadOptions options = array_read_options(context);
  if (context.option<TreeLoadOptions>() == nullptr) {
    options.allow_narrowing = true;  // As Megatron's loads convert.
  }
  return options;
}

/// Reads tensors into their memory, and makes trees of objects. `fault` is what this rank has found wrong before.
Awaitable<LoadedParts> read_arrays(LoadContext context, Files files, formats::Index index, WantedState wanted,
                                   ObjectMaker objects, std::optional<Error> fault) {
  if (index.foreign() != nullptr && !index.foreign()->is_located) {
    std::vector<array_store::WantedArray> arrays = wanted.arrays;
    Awaitable<formats::Index> locating = array_store::locate_wanted(files, objects.layout, std::move(index),
                                                                    std::move(arrays), read_options(context));
    index = co_await std::move(locating);
  }
  array_store::ReadPlan plan;
  std::function<void()> make_plan = [&] {
    const auto make = [&] {
      plan = array_store::plan_read(index, wanted.arrays, read_options(context), *files);
    };
    fault = fault ? fault : fault_in(context, make);
  };
  co_await context.run(std::move(make_plan));
  co_await share_fault(context, "faults of plans", fault);
  Awaitable<> reading = array_store::read(files, std::move(plan.pieces), std::move(plan.notes));
  co_await std::move(reading);
  LoadedParts loaded;
  std::function<void()> make_objects = [&] {
    const auto first = static_cast<std::ptrdiff_t>(wanted.arrays.size() - wanted.objects.size() -
                                                   (wanted.has_common ? 1 : 0));
    auto stored = wanted.arrays.begin() + first;
    auto array = plan.arrays.begin() + static_cast<std::ptrdiff_t>(wanted.memories);
    for (const std::string& unique_key : wanted.objects) {
      loaded.objects.emplace(unique_key, objects.make(index, (stored++)->entry, *array++));
    }
    if (wanted.has_common) {
      loaded.common =
          checked_common(objects.make(index, stored->entry, *array), formats::shown(stored->entry.name));
    }
  };
  co_await context.run(std::move(make_objects));
  co_return loaded;
}

/// What a load asks for.
struct AskedState {
  AbstractStateDict wanted;
  PreparedDict prepared;
};

AskedState all_of(const StoredDict& stored) {
  AbstractStateDict all(stored.dict());
  all.checks_access = false;
  PreparedDict prepared = prepare(all.requested, Purpose::load);
  return {std::move(all), std::move(prepared)};
}

Awaitable<formats::Index> open_stored(Files files, Layout layout) {
  array_store::OpenOptions options;
  options.layout = std::move(layout);
  return array_store::open_index(std::move(files), std::move(options));
}

/// Names what the load leaves out, in its problems.
void tell_left_out(const LoadContext& context, std::span<const LeftOutKey> left_out) {
  constexpr std::size_t kMostTold = 100;
  for (const LeftOutKey& one : left_out.first(std::min(left_out.size(), kMostTold))) {
    context.add_problem(fmt::format("'{}' is left out: {}", one.key, one.why));
  }
  if (left_out.size() > kMostTold) {
    context.add_problem(fmt::format("{} more keys are left out", left_out.size() - kMostTold));
  }
}

/// What of a checkpoint is known before its arrays.
struct KnownState {
  Tree common = Tree::map();  ///< Of a checkpoint of Cairn's.
  bool has_common = true;     ///< Common state is wanted.
  std::optional<ForeignConfig> config;
};

Awaitable<StateDict> read_sharded(LoadContext context, std::optional<AskedState> asked, ObjectMaker objects,
                                  KnownState known) {
  const Files files = stored_files(context);
  Awaitable<formats::Index> opening = open_stored(files, objects.layout);
  formats::Index index = co_await std::move(opening);
  StoredDict stored;
  std::function<void()> list = [&] {
    stored = stored_dict(index);
    if (objects.layout != nullptr) {
      check_folder(*files, known.config, stored, known.has_common);
    }
    tell_left_out(context, stored.left_out);
    if (!asked) {
      asked.emplace(all_of(stored));
    }
  };
  co_await context.run(std::move(list));
  Awaitable<std::set<std::string>> settling = settle_keys(context, asked->wanted, asked->prepared, stored);
  std::set<std::string> dropped = co_await std::move(settling);
  if (asked->wanted.checks_access) {
    co_await check_access(context, asked->prepared);
  }
  WantedState wanted_now;
  std::optional<Error> fault = fault_in(
      context, [&] { wanted_now = wanted_state(asked->prepared, stored, dropped, known.has_common); });
  Awaitable<LoadedParts> reading =
      read_arrays(context, files, std::move(index), std::move(wanted_now), objects, std::move(fault));
  LoadedParts loaded = co_await std::move(reading);
  if (loaded.common.is_null()) {
    loaded.common = std::move(known.common);
  }
  loaded.dropped = std::move(dropped);
  StateDict state;
  std::function<void()> finish = [&] {
    fault = fault_in(context, [&] { state = StateDict(assemble(asked->prepared, std::move(loaded))); });
  };
  co_await context.run(std::move(finish));
  co_await share_fault(context, "faults of states", std::move(fault));
  co_return state;
}

Background<StateDict> read_state(LoadContext context, std::optional<AskedState> asked) {
  const auto* given = context.option<LoadParts>();
  const LoadParts parts = given != nullptr ? *given : LoadParts();
  const Files files = stored_files(context);
  const ObjectMaker objects{context, layout_of(context), context.path().string(), asked.has_value()};
  KnownState known;
  known.has_common = parts.has_common;
  if (objects.layout != nullptr) {
    Awaitable<std::optional<ForeignConfig>> config = read_config(files);
    known.config = co_await std::move(config);
  }
  if (parts.has_common && objects.layout == nullptr) {
    Awaitable<Tree> common = read_common_file(files);
    known.common = co_await std::move(common);
  }
  if (!parts.has_sharded && objects.layout == nullptr) {
    co_return StateDict(std::move(known.common));
  }
  Awaitable<StateDict> reading = read_sharded(context, std::move(asked), objects, std::move(known));
  co_return co_await std::move(reading);
}

Awaitable<AbstractStateDict> read_stored_dict(LoadContext context) {
  Awaitable<formats::Index> opening = open_stored(stored_files(context), layout_of(context));
  const formats::Index index = co_await std::move(opening);
  StoredDict stored = stored_dict(index);
  AbstractStateDict answer(stored.dict());
  answer.left_out = std::move(stored.left_out);
  co_return answer;
}

}  // namespace
}  // namespace detail

Awaitable<Background<StateDict>> StateDictHandler::load(LoadContext context,
                                                        std::optional<AbstractStateDict> wanted) const {
  std::optional<detail::AskedState> asked;
  std::optional<Error> fault;
  if (wanted) {
    detail::AskedState& made = asked.emplace(detail::AskedState{*std::move(wanted), {}});
    fault = detail::fault_in(context, [&] {
      detail::throw_failed_before(context);
      made.prepared = detail::prepare(made.wanted.requested, detail::Purpose::load);
    });
  }
  co_await detail::share_fault(context, "faults of requests", std::move(fault));
  co_return detail::read_state(std::move(context), std::move(asked));
}

Awaitable<AbstractStateDict> StateDictHandler::metadata(LoadContext context) const {
  return detail::read_stored_dict(std::move(context));
}

Description StateDictHandler::describe(const AbstractStateDict& stored) const {
  std::vector<ArrayEntries::Described> arrays;
  Description description;
  description.kind = "state dict";
  if (const StateDict::Map* children = stored.requested.map_if()) {
    for (const auto& [key, child] : *children) {
      if (const auto* tensor = child.leaf_if<ShardedTensor>()) {
        arrays.push_back({detail::path_of(key), tensor->dtype, tensor->global_shape});
      } else if (child.leaf_if<ShardedObject>() != nullptr) {
        description.values.push_back({detail::path_of(key), "object", {}});
      }
    }
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  for (const LeftOutKey& one : stored.left_out) {
    description.left_out.push_back({detail::path_of(one.key), one.why, {}});
  }
  std::sort(arrays.begin(), arrays.end(), by_name);
  std::sort(description.values.begin(), description.values.end(), by_name);
  description.arrays = ArrayEntries(std::move(arrays));
  return description;
}

bool StateDictHandler::recognises(std::span<const std::string> files) const {
  return std::find(files.begin(), files.end(), ".metadata") != files.end() &&
         std::any_of(files.begin(), files.end(),
                     [](const std::string& file) { return file.ends_with(".distcp"); });
}

}  // namespace cairn::megatron
