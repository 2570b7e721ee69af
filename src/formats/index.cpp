// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/file_name.hpp"
#include "formats/index_generated.h"
#include "formats/index_names.hpp"
#include "formats/internal/foreign_index.hpp"

namespace cairn::formats {
namespace {

constexpr std::size_t kColumnAlignment = 8;
// Half a range of 64 bits, so that sums of an offset and a size need no further thought.
constexpr std::uint64_t kMaxFileBytes = std::numeric_limits<std::int64_t>::max();

/// Views a column where it lies.
template <class T>
std::span<const T> column(const flatbuffers::Vector<T>* stored, std::string_view name,
                          std::string_view path) {
  if (stored->size() == 0) {
    return {};  // Writers do not align what is not there.
  }
  // The verifier of FlatBuffers 2.0 looks at the alignment of a vector's length, not at that of its elements.
  if (reinterpret_cast<std::uintptr_t>(stored->data()) % alignof(T) != 0) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: column {} is not aligned", path, name));
  }
  return {stored->data(), stored->size()};
}

template <class T>
std::span<const T> optional_column(const flatbuffers::Vector<T>* stored, std::string_view name,
                                   std::string_view path) {
  return stored == nullptr ? std::span<const T>() : column(stored, name, path);
}

std::string_view text_of(std::span<const std::uint8_t> chars) {
  return {reinterpret_cast<const char*>(chars.data()), chars.size()};
}

[[noreturn]] void refuse_kind(const IndexEntry& entry, std::string_view wanted) {
  throw Error(Errc::type_mismatch,
              fmt::format("entry '{}' is of kind {}, not {}", entry.name, name(entry.kind), wanted));
}

void require_kind(const IndexEntry& entry, EntryKind kind) {
  if (entry.kind != kind) {
    refuse_kind(entry, name(kind));
  }
}

/// Returns whether an entry has columns of an array.
bool is_array_kind(std::uint8_t kind) noexcept {
  return kind == static_cast<std::uint8_t>(EntryKind::array) ||
         kind == static_cast<std::uint8_t>(EntryKind::unread);
}

}  // namespace

std::string_view name(EntryKind kind) noexcept {
  static constexpr std::array<std::string_view, 11> kNames = {
      "?",      "array", "integer", "unsigned integer", "float", "bool",
      "string", "bytes", "null",    "empty map",        "list"};
  if (kind == EntryKind::unread) {
    return "object";
  }
  const auto number = static_cast<std::size_t>(kind);
  return kNames[number < kNames.size() ? number : 0];
}

std::int64_t IndexEntry::as_integer() const {
  require_kind(*this, EntryKind::integer);
  return static_cast<std::int64_t>(value);
}

std::uint64_t IndexEntry::as_unsigned() const {
  require_kind(*this, EntryKind::unsigned_integer);
  return value;
}

double IndexEntry::as_double() const {
  require_kind(*this, EntryKind::floating);
  return std::bit_cast<double>(value);
}

bool IndexEntry::as_bool() const {
  require_kind(*this, EntryKind::boolean);
  return value != 0;
}

std::uint64_t IndexEntry::list_size() const {
  require_kind(*this, EntryKind::list);
  return value;
}

Index Index::open(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, std::string path) {
  Index index;
  index.owner_ = std::move(owner);
  index.path_ = std::move(path);
  if (bytes.size() < 2 * sizeof(flatbuffers::uoffset_t) || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    index.refuse(fmt::format("{} bytes are not an index", bytes.size()));
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (reinterpret_cast<std::uintptr_t>(data) % kColumnAlignment != 0) {
    // Columns are read in place as 64-bit numbers; bytes from the middle of a buffer are moved once.
    const auto aligned =
        std::make_shared<std::uint64_t[]>((bytes.size() + kColumnAlignment - 1) / kColumnAlignment);
    std::memcpy(aligned.get(), data, bytes.size());
    data = reinterpret_cast<const std::uint8_t*>(aligned.get());
    index.owner_ = aligned;
  }
  const char* identifier = stored::IndexIdentifier();
  if (!flatbuffers::Verifier(data, bytes.size()).VerifyBuffer<stored::AnyVersion>(identifier)) {
    index.refuse("the bytes are not an index");
  }
  const std::uint32_t version = flatbuffers::GetRoot<stored::AnyVersion>(data)->version();
  if (version > kIndexVersion) {
    throw Error(Errc::unsupported_version, fmt::format("{}: index of version {}, this library reads up to {}",
                                                       index.path_, version, kIndexVersion));
  }
  if (version == 0 || !flatbuffers::Verifier(data, bytes.size()).VerifyBuffer<stored::Index>(identifier)) {
    index.refuse("the index is damaged");
  }
  const stored::Index& root = *stored::GetIndex(data);
  index.names_ = column(root.names(), "names", index.path_);
  index.name_ends_ = column(root.name_ends(), "name_ends", index.path_);
  index.kinds_ = column(root.kinds(), "kinds", index.path_);
  index.values_ = column(root.values(), "values", index.path_);
  index.dtypes_ = column(root.dtypes(), "dtypes", index.path_);
  index.dims_ = column(root.dims(), "dims", index.path_);
  index.dims_ends_ = column(root.dims_ends(), "dims_ends", index.path_);
  index.slice_ends_ = column(root.slice_ends(), "slice_ends", index.path_);
  index.slice_files_ = column(root.slice_files(), "slice_files", index.path_);
  index.slice_offsets_ = column(root.slice_offsets(), "slice_offsets", index.path_);
  index.boxes_ = column(root.boxes(), "boxes", index.path_);
  index.box_ends_ = column(root.box_ends(), "box_ends", index.path_);
  index.file_names_ = column(root.file_names(), "file_names", index.path_);
  index.file_name_ends_ = column(root.file_name_ends(), "file_name_ends", index.path_);
  index.blobs_ = column(root.blobs(), "blobs", index.path_);
  index.blob_ends_ = column(root.blob_ends(), "blob_ends", index.path_);
  index.layout_numbers_ = optional_column(root.layout_numbers(), "layout_numbers", index.path_);
  index.layouts_ = optional_column(root.layouts(), "layouts", index.path_);
  index.layout_ends_ = optional_column(root.layout_ends(), "layout_ends", index.path_);
  index.policies_ = optional_column(root.policy(), "policy", index.path_);
  index.policy_ends_ = optional_column(root.policy_ends(), "policy_ends", index.path_);
  index.file_policies_ = optional_column(root.file_policies(), "file_policies", index.path_);
  index.aliases_ = optional_column(root.aliases(), "aliases", index.path_);
  index.alias_ends_ = optional_column(root.alias_ends(), "alias_ends", index.path_);
  index.check_columns();
  index.check_file_names();
  index.place_aliases();
  return index;
}

void Index::check_columns() const {
  if (kinds_.size() != name_ends_.size() || values_.size() != name_ends_.size()) {
    refuse("the columns of entries differ in length");
  }
  if (dims_ends_.size() != dtypes_.size() || slice_ends_.size() != dtypes_.size()) {
    refuse("the columns of arrays differ in length");
  }
  if (slice_offsets_.size() != slice_files_.size() || box_ends_.size() != slice_files_.size()) {
    refuse("the columns of slices differ in length");
  }
  if (!layout_numbers_.empty() && layout_numbers_.size() != dtypes_.size()) {
    refuse("the columns of arrays and of their layouts differ in length");
  }
  if (!file_policies_.empty() && file_policies_.size() != file_name_ends_.size()) {
    refuse("the columns of files and of their policies differ in length");
  }
  if (policy_ends_.size() > kMaxPolicies) {
    refuse(fmt::format("{} sharding policies are more than {}", policy_ends_.size(), kMaxPolicies));
  }
  if (file_policies_.empty() && policy_ends_.size() > 1) {
    refuse("nothing says which file was made by which sharding policy");
  }
  if (alias_ends_.size() % 2 != 0) {
    refuse(fmt::format("column alias_ends has {} numbers, not two for each alias", alias_ends_.size()));
  }
}

// There are few. What is checked here lets every later access take an alias for an entry of the columns. A binary
// search finds no lower place for a higher name, whatever the order of the entries is: so the places rise.
void Index::place_aliases() {
  if (alias_ends_.empty()) {
    return;
  }
  auto places = std::make_shared<std::vector<AliasPlace>>(alias_ends_.size() / 2);
  std::uint32_t inserted = 0;
  for (std::size_t i = 0; i < places->size(); ++i) {
    const std::string_view name = alias_name(i);
    if (i > 0 && name <= alias_name(i - 1)) {
      refuse(fmt::format("alias '{}' {} '{}'", name,
                         name == alias_name(i - 1) ? "has the same name as" : "should stand before",
                         alias_name(i - 1)));
    }
    if (alias_number(i) >= array_count()) {
      refuse(fmt::format("alias '{}' stands for array {} of {}", name, alias_number(i), array_count()));
    }
    const std::size_t at = lower_bound(name_ends_.size(), name, &Index::column_name);
    const bool is_hidden = at < name_ends_.size() && column_name(at) == name;
    if (is_hidden && static_cast<EntryKind>(kinds_[at]) != EntryKind::null) {
      refuse(fmt::format("alias '{}' has the name of another entry", name));
    }
    (*places)[i].place = static_cast<std::uint32_t>(at + inserted);
    inserted += is_hidden ? 0 : 1;
    (*places)[i].inserted = inserted;
  }
  alias_places_ = std::move(places);
}

void Index::refuse(std::string_view why) const {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path_, why));
}

template <class T>
inline std::span<const T> Index::run(std::span<const T> values, std::span<const std::uint32_t> ends,
                                     std::size_t i, std::string_view column) const {
  const std::uint32_t begin = i == 0 ? 0 : ends[i - 1];
  const std::uint32_t end = ends[i];
  if (begin > end || end > values.size()) {
    refuse_run(i, column, begin, end, values.size());
  }
  return {values.data() + begin, end - begin};
}

void Index::refuse_run(std::size_t i, std::string_view column, std::uint32_t begin, std::uint32_t end,
                       std::size_t size) const {
  refuse(fmt::format("run {} of column {} is [{}, {}) of {}", i, column, begin, end, size));
}

inline std::string_view Index::column_name(std::size_t i) const {
  const auto chars = run(names_, name_ends_, i, "names");
  return {reinterpret_cast<const char*>(chars.data()), chars.size()};
}

std::string_view Index::alias_name(std::size_t i) const {
  const std::uint32_t begin = i == 0 ? 0 : alias_ends_[2 * i - 2];
  const std::uint32_t end = alias_ends_[2 * i];
  if (begin > end || end > aliases_.size()) {
    refuse_run(i, "aliases", begin, end, aliases_.size());
  }
  return text_of(aliases_.subspan(begin, end - begin));
}

inline Index::Place Index::place_of(std::size_t i) const noexcept {
  if (alias_places_ == nullptr) {
    return {i, false};
  }
  const auto behind =
      std::upper_bound(alias_places_->begin(), alias_places_->end(), i,
                       [](std::size_t place, const AliasPlace& alias) { return place < alias.place; });
  if (behind == alias_places_->begin()) {
    return {i, false};
  }
  const auto before = std::prev(behind);
  if (before->place == i) {
    return {static_cast<std::size_t>(before - alias_places_->begin()), true};
  }
  return {i - before->inserted, false};
}

inline std::string_view Index::name_of(std::size_t i) const {
  const Place place = place_of(i);
  return place.is_alias ? alias_name(place.number) : column_name(place.number);
}

inline std::string_view Index::file_name(std::size_t i) const {
  const auto chars = run(file_names_, file_name_ends_, i, "file_names");
  return {reinterpret_cast<const char*>(chars.data()), chars.size()};
}

// There are few, and arrays in them come in millions: they are looked at here, and not for each array.
void Index::check_file_names() const {
  for (std::size_t i = 0; i < file_name_ends_.size(); ++i) {
    if (!is_plain_file_name(file_name(i))) {
      refuse(fmt::format("file {} is called '{}', which is not a plain file name", i, file_name(i)));
    }
  }
}

IndexEntry Index::entry(std::size_t i) const {
  if (i >= size()) {
    throw Error(Errc::invalid_argument, fmt::format("{}: entry {} of {}", path_, i, size()));
  }
  const auto [number, is_alias] = place_of(i);
  if (is_alias) {
    return {alias_name(number), EntryKind::array, alias_number(number), true};
  }
  const auto kind = static_cast<EntryKind>(kinds_[number]);
  if (!is_known(kind)) {
    refuse(fmt::format("entry '{}' is of unknown kind {}", column_name(number), kinds_[number]));
  }
  return {column_name(number), kind, values_[number]};
}

template <class NameOf>
std::size_t Index::lower_bound(std::size_t end, std::string_view name, NameOf name_at) const {
  std::size_t begin = 0;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if ((this->*name_at)(middle) < name) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

std::optional<std::size_t> Index::find(std::string_view name) const {
  const std::size_t found = lower_bound(size(), name, &Index::name_of);
  return found == size() || name_of(found) != name ? std::nullopt : std::optional(found);
}

std::vector<std::string_view> Index::first_names() const {
  std::vector<std::string_view> names(array_count());
  for (std::size_t i = 0; i < name_ends_.size(); ++i) {
    if (static_cast<EntryKind>(kinds_[i]) == EntryKind::array && values_[i] < names.size()) {
      names[static_cast<std::size_t>(values_[i])] = column_name(i);
    }
  }
  return names;
}

IndexArray Index::array(const IndexEntry& entry) const {
  if (entry.kind != EntryKind::unread) {
    require_kind(entry, EntryKind::array);
  }
  IndexArray array;
  fill_array(entry, array);
  return array;
}

bool Index::next_array(std::size_t& i, IndexArray& array) const {
  for (; i < size(); ++i) {
    const Place place = place_of(i);
    const auto kind = place.is_alias ? EntryKind::array : static_cast<EntryKind>(kinds_[place.number]);
    if (kind == EntryKind::array) {
      fill_array(entry(i), array);
      return true;
    }
    if (!is_known(kind)) {
      static_cast<void>(entry(i));  // Refuses it.
    }
  }
  return false;
}

// Called for each of a million arrays: what refuses stands apart, so that this stays short.
void Index::fill_array(const IndexEntry& entry, IndexArray& array) const {
  if (entry.value >= array_count()) {
    refuse_number(entry);
  }
  const auto i = static_cast<std::size_t>(entry.value);
  array.name = entry.name;
  array.number = entry.value;
  array.is_alias = entry.is_alias;
  array.dtype = static_cast<DType>(dtypes_[i]);
  array.dims = run(dims_, dims_ends_, i, "dims");
  if (!cairn::is_valid(array.dtype) || array.dims.size() > kMaxRank) {
    refuse_type(array);
  }
  const auto slices = run(slice_files_, slice_ends_, i, "slices");
  array.first_slice = static_cast<std::uint32_t>(slices.data() - slice_files_.data());
  array.slice_count = static_cast<std::uint32_t>(slices.size());
}

void Index::refuse_number(const IndexEntry& entry) const {
  refuse(fmt::format("entry '{}' is array {} of {}", entry.name, entry.value, array_count()));
}

void Index::refuse_type(const IndexArray& array) const {
  if (!cairn::is_valid(array.dtype)) {
    refuse(fmt::format("array '{}' is of unknown dtype {}", array.name, static_cast<unsigned>(array.dtype)));
  }
  refuse(fmt::format("array '{}' has {} dimensions, more than {}", array.name, array.dims.size(), kMaxRank));
}

std::span<const std::uint8_t> Index::blob(const IndexEntry& entry) const {
  if (entry.value >= blob_ends_.size()) {
    refuse(fmt::format("entry '{}' is blob {} of {}", entry.name, entry.value, blob_ends_.size()));
  }
  return run(blobs_, blob_ends_, static_cast<std::size_t>(entry.value), "blobs");
}

std::string_view Index::string(const IndexEntry& entry) const {
  require_kind(entry, EntryKind::string);
  const auto chars = blob(entry);
  return {reinterpret_cast<const char*>(chars.data()), chars.size()};
}

std::span<const std::byte> Index::bytes(const IndexEntry& entry) const {
  require_kind(entry, EntryKind::bytes);
  return std::as_bytes(blob(entry));
}

std::uint64_t Index::byte_size(const IndexArray& array, std::span<const std::uint64_t> extents) const {
  const std::optional<std::uint64_t> bytes = byte_count(array.dtype, extents);
  if (!bytes) {
    refuse(fmt::format("array '{}': {} of shape {} is not a whole number of bytes below 2^63", array.name,
                       array.dtype, Shape(extents)));
  }
  return *bytes;
}

IndexSlice Index::slice(const IndexArray& array, std::uint32_t i) const {
  if (i >= array.slice_count) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: slice {} of the {} of array '{}'", path_, i, array.slice_count, array.name));
  }
  const std::size_t number = std::size_t{array.first_slice} + i;
  IndexSlice slice;
  const std::uint32_t file = slice_files_[number];
  if (file >= file_name_ends_.size()) {
    refuse(fmt::format("array '{}' lies in file {} of {}", array.name, file, file_name_ends_.size()));
  }
  slice.file = file_name(file);
  slice.file_number = file;
  const auto box = run(boxes_, box_ends_, number, "boxes");
  slice.is_whole = box.empty();
  if (!slice.is_whole && box.size() != 2 * array.dims.size()) {
    refuse(fmt::format("array '{}' has {} dimensions, but a box of {} numbers", array.name, array.dims.size(),
                       box.size()));
  }
  slice.offsets = box.first(box.size() / 2);
  slice.extents = box.last(box.size() / 2);
  for (std::size_t d = 0; d < slice.offsets.size(); ++d) {
    if (slice.offsets[d] > array.dims[d] || slice.extents[d] > array.dims[d] - slice.offsets[d]) {
      refuse(
          fmt::format("array '{}': a box reaches beyond dimension {} of {}", array.name, d, array.dims[d]));
    }
  }
  slice.size = byte_size(array, slice.is_whole ? array.dims : slice.extents);
  slice.offset = slice_offsets_[number];
  if (slice.offset > kMaxFileBytes || slice.size > kMaxFileBytes - slice.offset) {
    refuse(fmt::format("array '{}' ends beyond 2^63 bytes of '{}'", array.name, slice.file));
  }
  if (foreign_ != nullptr && !foreign_->slices.empty()) {
    place_slice(number, slice);
  }
  return slice;
}

bool Index::is_known(EntryKind kind) const noexcept {
  return (kind >= EntryKind::array && kind <= EntryKind::list) ||
         (kind == EntryKind::unread && foreign_ != nullptr);
}

std::string_view Index::layout(const IndexEntry& entry) const {
  require_kind(entry, EntryKind::array);
  const std::uint32_t number = entry.value < layout_numbers_.size() ? layout_numbers_[entry.value] : 0;
  if (number > layout_ends_.size()) {
    refuse(fmt::format("array '{}' has layout {} of {}", entry.name, number, layout_ends_.size()));
  }
  if (number == 0) {
    return {};
  }
  const std::string_view text = text_of(run(layouts_, layout_ends_, number - 1, "layouts"));
  if (!is_valid_utf8(text)) {
    refuse(fmt::format("the layout of array '{}' is not valid UTF-8", entry.name));
  }
  return text;
}

std::string_view Index::file(std::size_t i) const {
  if (i >= file_count()) {
    throw Error(Errc::invalid_argument, fmt::format("{}: file {} of {}", path_, i, file_count()));
  }
  return file_name(i);
}

std::string_view Index::policy(std::size_t i) const {
  if (i >= policy_count()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: sharding policy {} of {}", path_, i, policy_count()));
  }
  const std::string_view text =
      text_of(policy_ends_.empty() ? policies_ : run(policies_, policy_ends_, i, "policy"));
  if (!is_valid_utf8(text)) {
    refuse("what it says of the sharding policy is not valid UTF-8");
  }
  return text;
}

std::string_view Index::policy_of_file(std::size_t i) const {
  const std::string_view name = file(i);
  if (file_policies_.empty()) {
    return policies_.empty() ? std::string_view() : policy(0);
  }
  const std::uint32_t number = file_policies_[i];
  if (number > policy_count()) {
    refuse(fmt::format("'{}' was made by sharding policy {} of {}", name, number, policy_count()));
  }
  return number == 0 ? std::string_view() : policy(number - 1);
}

void Index::check_entry(const IndexEntry& entry) const {
  if (!is_entry_path(entry.name)) {
    refuse(fmt::format("entry '{}': the name is not a path", entry.name));
  }
  if (entry.kind == EntryKind::array) {
    const IndexArray array = this->array(entry);
    static_cast<void>(layout(entry));
    for (std::uint32_t i = 0; i < array.slice_count; ++i) {
      static_cast<void>(slice(array, i));
    }
    static_cast<void>(byte_size(array, array.dims));
  } else if (entry.kind == EntryKind::string || entry.kind == EntryKind::bytes) {
    const auto content = blob(entry);
    const std::string_view chars(reinterpret_cast<const char*>(content.data()), content.size());
    if (entry.kind == EntryKind::string && !is_valid_utf8(chars)) {
      refuse(fmt::format("entry '{}': the string is not valid UTF-8", entry.name));
    }
  } else if (entry.kind == EntryKind::boolean && entry.value > 1) {
    refuse(fmt::format("entry '{}': {} is not a bool", entry.name, entry.value));
  }
}

void Index::check_numbers() const {
  std::vector<bool> arrays(array_count());
  std::vector<bool> blobs(blob_ends_.size());
  for (std::size_t i = 0; i < name_ends_.size(); ++i) {
    const auto kind = static_cast<EntryKind>(kinds_[i]);
    const bool is_array = is_array_kind(kinds_[i]);
    if (!is_array && kind != EntryKind::string && kind != EntryKind::bytes) {
      continue;
    }
    std::vector<bool>& taken = is_array ? arrays : blobs;
    if (values_[i] >= taken.size()) {
      continue;  // Refused when the entry is read.
    }
    const auto number = static_cast<std::size_t>(values_[i]);
    if (taken[number]) {
      refuse(fmt::format("entry '{}' is {} {}, and so is another entry", column_name(i),
                         is_array ? "array" : "blob", number));
    }
    taken[number] = true;
  }
  for (std::size_t i = 0; i < alias_count(); ++i) {
    if (!arrays[alias_number(i)]) {
      refuse(fmt::format("alias '{}' stands for array {}, which has no other name", alias_name(i),
                         alias_number(i)));
    }
  }
}

void Index::validate() const {
  check_numbers();  // First: without it the rest could take the square of the time.
  for (std::size_t i = 0; i < policy_count(); ++i) {
    static_cast<void>(policy(i));
  }
  for (std::size_t i = 0; i < file_count(); ++i) {
    static_cast<void>(policy_of_file(i));
  }
  for (std::size_t i = 0; i < size(); ++i) {
    check_entry(entry(i));
  }
  const auto clash = find_clash(
      size(), [this](std::size_t i) { return name_of(i); },
      [this](std::size_t i) { return entry(i).kind == EntryKind::list; });
  if (clash) {
    const std::string_view why = clash->kind == NameClash::Kind::duplicate  ? "has the same name as"
                                 : clash->kind == NameClash::Kind::unsorted ? "should stand before"
                                                                            : "lies below the leaf";
    refuse(fmt::format("entry '{}' {} '{}'", name_of(clash->second), why, name_of(clash->first)));
  }
}

}  // namespace cairn::formats
