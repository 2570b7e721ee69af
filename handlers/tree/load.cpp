// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/array/shape.hpp"
#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "assembler.hpp"
#include "containers.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"
#include "handlers/internal/array_files.hpp"
#include "index_names.hpp"
#include "numbers.hpp"
#include "selection.hpp"

namespace cairn {
namespace {

using formats::EntryKind;

/// Returns what is wanted of an array in boxes; null: all of it is.
const AbstractShardedArray* sharded_of(const detail::Selected& one) {
  return one.wanted ? detail::TreeAccess::leaf<AbstractShardedArray>(*one.wanted) : nullptr;
}

std::vector<array_store::WantedArray> arrays_of(const detail::Selection& selection) {
  std::vector<array_store::WantedArray> arrays;
  arrays.reserve(selection.entries.size());
  for (const detail::Selected& one : selection.entries) {
    if (one.entry.kind == EntryKind::array || one.entry.kind == EntryKind::unread) {
      arrays.push_back({one.entry, nullptr, sharded_of(one)});
      if (one.wanted && arrays.back().boxes == nullptr) {
        arrays.back().form = &one.wanted->as_array();
      }
    }
  }
  return arrays;
}

/// Makes a sharded array of as many arrays as it has shards; `next` is then behind those.
ShardedArray take_shards(const AbstractShardedArray& wanted, std::vector<Array>::iterator& next) {
  std::vector<Shard> shards;
  for (const WantedShard& one : wanted.shards) {
    shards.push_back({one.box, std::move(*next++), one.replica});
  }
  return {wanted.shape, wanted.dtype, std::move(shards), wanted.layout};
}

/// A leaf that is not an array, as it is wanted.
Tree scalar_of(const formats::Index& index, const detail::Selected& one, bool may_narrow) {
  Tree stored = detail::scalar_of(index, one.entry);
  if (one.wanted == nullptr || one.wanted->kind() == stored.kind() ||
      !detail::are_numbers(stored.kind(), one.wanted->kind())) {
    return stored;
  }
  const Narrowing narrowing = may_narrow ? Narrowing::allowed : one.wanted->narrowing();
  return detail::cast_number(stored, one.wanted->kind(), one.entry.name, narrowing);
}

void add_list(detail::Assembler<Tree>& assembler, const detail::Selected& list) {
  if (list.wanted == nullptr) {
    return assembler.add_list(list.entry.name, list.entry.list_size());
  }
  const auto* elements = detail::TreeAccess::list(*list.wanted);
  assembler.add_wanted_list(list.entry.name, elements ? elements->size() : 0);
}

/// Reads objects of other programs.
struct ObjectReader {
  std::shared_ptr<const array_store::FileLayout> layout;
  const TreeLoadOptions* options = nullptr;
  std::vector<formats::LeftOut>* left_out = nullptr;  ///< Told what is left out; null: nobody is.

  /// Makes a tree of the bytes of one that was selected; nothing where the object itself has no place in a tree.
  [[nodiscard]] std::optional<Tree> read(const formats::Index& of, const detail::Selected& one,
                                         const Array& array) const;
  [[nodiscard]] Tree read(const array_store::StoredObject& object, std::string_view path) const;

 private:
  [[nodiscard]] Tree read_all(const array_store::StoredObject& object) const;
  void tell(const array_store::StoredObject& object, std::string_view path) const;
};

/// What an object holds that has no place in a tree.
std::span<const formats::LeftOut> left_out_of(const array_store::StoredObject& object) {
  const auto* foreign = object.index().foreign();
  return foreign != nullptr ? std::span<const formats::LeftOut>(foreign->left_out)
                            : std::span<const formats::LeftOut>();
}

std::string joined(std::string_view path, std::string_view below) {
  return fmt::format("{}{}{}", path, path.empty() || below.empty() ? "" : "/", below);
}

/// Makes a tree of what was selected, and of its arrays.
Tree assemble(const formats::Index& index, const detail::Selection& selection, std::vector<Array> arrays,
              const ObjectReader& objects) {
  const bool may_narrow = objects.options->allow_narrowing;
  detail::Assembler<Tree> assembler(index.path(), index.size());
  auto array = arrays.begin();
  for (const detail::Selected& one : selection.entries) {
    const std::string_view path = one.entry.name;
    switch (one.entry.kind) {
      case EntryKind::array:
        if (one.is_placed) {
          ++array;
        } else if (const AbstractShardedArray* sharded = sharded_of(one)) {
          assembler.add(path, take_shards(*sharded, array));
        } else {
          assembler.add(path, std::move(*array++));
        }
        break;
      case EntryKind::list:
        add_list(assembler, one);
        break;
      case EntryKind::unread:
        if (std::optional<Tree> object = objects.read(index, one, *array++)) {
          assembler.add(path, *std::move(object));
        }
        break;
      default:
        assembler.add(path, scalar_of(index, one, may_narrow));
        break;
    }
  }
  return assembler.finish();
}

std::optional<Tree> ObjectReader::read(const formats::Index& of, const detail::Selected& one,
                                       const Array& array) const {
  const std::string_view path = one.entry.name;
  std::optional<array_store::StoredObject> opened;
  try {
    opened.emplace(*layout, of, one.entry, array.view().bytes());
  } catch (const Error& error) {
    if (!options->leave_out || one.is_named || error.code() == Errc::checksum_mismatch) {
      throw;
    }
    if (left_out != nullptr) {
      left_out->push_back(
          {std::string(path), fmt::format("an object that is not read ({})", error.detail())});
    }
    return std::nullopt;
  }
  const array_store::StoredObject& object = *opened;
  const std::span<const formats::LeftOut> lacks = left_out_of(object);
  const bool is_left_out =
      std::any_of(lacks.begin(), lacks.end(), [](const auto& each) { return each.path.empty(); });
  // A module that is left out has tensors. The one element of a list left a null in its place.
  const formats::Index& index = object.index();
  const bool has_parts = index.size() > 1 || (index.size() == 1 && !index.entry(0).name.empty());
  TreeLoadOptions strict;
  strict.leave_out = options->leave_out;
  detail::check_left_out(index, path, strict, is_left_out && one.is_named);
  tell(object, path);
  return is_left_out && !has_parts ? std::nullopt : std::optional(read_all(object));
}

Tree ObjectReader::read(const array_store::StoredObject& object, std::string_view path) const {
  detail::check_left_out(object.index(), path, *options);
  tell(object, {});
  return read_all(object);
}

Tree ObjectReader::read_all(const array_store::StoredObject& object) const {
  TreeLoadOptions of_all;
  of_all.leave_out = true;
  const detail::Selection all = detail::select_all(object.index(), of_all);
  return assemble(object.index(), all, object.read(arrays_of(all)), *this);
}

void ObjectReader::tell(const array_store::StoredObject& object, std::string_view path) const {
  for (const formats::LeftOut& each : left_out_of(object)) {
    if (left_out != nullptr) {
      left_out->push_back({joined(path, each.path), each.why});
    }
  }
}

TreeLoadOptions options_of(const LoadContext& context) {
  const TreeLoadOptions* given = context.option<TreeLoadOptions>();
  return given != nullptr ? *given : TreeLoadOptions();
}

/// Refuses an index whose arrays are larger than all files that could hold them: objects make room before those are
/// looked at.
void check_bytes(const formats::Index& index, const array_store::StoredFiles& files) {
  std::uint64_t left = 0;
  for (const std::string& file : files.names()) {
    left += files.size_bytes(file).value_or(0);
  }
  if (index.foreign() != nullptr && index.foreign()->may_overlap) {
    left = array_store::most_bytes_of(files);
  }
  formats::IndexArray array;
  for (std::size_t i = 0; index.next_array(i, array); ++i) {
    if (array.is_alias) {
      continue;
    }
    const std::uint64_t bytes = checked_byte_count(array.name, array.dtype, Shape(array.dims));
    if (bytes > left) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("{}: {}: the arrays up to this one have more bytes than all files",
                              index.path(), detail::shown(array.name)));
    }
    left -= bytes;
  }
}

/// Makes a node of that path; null where something is stored there, above it or below it.
AbstractTree* new_node(AbstractTree& tree, std::string_view path) {
  AbstractTree* at = &tree;
  bool is_new = false;
  for (const std::string& key : detail::keys_of(path)) {
    AbstractTree* child = detail::TreeAccess::child(*at, key);
    if (child == nullptr) {
      if (!is_new && detail::TreeAccess::map(*at) == nullptr) {
        return nullptr;
      }
      is_new = true;
      child = &(*at)[key];
    }
    at = child;
  }
  return is_new ? at : nullptr;
}

/// Returns what is stored, with the names of arrays that the caller says are of the same. `names` gets all of
/// arrays that have several.
AbstractTree described(const formats::Index& index, const std::map<std::string, std::string>& aliases,
                       ArrayNames& names) {
  AbstractTree stored(index);
  const auto others = detail::names_elsewhere(index, aliases);
  if (!others.empty()) {
    stored.materialise();
  }
  for (const auto& [name, elsewhere] : others) {
    AbstractTree array = std::as_const(stored).at(elsewhere);
    if (AbstractTree* node = new_node(stored, name)) {
      *node = std::move(array);
      names.names.insert({name, elsewhere});
    }
  }
  const std::vector<std::string_view> first_names =
      index.alias_count() > 0 ? index.first_names() : std::vector<std::string_view>();
  formats::IndexArray array;
  for (std::size_t i = 0; !first_names.empty() && index.next_array(i, array); ++i) {
    if (array.is_alias) {
      names.names.emplace(array.name);
      names.names.emplace(first_names[static_cast<std::size_t>(array.number)]);
    }
  }
  return stored;
}

/// The tensors of a flat map that a part of a tree names, or may be loaded from; nothing where that may be all of them.
std::optional<std::set<std::string, std::less<>>> names_of(const AbstractTree& wanted,
                                                           const TreeLoadOptions& options) {
  std::set<std::string, std::less<>> names;
  std::vector<std::string> paths = detail::wanted_paths(wanted);
  for (const auto& [name, other] : options.aliases) {
    paths.insert(paths.end(), {name, other});
  }
  for (const std::string& path : paths) {
    std::vector<std::string> keys = detail::keys_of(path);
    if (keys.empty()) {
      return std::nullopt;
    }
    names.insert(std::move(keys.front()));
  }
  return names;
}

/// The layout of files that others wrote; null where an index describes them.
std::shared_ptr<const array_store::FileLayout> layout_of(const LoadContext& context,
                                                         const array_store::FileLayouts& layouts,
                                                         const TreeLoadOptions& options) {
  return context.file_bytes(array_store::kIndexFile)
             ? nullptr
             : array_store::find_layout(context.files(), layouts, options.layout);
}

/// Returns what a load asks of the index of files that others wrote.
array_store::OpenOptions open_options(const LoadContext& context, const TreeLoadOptions& options) {
  array_store::OpenOptions open;
  open.has_file_metadata = options.file_metadata;
  open.allow_trailing_bytes = options.allow_trailing_bytes;
  open.is_partial = options.partial;
  open.on_problem = [context](const std::string& problem) { context.add_problem(problem); };
  return open;
}

/// Tells what a load leaves out of other programs' files.
void tell_left_out(const LoadContext& context, std::span<const formats::LeftOut> left_out) {
  for (const std::string& text : formats::left_out_texts(left_out)) {
    context.add_problem(text);
  }
}

/// Reads what a plan says, and makes a tree of it.
Awaitable<Tree> read_planned(LoadContext context, formats::Index index, detail::Selection selection,
                             array_store::ReadPlan plan, ObjectReader objects) {
  const bool has_objects =
      std::any_of(selection.entries.begin(), selection.entries.end(),
                  [](const detail::Selected& one) { return one.entry.kind == EntryKind::unread; });
  std::vector<Awaitable<>> tasks;
  tasks.push_back(array_store::read(stored_files(context), std::move(plan.pieces), std::move(plan.notes)));
  if (has_objects) {
    co_await async::when_all(std::move(tasks));
    tasks.clear();
  }
  Tree tree;
  std::function<void()> make_tree = [&] {
    tree = assemble(index, std::exchange(selection, {}), std::exchange(plan.arrays, {}), objects);
  };
  tasks.push_back(context.run(std::move(make_tree)));  // While the disk works.
  co_await async::when_all(std::move(tasks));
  co_return tree;
}

/// Does something, and adds sentences to what it throws.
template <class Work>
void add_sentences(const std::vector<std::string>& sentences, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (sentences.empty()) {
      throw;
    }
    throw Error(error.code(), fmt::format("{}; {}", error.detail(), fmt::join(sentences, "; ")));
  }
}

/// Opens the index of what is stored.
// outlives: read awaits it.
Awaitable<formats::Index> open_stored(LoadContext context,
                                      std::shared_ptr<const array_store::FileLayout> layout,
                                      TreeLoadOptions options, const std::optional<AbstractTree>& wanted,
                                      std::vector<std::string>& unused_renames) {
  array_store::OpenOptions how = open_options(context, options);
  how.layout = std::move(layout);
  const std::shared_ptr<TreeTarget> target = wanted ? wanted->target() : nullptr;
  const bool has_own_names = options.rename.empty() && options.separator.empty();
  if (options.partial && wanted && how.layout != nullptr && has_own_names) {
    std::function<void()> find_names = [&] {
      if (std::optional<AbstractTree> known = target ? target->wants_in_any_case() : wanted) {
        known->materialise();
        how.wanted = names_of(*known, options);
      }
    };
    co_await context.run(std::move(find_names));
  }
  Awaitable<formats::Index> opening = array_store::open_index(stored_files(context), std::move(how));
  formats::Index index = co_await std::move(opening);
  std::function<void()> rename = [&] { index = detail::renamed_index(index, options, unused_renames); };
  co_await context.run(std::move(rename));
  for (const std::string& sentence : unused_renames) {
    context.add_problem(sentence);
  }
  if (const formats::ForeignDetails* foreign = index.foreign()) {
    for (const std::string& problem : foreign->problems) {
      context.add_problem(problem);
    }
    if (options.leave_out) {
      tell_left_out(context, foreign->left_out);
    }
  }
  co_return index;
}

/// Tells an object what the options allow.
void allow(TreeTarget& target, const TreeLoadOptions& options, MemberDifferences& differences) {
  if (options.members_may_differ) {
    target.allow_differences(&differences);
  }
  if (options.allow_narrowing) {
    target.allow_narrowing();
  }
}

Awaitable<Tree> read(LoadContext context, array_store::FileLayouts layouts,
                     std::optional<AbstractTree> wanted) {
  const auto files = stored_files(context);
  const TreeLoadOptions options = options_of(context);
  const std::shared_ptr<TreeTarget> target = wanted ? wanted->target() : nullptr;
  std::vector<formats::LeftOut> left_out_of_objects;
  const ObjectReader objects{layout_of(context, layouts, options), &options, &left_out_of_objects};
  std::vector<std::string> unused_renames;
  formats::Index index = co_await open_stored(context, objects.layout, options, wanted, unused_renames);
  detail::Selection selection;
  array_store::ReadPlan plan;
  MemberDifferences differences;
  ArrayNames names;
  std::optional<std::vector<WantedPart>> parts;  // Of an object; `selection` refers to them.
  const bool is_located = index.foreign() == nullptr || index.foreign()->is_located;
  std::function<void()> make_plan = [&] {
    plan = array_store::plan_read(index, arrays_of(selection), array_read_options(context), *files);
  };
  const auto select = [&] {
    if (target) {
      allow(*target, options, differences);
      index.check_numbers();
      check_bytes(index, *files);
      const AbstractTree stored = described(index, options.aliases, names);
      target->know_names(names.names.empty() ? nullptr : &names);
      const bool may_want_parts = context.option<ObjectsOnly>() != nullptr && names.names.empty();
      parts = may_want_parts ? target->want_parts(stored) : std::nullopt;
      if (!parts) {
        wanted = target->want(stored);
      }
      detail::require_some_taken(index, differences);
    }
    if (wanted && !parts) {
      wanted->materialise();
    }
    index.check_numbers();
    selection = parts    ? detail::select_parts(index, *parts, options)
                : wanted ? detail::select(index, *wanted, options)
                         : detail::select_all(index, options);
    if (is_located) {
      make_plan();
    }
  };
  std::function<void()> make_selection = [&] { add_sentences(unused_renames, select); };
  co_await context.run(std::move(make_selection));
  if (!is_located) {
    index = co_await array_store::locate_wanted(files, objects.layout, index, arrays_of(selection),
                                                array_read_options(context));
    co_await context.run(std::move(make_plan));
  }
  Tree tree = co_await read_planned(context, index, std::move(selection), std::move(plan), objects);
  tell_left_out(context, left_out_of_objects);
  if (target) {
    std::function<void()> finish = [&] { target->finish(tree); };
    co_await context.run(std::move(finish));
    context.add_differences(std::move(differences.missing), std::move(differences.unexpected));
  }
  co_return std::move(tree);
}

Awaitable<AbstractTree> read_metadata(LoadContext context, array_store::FileLayouts layouts) {
  const TreeLoadOptions options = options_of(context);
  array_store::OpenOptions how = open_options(context, options);
  how.layout = layout_of(context, layouts, options);
  formats::Index index = co_await array_store::open_index(stored_files(context), std::move(how));
  std::vector<std::string> unused;
  std::function<void()> rename = [&] { index = detail::renamed_index(index, options, unused); };
  co_await context.run(std::move(rename));
  co_return AbstractTree(std::move(index));
}

}  // namespace

Tree read_object(std::shared_ptr<const array_store::FileLayout> layout,
                 const array_store::StoredObject& object, std::string_view path,
                 std::vector<formats::LeftOut>* left_out) {
  TreeLoadOptions options;
  options.leave_out = left_out != nullptr;
  return ObjectReader{std::move(layout), &options, left_out}.read(object, path);
}

Awaitable<Background<Tree>> TreeHandler::load(LoadContext context, std::optional<AbstractTree> wanted) const {
  co_return read(std::move(context), layouts_, std::move(wanted));
}

Awaitable<AbstractTree> TreeHandler::metadata(LoadContext context) const {
  return read_metadata(std::move(context), layouts_);
}

Description TreeHandler::describe(const AbstractTree& stored) const {
  Description description;
  description.kind = "tree";
  description.arrays = stored.arrays();
  description.values = stored.values();
  description.policies = stored.policies();
  description.layout = stored.layout();
  description.left_out = stored.left_out();
  description.problems = stored.problems();
  description.says_all = true;
  return description;
}

bool TreeHandler::recognises(std::span<const std::string> files) const {
  return array_store::find_layout(files, layouts_) != nullptr;
}

bool TreeHandler::takes(std::span<const std::string> files, const OptionSet& options) const {
  const auto* given = options.find<TreeLoadOptions>();
  return array_store::find_layout(files, layouts_, given != nullptr ? given->layout : std::string_view()) !=
         nullptr;
}

}  // namespace cairn
