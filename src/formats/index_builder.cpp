// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/index_builder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"

#include "formats/file_name.hpp"
#include "formats/index_generated.h"
#include "formats/index_names.hpp"
#include "formats/internal/index.hpp"

namespace cairn::formats {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

/// The size of a column as the end offset of what was appended last.
std::uint32_t end_offset(std::size_t size, std::string_view name) {
  if (size > std::numeric_limits<std::uint32_t>::max()) {
    refuse(fmt::format("entry '{}': a column of the index is full", name));
  }
  return static_cast<std::uint32_t>(size);
}

std::string_view run(const std::string& chars, const std::vector<std::uint32_t>& ends,
                     std::size_t i) noexcept {
  const std::uint32_t begin = i == 0 ? 0 : ends[i - 1];
  return std::string_view(chars).substr(begin, ends[i] - begin);
}

/// The first eight bytes as a number that sorts as they do.
std::uint64_t sort_key(std::string_view text) noexcept {
  std::uint64_t key = 0;
  std::memcpy(&key, text.data(), std::min(text.size(), sizeof key));
  return __builtin_bswap64(key);
}

std::size_t common_prefix(std::string_view a, std::string_view b) noexcept {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(in_a - a.begin());
}

template <class NameOf, class CanHaveChildren>
void check_clashes(std::size_t count, NameOf name_of, CanHaveChildren can_have_children) {
  const auto clash = find_clash(count, name_of, can_have_children);
  if (!clash) {
    return;
  }
  const std::string_view first = name_of(clash->first);
  if (clash->kind == NameClash::Kind::duplicate) {
    throw Error(Errc::already_exists, fmt::format("entry '{}' is given twice", first));
  }
  refuse(fmt::format("entry '{}' lies below the leaf '{}'", name_of(clash->second), first));
}

}  // namespace

void IndexBuilder::reserve(std::size_t entries, std::size_t arrays, std::size_t name_bytes) {
  names_.reserve(name_bytes);
  name_ends_.reserve(entries);
  kinds_.reserve(entries);
  values_.reserve(entries);
  dtypes_.reserve(arrays);
  dims_ends_.reserve(arrays);
  slice_ends_.reserve(arrays);
  slice_files_.reserve(arrays);
  slice_offsets_.reserve(arrays);
  box_ends_.reserve(arrays);
}

void IndexBuilder::add(std::string_view name, EntryKind kind, std::uint64_t value) {
  if (!is_entry_path(name)) {
    refuse(fmt::format("entry '{}': the name is not a path of a tree in UTF-8", name));
  }
  name_ends_.push_back(end_offset(names_.size() + name.size(), name));
  names_.append(name);
  kinds_.push_back(static_cast<std::uint8_t>(kind));
  values_.push_back(value);
}

void IndexBuilder::check_room(std::string_view name, std::size_t bytes) const {
  const std::size_t taken = blobs_.size() + names_.size();
  if (bytes >= FLATBUFFERS_MAX_BUFFER_SIZE || taken + bytes >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    refuse(fmt::format(
        "entry '{}': {} bytes do not fit into the index, which holds less than 2 GiB in all; save them as an "
        "array, from a vector of std::uint8_t say",
        name, bytes));
  }
}

std::uint64_t IndexBuilder::add_blob(std::string_view value) {
  blob_ends_.push_back(end_offset(blobs_.size() + value.size(), "blob"));
  blobs_.append(value);
  return blob_ends_.size() - 1;
}

void IndexBuilder::add_integer(std::string_view name, std::int64_t value) {
  add(name, EntryKind::integer, static_cast<std::uint64_t>(value));
}

void IndexBuilder::add_unsigned(std::string_view name, std::uint64_t value) {
  add(name, EntryKind::unsigned_integer, value);
}

void IndexBuilder::add_double(std::string_view name, double value) {
  add(name, EntryKind::floating, std::bit_cast<std::uint64_t>(value));
}

void IndexBuilder::add_bool(std::string_view name, bool value) {
  add(name, EntryKind::boolean, value ? 1 : 0);
}

void IndexBuilder::add_string(std::string_view name, std::string_view value) {
  check_room(name, value.size());  // Before anything looks at the text, or copies it.
  if (!is_valid_utf8(value)) {
    refuse(fmt::format("entry '{}': the string is not valid UTF-8; store it as bytes", name));
  }
  add(name, EntryKind::string, add_blob(value));
}

void IndexBuilder::add_bytes(std::string_view name, std::span<const std::byte> value) {
  check_room(name, value.size());
  add(name, EntryKind::bytes, add_blob({reinterpret_cast<const char*>(value.data()), value.size()}));
}

void IndexBuilder::add_null(std::string_view name) {
  add(name, EntryKind::null, 0);
}

void IndexBuilder::add_empty_map(std::string_view name) {
  add(name, EntryKind::empty_map, 0);
}

void IndexBuilder::add_list(std::string_view name, std::uint64_t size) {
  add(name, EntryKind::list, size);
}

void IndexBuilder::add_array(std::string_view name, DType dtype, std::span<const std::uint64_t> dims) {
  add_array(name, EntryKind::array, dtype, dims);
}

void IndexBuilder::add_unread(std::string_view name, std::uint64_t size) {
  add_array(name, EntryKind::unread, DType::uint8, {&size, 1});
}

void IndexBuilder::add_array(std::string_view name, EntryKind kind, DType dtype,
                             std::span<const std::uint64_t> dims) {
  if (dims.size() > kMaxRank || !is_valid(dtype)) {
    refuse(fmt::format("entry '{}': {} dimensions of dtype {}", name, dims.size(),
                       static_cast<unsigned>(dtype)));
  }
  add(name, kind, dtypes_.size());
  dtypes_.push_back(static_cast<std::uint8_t>(dtype));
  dims_.insert(dims_.end(), dims.begin(), dims.end());
  dims_ends_.push_back(end_offset(dims_.size(), name));
  slice_ends_.push_back(end_offset(slice_files_.size(), name));
}

std::uint32_t IndexBuilder::add_file(std::string_view file_name, std::uint32_t policy) {
  if (policy > policy_ends_.size()) {
    refuse(fmt::format("'{}' of policy {} of {}", file_name, policy, policy_ends_.size()));
  }
  if (!is_plain_file_name(file_name)) {
    refuse(fmt::format("'{}' is not a plain file name", file_name));
  }
  file_name_ends_.push_back(end_offset(file_names_.size() + file_name.size(), file_name));
  file_names_.append(file_name);
  file_policies_.push_back(policy);
  return static_cast<std::uint32_t>(file_name_ends_.size() - 1);
}

void IndexBuilder::add_location(std::uint32_t file, std::uint64_t offset) {
  if (dtypes_.empty() || file >= file_name_ends_.size()) {
    refuse(fmt::format("a slice in file {} of {} after {} arrays", file, file_name_ends_.size(),
                       dtypes_.size()));
  }
  slice_files_.push_back(file);
  slice_offsets_.push_back(offset);
  box_ends_.push_back(end_offset(boxes_.size(), file_names_));
  slice_ends_.back() = end_offset(slice_files_.size(), file_names_);
}

void IndexBuilder::add_whole(std::uint32_t file, std::uint64_t offset) {
  add_location(file, offset);
}

void IndexBuilder::add_slice(std::uint32_t file, std::uint64_t offset,
                             std::span<const std::uint64_t> box_offsets,
                             std::span<const std::uint64_t> box_extents) {
  const std::size_t dims_begin = dims_ends_.size() < 2 ? 0 : dims_ends_[dims_ends_.size() - 2];
  const auto dims = std::span<const std::uint64_t>(dims_).subspan(dims_begin);
  if (box_offsets.size() != dims.size() || box_extents.size() != dims.size()) {
    refuse(fmt::format("a box of {} offsets and {} extents in an array of {} dimensions", box_offsets.size(),
                       box_extents.size(), dims.size()));
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (box_offsets[d] > dims[d] || box_extents[d] > dims[d] - box_offsets[d]) {
      refuse(fmt::format("a box of {} from {} on reaches beyond dimension {} of {}", box_extents[d],
                         box_offsets[d], d, dims[d]));
    }
  }
  boxes_.insert(boxes_.end(), box_offsets.begin(), box_offsets.end());
  boxes_.insert(boxes_.end(), box_extents.begin(), box_extents.end());
  add_location(file, offset);
}

void IndexBuilder::add_alias(std::string_view name, std::string_view array) {
  if (!is_entry_path(name)) {
    refuse(fmt::format("alias '{}': the name is not a path of a tree in UTF-8", name));
  }
  given_aliases_.emplace_back(name, array);
}

std::uint32_t IndexBuilder::add_layout(std::string_view json) {
  layout_ends_.push_back(end_offset(layouts_.size() + json.size(), "layout"));
  layouts_.append(json);
  return static_cast<std::uint32_t>(layout_ends_.size());
}

void IndexBuilder::set_layout(std::uint32_t number) {
  if (dtypes_.empty() || number == 0 || number > layout_ends_.size()) {
    refuse(fmt::format("layout {} of {} after {} arrays", number, layout_ends_.size(), dtypes_.size()));
  }
  layout_numbers_.resize(dtypes_.size());
  layout_numbers_.back() = number;
}

std::uint32_t IndexBuilder::add_policy(std::string_view description) {
  if (!is_valid_utf8(description)) {
    refuse("the description of a sharding policy is not valid UTF-8");
  }
  if (description.empty()) {
    return 0;
  }
  for (std::size_t i = 0; i < policy_ends_.size(); ++i) {  // There are few.
    if (run(policies_, policy_ends_, i) == description) {
      return static_cast<std::uint32_t>(i + 1);
    }
  }
  if (policy_ends_.size() == kMaxPolicies) {
    refuse(fmt::format("an index says of at most {} sharding policies what they do", kMaxPolicies));
  }
  policy_ends_.push_back(end_offset(policies_.size() + description.size(), "sharding policy"));
  policies_.append(description);
  return static_cast<std::uint32_t>(policy_ends_.size());
}

/// Which policy made which file is said only where it is not one that made all.
void IndexBuilder::drop_plain_policies() {
  const std::uint32_t of_all = static_cast<std::uint32_t>(policy_ends_.size());
  const bool is_plain =
      of_all <= 1 && std::all_of(file_policies_.begin(), file_policies_.end(),
                                 [of_all](std::uint32_t policy) { return policy == of_all; });
  if (is_plain) {
    policy_ends_.clear();
    file_policies_.clear();
  }
}

std::string_view IndexBuilder::name_of(std::size_t i) const noexcept {
  return run(names_, name_ends_, i);
}

bool IndexBuilder::is_sorted() const noexcept {
  for (std::size_t i = 1; i < name_ends_.size(); ++i) {
    if (name_of(i) < name_of(i - 1)) {
      return false;
    }
  }
  return true;
}

std::vector<std::uint32_t> IndexBuilder::sorted_order() const {
  // Comparing the eight bytes behind what all names share decides most pairs without touching the names.
  std::size_t shared = name_of(0).size();
  for (std::size_t i = 1; i < name_ends_.size(); ++i) {
    shared = std::min(shared, common_prefix(name_of(0).substr(0, shared), name_of(i)));
  }
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys;
  keys.reserve(name_ends_.size());
  for (std::uint32_t i = 0; i < name_ends_.size(); ++i) {
    keys.emplace_back(sort_key(name_of(i).substr(shared)), i);
  }
  std::sort(keys.begin(), keys.end(), [this](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : name_of(a.second) < name_of(b.second);
  });
  std::vector<std::uint32_t> order;
  order.reserve(keys.size());
  for (const auto& [key, i] : keys) {
    order.push_back(i);
  }
  return order;
}

void IndexBuilder::copy_array(const IndexBuilder& from, std::size_t number) {
  const auto range = [number](const std::vector<std::uint32_t>& ends) {
    return std::pair(number == 0 ? 0u : ends[number - 1], ends[number]);
  };
  const auto append = [](auto& to, const auto& values, std::size_t begin, std::size_t end) {
    to.insert(to.end(), values.begin() + static_cast<std::ptrdiff_t>(begin),
              values.begin() + static_cast<std::ptrdiff_t>(end));
  };
  dtypes_.push_back(from.dtypes_[number]);
  if (number < from.layout_numbers_.size() && from.layout_numbers_[number] != 0) {
    layout_numbers_.resize(dtypes_.size());
    layout_numbers_.back() = from.layout_numbers_[number];
  }
  const auto [dims_begin, dims_end] = range(from.dims_ends_);
  append(dims_, from.dims_, dims_begin, dims_end);
  dims_ends_.push_back(static_cast<std::uint32_t>(dims_.size()));
  const auto [slices_begin, slices_end] = range(from.slice_ends_);
  append(slice_files_, from.slice_files_, slices_begin, slices_end);
  append(slice_offsets_, from.slice_offsets_, slices_begin, slices_end);
  slice_ends_.push_back(static_cast<std::uint32_t>(slice_files_.size()));
  for (std::size_t i = slices_begin; i < slices_end; ++i) {
    append(boxes_, from.boxes_, i == 0 ? 0 : from.box_ends_[i - 1], from.box_ends_[i]);
    box_ends_.push_back(static_cast<std::uint32_t>(boxes_.size()));
  }
}

void IndexBuilder::sort() {
  IndexBuilder sorted;
  sorted.reserve(name_ends_.size(), dtypes_.size(), names_.size());
  sorted.dims_.reserve(dims_.size());
  sorted.boxes_.reserve(boxes_.size());
  for (const std::uint32_t i : sorted_order()) {
    const auto kind = static_cast<EntryKind>(kinds_[i]);
    const bool is_array = kind == EntryKind::array || kind == EntryKind::unread;
    sorted.names_.append(name_of(i));
    sorted.name_ends_.push_back(static_cast<std::uint32_t>(sorted.names_.size()));
    sorted.kinds_.push_back(kinds_[i]);
    // Arrays are numbered anew: a reader that walks the entries then walks their columns too.
    sorted.values_.push_back(is_array ? sorted.dtypes_.size() : values_[i]);
    if (is_array) {
      sorted.copy_array(*this, static_cast<std::size_t>(values_[i]));
    }
  }
  sorted.file_names_ = std::move(file_names_);
  sorted.file_name_ends_ = std::move(file_name_ends_);
  sorted.blobs_ = std::move(blobs_);
  sorted.blob_ends_ = std::move(blob_ends_);
  sorted.layouts_ = std::move(layouts_);
  sorted.layout_ends_ = std::move(layout_ends_);
  sorted.policies_ = std::move(policies_);
  sorted.policy_ends_ = std::move(policy_ends_);
  sorted.file_policies_ = std::move(file_policies_);
  sorted.given_aliases_ = std::move(given_aliases_);
  *this = std::move(sorted);
}

// Programs that know no aliases would miss an element of the list, and take the index for damaged.
void IndexBuilder::keep_places_in_lists() {
  std::set<std::string, std::less<>> lists;
  for (std::size_t i = 0; i < name_ends_.size(); ++i) {
    if (static_cast<EntryKind>(kinds_[i]) == EntryKind::list) {
      lists.emplace(name_of(i));
    }
  }
  for (const auto& [name, array] : given_aliases_) {
    bool is_in_list = lists.contains(std::string_view());
    for (std::size_t slash = name.find('/'); slash != std::string::npos && !is_in_list;
         slash = name.find('/', slash + 1)) {
      is_in_list = lists.contains(std::string_view(name).substr(0, slash));
    }
    if (is_in_list) {
      add_null(name);
    }
  }
}

std::size_t IndexBuilder::lower_bound(std::string_view name) const noexcept {
  std::size_t begin = 0;
  for (std::size_t end = name_ends_.size(); begin < end;) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (name_of(middle) < name) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

void IndexBuilder::number_aliases() {
  std::sort(given_aliases_.begin(), given_aliases_.end());
  for (const auto& [name, array] : given_aliases_) {
    const std::size_t entry = lower_bound(array);
    if (entry == name_ends_.size() || name_of(entry) != array ||
        static_cast<EntryKind>(kinds_[entry]) != EntryKind::array) {
      refuse(fmt::format("alias '{}' stands for '{}', which is not an array", name, array));
    }
    alias_ends_.push_back(end_offset(aliases_.size() + name.size(), name));
    alias_ends_.push_back(static_cast<std::uint32_t>(values_[entry]));
    aliases_.append(name);
  }
}

void IndexBuilder::check_names() const {
  const auto is_list = [this](std::size_t i) { return static_cast<EntryKind>(kinds_[i]) == EntryKind::list; };
  if (given_aliases_.empty()) {
    return check_clashes(
        name_ends_.size(), [this](std::size_t i) { return name_of(i); }, is_list);
  }
  std::vector<std::pair<std::string_view, bool>> names;  // With whether others may lie below.
  names.reserve(name_ends_.size() + given_aliases_.size());
  std::string_view alias;
  auto next = given_aliases_.begin();
  for (std::size_t i = 0; i < name_ends_.size(); ++i) {
    for (; next != given_aliases_.end() && next->first <= name_of(i); ++next) {
      alias = next->first;
      names.emplace_back(alias, false);
    }
    const bool keeps_place = alias == name_of(i) && static_cast<EntryKind>(kinds_[i]) == EntryKind::null;
    if (!keeps_place || names.empty()) {
      names.emplace_back(name_of(i), is_list(i));
    }
  }
  for (; next != given_aliases_.end(); ++next) {
    names.emplace_back(next->first, false);
  }
  check_clashes(
      names.size(), [&names](std::size_t i) { return names[i].first; },
      [&names](std::size_t i) { return names[i].second; });
}

std::size_t IndexBuilder::size_estimate() const noexcept {
  constexpr std::size_t kTableBytes = 1024;  // Root, vtable, lengths and padding of 24 columns.
  return kTableBytes + names_.size() + file_names_.size() + blobs_.size() + kinds_.size() + dtypes_.size() +
         layouts_.size() + policies_.size() + aliases_.size() +
         sizeof(std::uint32_t) * (layout_numbers_.size() + layout_ends_.size() + policy_ends_.size() +
                                  file_policies_.size() + alias_ends_.size()) +
         sizeof(std::uint64_t) * (values_.size() + dims_.size() + slice_offsets_.size() + boxes_.size()) +
         sizeof(std::uint32_t) *
             (name_ends_.size() + dims_ends_.size() + slice_ends_.size() + slice_files_.size() +
              box_ends_.size() + file_name_ends_.size() + blob_ends_.size());
}

IndexBytes IndexBuilder::write() {
  flatbuffers::FlatBufferBuilder builder(size_estimate());
  // Each column goes when it is written: of two million arrays all of them are 150 MB.
  const auto column = [&builder](auto& numbers) {
    const auto written = builder.CreateVector(numbers);
    std::decay_t<decltype(numbers)>().swap(numbers);  // An assignment would keep the memory.
    return written;
  };
  const auto chars = [&builder](std::string& text) {
    const auto written =
        builder.CreateVector(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    text = std::string();
    return written;
  };
  // One statement each: the order of evaluation decides the bytes, and compilers differ in that of arguments.
  const auto names = chars(names_);
  const auto name_ends = column(name_ends_);
  const auto kinds = column(kinds_);
  const auto values = column(values_);
  const auto dtypes = column(dtypes_);
  const auto dims = column(dims_);
  const auto dims_ends = column(dims_ends_);
  const auto slice_ends = column(slice_ends_);
  const auto slice_files = column(slice_files_);
  const auto slice_offsets = column(slice_offsets_);
  const auto boxes = column(boxes_);
  const auto box_ends = column(box_ends_);
  const auto file_names = chars(file_names_);
  const auto file_name_ends = column(file_name_ends_);
  const auto blobs = chars(blobs_);
  const auto blob_ends = column(blob_ends_);
  // What is not there takes no bytes.
  const auto layout_numbers = layout_numbers_.empty() ? 0 : column(layout_numbers_);
  const auto layouts = layouts_.empty() ? 0 : chars(layouts_);
  const auto layout_ends = layout_ends_.empty() ? 0 : column(layout_ends_);
  const auto policies = policies_.empty() ? 0 : chars(policies_);
  const auto policy_ends = policy_ends_.empty() ? 0 : column(policy_ends_);
  const auto file_policies = file_policies_.empty() ? 0 : column(file_policies_);
  const auto aliases = alias_ends_.empty() ? 0 : chars(aliases_);
  const auto alias_ends = alias_ends_.empty() ? 0 : column(alias_ends_);
  const auto root = stored::CreateIndex(
      builder, kIndexVersion, names, name_ends, kinds, values, dtypes, dims, dims_ends, slice_ends,
      slice_files, slice_offsets, boxes, box_ends, file_names, file_name_ends, blobs, blob_ends,
      layout_numbers, layouts, layout_ends, policies, policy_ends, file_policies, aliases, alias_ends);
  stored::FinishIndexBuffer(builder, root);
  const auto buffer = std::make_shared<const flatbuffers::DetachedBuffer>(builder.Release());
  return {buffer, std::as_bytes(std::span(buffer->data(), buffer->size()))};
}

IndexBytes IndexBuilder::finish() {
  if (!given_aliases_.empty()) {
    keep_places_in_lists();
  }
  if (!is_sorted()) {
    sort();
  }
  number_aliases();
  check_names();
  if (!layout_numbers_.empty()) {
    layout_numbers_.resize(dtypes_.size());
  }
  drop_plain_policies();
  if (size_estimate() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    refuse(fmt::format("an index of {} bytes exceeds the limit of 2 GiB", size_estimate()));
  }
  IndexBytes bytes = write();
  *this = IndexBuilder();
  return bytes;
}

}  // namespace cairn::formats
