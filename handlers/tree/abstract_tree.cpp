// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/abstract_tree.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "cairn/array/stored_slices.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/sharding/shards.hpp"

#include "assembler.hpp"
#include "containers.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"
#include "handlers/internal/cast_dtype.hpp"
#include "index_names.hpp"
#include "indexed_slices.hpp"
#include "numbers.hpp"

namespace cairn {

using detail::TreeAccess;
using formats::EntryKind;

namespace {

/// As std::equal, which calls memcmp for what are two numbers mostly.
bool is_equal(std::span<const std::uint64_t> dims, const Shape& shape) noexcept {
  if (dims.size() != shape.size()) {
    return false;
  }
  bool is_same = true;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    is_same = is_same && dims[i] == shape[i];
  }
  return is_same;
}

/// The arrays of an index, read where they lie.
class IndexedArrays final : public ArrayEntries::Source {
 public:
  explicit IndexedArrays(std::shared_ptr<const formats::Index> index) : index_(std::move(index)) {
    if (index_->alias_count() > 0) {
      first_names_ = index_->first_names();
    }
  }

  [[nodiscard]] std::size_t size() const noexcept override {
    return index_->array_count() + index_->alias_count() - index_->unread_count();
  }

  [[nodiscard]] bool find(std::size_t& position, ArrayEntry& entry) const override {
    formats::IndexArray array;
    if (!index_->next_array(position, array)) {
      return false;
    }
    // Neighbours are often of one dtype and shape: what was computed for the last one then holds.
    if (array.dtype != entry.dtype || !is_equal(array.dims, entry.shape)) {
      Shape shape(array.dims);
      entry.bytes = checked_byte_count(array.name, array.dtype, shape);
      entry.dtype = array.dtype;
      entry.shape = std::move(shape);
    }
    entry.name = array.name;
    entry.alias_of =
        array.is_alias ? first_names_[static_cast<std::size_t>(array.number)] : std::string_view();
    entry.parts = array.slice_count;
    entry.layout = index_->has_layouts() ? index_->layout(index_->entry(position)) : std::string_view();
    entry.stored = entry.parts == 1 && entry.layout.empty()
                       ? nullptr
                       : std::make_shared<const detail::IndexedSlices>(*index_, array, entry.layout);
    return true;
  }

 private:
  std::shared_ptr<const formats::Index> index_;
  std::vector<std::string_view> first_names_;  // By number; none where there are no aliases.
};

DescribedValue described(std::string_view path, TreeKind kind, const Tree& value) {
  DescribedValue described{std::string(path), std::string(name(kind)), {}};
  switch (value.kind()) {
    case TreeKind::boolean:
      described.value = value.as<bool>();
      break;
    case TreeKind::integer:
      if (const auto large = value.large_integer()) {
        described.value = *large;
      } else {
        described.value = value.as<std::int64_t>();
      }
      break;
    case TreeKind::floating:
      described.value = value.as<double>();
      break;
    case TreeKind::string:
      described.value = value.as<std::string>();
      break;
    case TreeKind::bytes:
      described.value = value.as<Bytes>();
      break;
    default:
      break;
  }
  return described;
}

/// The policies of an index, each with its files where there is more than one.
std::vector<FilesOfPolicy> policies_of(const formats::Index& index) {
  std::vector<FilesOfPolicy> policies;
  if (index.has_one_policy()) {
    policies.push_back({std::string(index.policy(0)), {}});
    return policies;
  }
  for (std::size_t i = 0; index.policy_count() > 0 && i < index.file_count(); ++i) {
    const std::string_view policy = index.policy_of_file(i);
    const auto is_it = [policy](const FilesOfPolicy& known) { return known.policy == policy; };
    auto found = std::find_if(policies.begin(), policies.end(), is_it);
    if (policy.empty()) {
      continue;
    }
    if (found == policies.end()) {
      found = policies.insert(found, {std::string(policy), {}});
    }
    found->files.emplace_back(index.file(i));
  }
  return policies;
}

}  // namespace

AbstractTree::AbstractTree() noexcept = default;

AbstractTree::AbstractTree(AbstractArray array) : value_(std::move(array)) {}

AbstractTree::AbstractTree(AbstractShardedArray array) : value_(std::move(array)) {}

AbstractTree::AbstractTree(Placeholder) : value_(placeholder) {}

AbstractTree::AbstractTree(AsSaved) : value_(as_saved) {}

AbstractTree::AbstractTree(std::shared_ptr<TreeTarget> target) : value_(std::move(target)) {}

AbstractTree::AbstractTree(Scalar scalar) : value_(std::move(scalar)) {}

AbstractTree::AbstractTree(TreeKind kind, Narrowing narrowing) {
  if (narrowing == Narrowing::allowed && !detail::are_numbers(kind, kind)) {
    throw Error(Errc::invalid_argument,
                fmt::format("narrowing is for integers and floating-point numbers, not for {}", name(kind)));
  }
  switch (kind) {
    case TreeKind::array:
    case TreeKind::sharded_array:
      throw Error(Errc::invalid_argument, "an abstract array needs a shape and a dtype");
    case TreeKind::map:
      TreeAccess::make_map(*this);
      return;
    case TreeKind::list:
      TreeAccess::make_list(*this);
      return;
    default:
      value_ = Scalar{kind, Tree(), narrowing};
  }
}

AbstractTree::AbstractTree(const Tree& tree) {
  TreeAccess::clone(tree, *this, [](const Tree& from, AbstractTree& to) {
    if (const Array* array = from.array_if()) {
      to.value_ = AbstractArray(array->view());
    } else if (const ShardedArray* sharded = from.sharded_array_if()) {
      to.value_ = AbstractShardedArray(*sharded);
    } else {
      to.value_ = Scalar{from.kind(), from, Narrowing::refused};
    }
  });
}

AbstractTree::AbstractTree(formats::Index index)
    : value_(std::make_shared<const formats::Index>(std::move(index))) {}

AbstractTree::AbstractTree(const AbstractTree& other) {
  TreeAccess::clone(other, *this, TreeAccess::copy_leaf<AbstractTree>);
}

// Not inline, as those of Tree: g++ 12 warns of members that are never used where it sees through the swap of two
// variants.
AbstractTree::AbstractTree(AbstractTree&& other) noexcept : value_(std::exchange(other.value_, Scalar())) {}

AbstractTree& AbstractTree::operator=(AbstractTree other) noexcept {
  value_.swap(other.value_);
  return *this;
}

AbstractTree::~AbstractTree() {
  TreeAccess::flatten(*this);
}

AbstractTree AbstractTree::of_entry(const formats::Index& index, const formats::IndexEntry& entry) {
  switch (entry.kind) {
    case EntryKind::array: {
      const formats::IndexArray stored = index.array(entry);
      AbstractArray array(Shape(stored.dims), stored.dtype);
      if (stored.slice_count > 1 || !detail::IndexedSlices::policy_of(index, stored).empty() ||
          (index.has_layouts() && !index.layout(entry).empty())) {
        array.stored = std::make_shared<const detail::IndexedSlices>(index, stored, index.layout(entry));
      }
      return array;
    }
    case EntryKind::empty_map:
      return TreeKind::map;
    case EntryKind::list:
      return TreeKind::list;
    case EntryKind::unread:
      return as_saved;
    default:
      break;
  }
  Tree value = detail::scalar_of(index, entry);
  const TreeKind kind = value.kind();
  return AbstractTree(Scalar{kind, std::move(value), Narrowing::refused});
}

AbstractTree AbstractTree::of_index(const formats::Index& index, std::string_view path) {
  detail::Assembler<AbstractTree> assembler(index.path(), index.size());
  const auto add = [&](std::size_t i) {
    const formats::IndexEntry entry = index.entry(i);
    const std::string_view name =
        entry.name.substr(std::min(path.empty() ? 0 : path.size() + 1, entry.name.size()));
    if (entry.kind == EntryKind::list) {
      assembler.add_list(name, entry.list_size());
    } else {
      assembler.add(name, of_entry(index, entry));
    }
  };
  const auto [begin, end] = detail::entries_below(index, path);
  const auto self = path.empty() ? std::nullopt : index.find(path);
  if (!self && begin == end && !path.empty()) {
    throw Error(Errc::not_found, fmt::format("{}: the tree has no '{}'", index.path(), path));
  }
  if (end - begin > 1) {
    index.check_numbers();
  }
  if (self) {
    add(*self);
  }
  for (std::size_t i = begin; i < end; ++i) {
    add(i);
  }
  return assembler.finish();
}

void AbstractTree::open() {
  if (const View* view = std::get_if<View>(&value_)) {
    *this = of_index(**view, {});
  }
}

void AbstractTree::materialise() {
  open();
  std::string path;
  // A view may have been put into a tree that is none.
  const auto open_leaf = [](std::string_view, AbstractTree& leaf) { leaf.open(); };
  TreeAccess::visit(*this, path, 0, open_leaf);
}

std::shared_ptr<TreeTarget> AbstractTree::target() const noexcept {
  const auto* target = std::get_if<std::shared_ptr<TreeTarget>>(&value_);
  return target ? *target : nullptr;
}

TreeKind AbstractTree::kind() const {
  if (const View* view = std::get_if<View>(&value_)) {
    const auto root = (*view)->find("");
    return root ? detail::kind_of((*view)->entry(*root).kind) : TreeKind::map;
  }
  if (const Scalar* scalar = std::get_if<Scalar>(&value_)) {
    return scalar->kind;
  }
  if (std::holds_alternative<AbstractArray>(value_)) {
    return TreeKind::array;
  }
  if (std::holds_alternative<AbstractShardedArray>(value_)) {
    return TreeKind::sharded_array;
  }
  if (TreeAccess::list(*this)) {
    return TreeKind::list;
  }
  return TreeAccess::map(*this) ? TreeKind::map : TreeKind::null;
}

AbstractTree& AbstractTree::operator[](std::string_view key) & {
  open();
  if (const Scalar* scalar = std::get_if<Scalar>(&value_); scalar && scalar->kind == TreeKind::null) {
    TreeAccess::make_map(*this);
  }
  return TreeAccess::child_or_new(as_map(), key);
}

AbstractTree& AbstractTree::operator[](std::size_t i) & {
  List& elements = as_list();
  if (i >= elements.size()) {
    throw Error(Errc::not_found, fmt::format("the list has {} elements, no element {}", elements.size(), i));
  }
  return elements[i];
}

AbstractTree& AbstractTree::at(std::string_view path) & {
  // Opens what lies on the way and no more: a tree of 100,000 arrays is asked for each of them.
  AbstractTree* node = this;
  node->open();
  for (const std::string& key : detail::keys_of(path)) {
    node = TreeAccess::child(*node, key);
    if (node == nullptr) {
      throw Error(Errc::not_found, fmt::format("the tree has no '{}'", path));
    }
    node->open();
  }
  return *node;
}

AbstractTree AbstractTree::at(std::string_view path) const& {
  if (const View* view = std::get_if<View>(&value_)) {
    return of_index(**view, detail::entry_path(path));
  }
  if (const AbstractTree* found = TreeAccess::find(*this, path)) {
    return *found;
  }
  AbstractTree opened = *this;
  return opened.at(path);
}

AbstractTree::Map& AbstractTree::as_map() & {
  open();
  if (Map* children = TreeAccess::map(*this)) {
    return *children;
  }
  throw_kind(TreeKind::map);
}

AbstractTree::List& AbstractTree::as_list() & {
  open();
  if (List* elements = TreeAccess::list(*this)) {
    return *elements;
  }
  throw_kind(TreeKind::list);
}

void AbstractTree::push_back(AbstractTree element) {
  if (const Scalar* scalar = std::get_if<Scalar>(&value_); scalar && scalar->kind == TreeKind::null) {
    TreeAccess::make_list(*this);
  }
  as_list().push_back(std::move(element));
}

AbstractArray& AbstractTree::as_array() & {
  open();
  return const_cast<AbstractArray&>(std::as_const(*this).as_array());
}

const AbstractArray& AbstractTree::as_array() const& {
  if (const AbstractArray* array = std::get_if<AbstractArray>(&value_)) {
    return *array;
  }
  throw_kind(TreeKind::array);
}

AbstractShardedArray& AbstractTree::as_sharded_array() & {
  open();
  return const_cast<AbstractShardedArray&>(std::as_const(*this).as_sharded_array());
}

const AbstractShardedArray& AbstractTree::as_sharded_array() const& {
  if (const AbstractShardedArray* array = std::get_if<AbstractShardedArray>(&value_)) {
    return *array;
  }
  throw_kind(TreeKind::sharded_array);
}

void AbstractTree::shard(const Sharding& sharding, std::uint32_t rank) {
  open();
  if (const AbstractArray* array = std::get_if<AbstractArray>(&value_); array != nullptr && array->box) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("an array of which box {} is wanted cannot be divided, too", to_string(*array->box)));
  }
  if (const AbstractShardedArray* array = std::get_if<AbstractShardedArray>(&value_)) {
    AbstractArray whole(array->shape, array->dtype);
    whole.allows_narrowing = array->allows_narrowing;
    whole.on_mismatch = array->on_mismatch;
    value_ = wanted(whole, sharding, rank);
  } else {
    value_ = wanted(as_array(), sharding, rank);
  }
}

const Tree& AbstractTree::stored_value() const& noexcept {
  static const Tree& null = *new Tree;  // Never destroyed, as other static objects may have trees.
  const Scalar* scalar = std::get_if<Scalar>(&value_);
  return scalar ? scalar->value : null;
}

Narrowing AbstractTree::narrowing() const noexcept {
  const Scalar* scalar = std::get_if<Scalar>(&value_);
  return scalar ? scalar->narrowing : Narrowing::refused;
}

void AbstractTree::set_dtype(DType dtype, Narrowing narrowing) {
  if (!is_valid(dtype)) {
    throw Error(Errc::invalid_argument, fmt::format("{} is not a dtype", static_cast<unsigned>(dtype)));
  }
  materialise();
  std::string path;
  const auto set = [&](std::string_view, AbstractTree& leaf) {
    const auto set_one = [&](auto* array) {
      if (const auto other = array ? detail::cast_dtype(array->dtype, dtype) : std::nullopt) {
        array->dtype = *other;
        array->allows_narrowing = narrowing == Narrowing::allowed;
      }
    };
    set_one(std::get_if<AbstractArray>(&leaf.value_));
    set_one(std::get_if<AbstractShardedArray>(&leaf.value_));
  };
  TreeAccess::visit(*this, path, 0, set);
}

ArrayEntries AbstractTree::arrays() const {
  if (const View* view = std::get_if<View>(&value_)) {
    return ArrayEntries(std::make_shared<const IndexedArrays>(*view));
  }
  std::vector<ArrayEntries::Described> found;
  visit_leaves(*this, [&found](std::string_view path, const AbstractTree& leaf) {
    if (const AbstractArray* array = std::get_if<AbstractArray>(&leaf.value_)) {
      found.push_back({std::string(path), array->dtype, array->shape});
      if (array->stored != nullptr) {
        found.back().parts = array->stored->size();
        found.back().layout = array->stored->layout();
        found.back().stored = array->stored;
      }
    } else if (const auto* sharded = std::get_if<AbstractShardedArray>(&leaf.value_)) {
      found.push_back({std::string(path), sharded->dtype, sharded->shape, sharded->shards.size(),
                       sharded->layout != nullptr ? sharded->layout->to_json() : "", sharded->stored});
    }
  });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return ArrayEntries(std::move(found));
}

std::vector<FilesOfPolicy> AbstractTree::policies() const {
  std::vector<FilesOfPolicy> policies;
  if (const View* view = std::get_if<View>(&value_)) {
    return policies_of(**view);
  }
  std::shared_ptr<const StoredSlices> stored;
  if (const AbstractArray* array = std::get_if<AbstractArray>(&value_)) {
    stored = array->stored;
  } else if (const auto* sharded = std::get_if<AbstractShardedArray>(&value_)) {
    stored = sharded->stored;
  }
  if (stored != nullptr && !stored->policy().empty()) {
    policies.push_back({std::string(stored->policy()), {}});
  }
  return policies;
}

std::string AbstractTree::policy() const {
  std::string sentences;
  for (const FilesOfPolicy& one : policies()) {
    sentences += (sentences.empty() ? "" : "; ") + one.policy;
  }
  return sentences;
}

std::vector<DescribedValue> AbstractTree::values() const {
  std::vector<DescribedValue> found;
  if (const View* view = std::get_if<View>(&value_)) {
    const formats::Index& index = **view;
    const std::size_t arrays = index.array_count() + index.alias_count() - index.unread_count();
    const std::size_t count = index.size() - std::min(arrays, index.size());
    for (std::size_t i = 0; i < index.size() && found.size() < count; ++i) {
      const formats::IndexEntry entry = index.entry(i);
      if (entry.kind == EntryKind::unread) {
        found.push_back({std::string(entry.name), std::string(name(entry.kind)), {}});
      } else if (entry.kind != EntryKind::array) {
        found.push_back(described(entry.name, detail::kind_of(entry.kind), detail::scalar_of(index, entry)));
      }
    }
    return found;
  }
  visit_leaves(*this, [&found](std::string_view path, const AbstractTree& leaf) {
    const bool is_array = leaf.kind() == TreeKind::array || leaf.kind() == TreeKind::sharded_array;
    if (!is_array && !leaf.is_placeholder() && !leaf.is_as_saved()) {
      found.push_back(described(path, leaf.kind(), leaf.stored_value()));
    }
  });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

const formats::ForeignDetails* AbstractTree::foreign() const noexcept {
  const View* view = std::get_if<View>(&value_);
  return view != nullptr ? (*view)->foreign() : nullptr;
}

std::string AbstractTree::layout() const {
  return foreign() != nullptr ? foreign()->layout : std::string();
}

std::vector<DescribedValue> AbstractTree::left_out() const {
  std::vector<DescribedValue> found;
  const formats::ForeignDetails* details = foreign();
  for (std::size_t i = 0; details != nullptr && i < details->left_out.size(); ++i) {
    found.push_back({details->left_out[i].path, details->left_out[i].why, {}});
  }
  return found;
}

std::vector<std::string> AbstractTree::problems() const {
  return foreign() != nullptr ? foreign()->problems : std::vector<std::string>();
}

bool operator==(const AbstractTree& a, const AbstractTree& b) {
  AbstractTree left = a;
  AbstractTree right = b;
  left.materialise();
  right.materialise();
  return TreeAccess::is_equal(left, right, [](const auto& x, const auto& y) { return x.value_ == y.value_; });
}

void AbstractTree::throw_kind(TreeKind wanted) const {
  std::string_view is = is_as_saved() ? "wanted as it was saved" : name(kind());
  is = is_placeholder() ? "a placeholder" : target() != nullptr ? "an object to load into" : is;
  throw Error(Errc::type_mismatch, fmt::format("the node is {}, not {}", is, name(wanted)));
}

void visit_leaves(const AbstractTree& tree,
                  const std::function<void(std::string_view path, const AbstractTree& leaf)>& visitor) {
  AbstractTree built = tree;
  built.materialise();
  std::string path;
  TreeAccess::visit(std::as_const(built), path, 0, visitor);
}

bool WritesToCaller<AbstractShardedArray>::check(const AbstractShardedArray& wanted) {
  return std::any_of(wanted.shards.begin(), wanted.shards.end(),
                     [](const WantedShard& shard) { return shard.destination.has_value(); });
}

bool WritesToCaller<AbstractTree>::check(const AbstractTree& wanted) {
  if (wanted.is_view()) {
    return false;  // As it was stored: nobody has asked for anything yet.
  }
  if (wanted.target() != nullptr) {
    return true;
  }
  bool writes = false;
  visit_leaves(wanted, [&writes](std::string_view, const AbstractTree& leaf) {
    if (leaf.kind() == TreeKind::sharded_array) {
      writes = writes || WritesToCaller<AbstractShardedArray>::check(leaf.as_sharded_array());
    } else {
      writes = writes || (leaf.kind() == TreeKind::array && leaf.as_array().destination);
    }
  });
  return writes;
}

}  // namespace cairn
