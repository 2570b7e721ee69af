// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"

#include "formats/internal/index.hpp"

namespace cairn::formats {

/// A finished `index.fb`, where it was built: copies share the bytes. Of two million arrays they are 150 MB.
struct IndexBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// Collects the entries of one `index.fb`, in any order, and writes it.
///
/// Names are paths made by append_key. An array is followed by its slices: add_array, then add_slice or
/// add_whole for each part that is stored.
/// Threads: not safe.
/// Errors:  Errc::invalid_argument when a name is not a path, there are too many dims, a column is full (2^32 - 1),
///          or a call comes out of order.
class IndexBuilder {
 public:
  /// Makes room for so many entries, arrays and bytes of all names together; a hint.
  void reserve(std::size_t entries, std::size_t arrays, std::size_t name_bytes);

  /// Returns whether no entry was added.
  [[nodiscard]] bool empty() const noexcept { return kinds_.empty() && given_aliases_.empty(); }

  void add_integer(std::string_view name, std::int64_t value);
  void add_unsigned(std::string_view name, std::uint64_t value);
  void add_double(std::string_view name, double value);
  void add_bool(std::string_view name, bool value);
  void add_string(std::string_view name, std::string_view value);
  void add_bytes(std::string_view name, std::span<const std::byte> value);
  void add_null(std::string_view name);
  void add_empty_map(std::string_view name);
  void add_list(std::string_view name, std::uint64_t size);

  /// Adds an array of so many bytes that stands for EntryKind::unread; its slice follows. For an index that is not
  /// written to a file.
  void add_unread(std::string_view name, std::uint64_t size);

  /// Adds an array of whole extents `dims`; its slices follow.
  void add_array(std::string_view name, DType dtype, std::span<const std::uint64_t> dims);

  /// Names a data file, and the number of the policy that made it, or 0; the number returned is for add_slice and
  /// add_whole. Name each file once.
  [[nodiscard]] std::uint32_t add_file(std::string_view file_name, std::uint32_t policy = 0);

  /// The whole array that was added last lies in `file` from `offset` on.
  void add_whole(std::uint32_t file, std::uint64_t offset);

  /// A box of the array that was added last lies in `file` from `offset` on.
  void add_slice(std::uint32_t file, std::uint64_t offset, std::span<const std::uint64_t> box_offsets,
                 std::span<const std::uint64_t> box_extents);

  /// Gives another name to the array whose entry is called `array`, which may be added later.
  void add_alias(std::string_view name, std::string_view array);

  /// Keeps a layout (JSON, as Layout::to_json writes it) and returns its number for set_layout. Give each once.
  [[nodiscard]] std::uint32_t add_layout(std::string_view json);

  /// The array that was added last is divided so.
  void set_layout(std::uint32_t number);

  /// Keeps what a sharding policy says of itself, a sentence for people, and returns its number for add_file: the
  /// same for the same sentence, and 0 for none. At most kMaxPolicies.
  std::uint32_t add_policy(std::string_view description);

  /// Sorts the entries and returns the bytes of the index; the builder is then empty.
  ///
  /// Errors: Errc::already_exists when two entries have one name; Errc::invalid_argument when a leaf has entries
  ///         below it, an alias stands for what is not an array, or the index would exceed 2 GiB.
  [[nodiscard]] IndexBytes finish();

 private:
  void add(std::string_view name, EntryKind kind, std::uint64_t value);
  void add_array(std::string_view name, EntryKind kind, DType dtype, std::span<const std::uint64_t> dims);
  /// Errors: Errc::invalid_argument when no index has room for so many bytes.
  void check_room(std::string_view name, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t add_blob(std::string_view value);
  void add_location(std::uint32_t file, std::uint64_t offset);
  [[nodiscard]] std::string_view name_of(std::size_t i) const noexcept;
  [[nodiscard]] bool is_sorted() const noexcept;
  [[nodiscard]] std::vector<std::uint32_t> sorted_order() const;
  void copy_array(const IndexBuilder& from, std::size_t number);
  void sort();
  void keep_places_in_lists();
  void number_aliases();
  [[nodiscard]] std::size_t lower_bound(std::string_view name) const noexcept;
  void check_names() const;
  void drop_plain_policies();
  [[nodiscard]] std::size_t size_estimate() const noexcept;
  [[nodiscard]] IndexBytes write();

  std::string names_;
  std::vector<std::uint32_t> name_ends_;
  std::vector<std::uint8_t> kinds_;
  std::vector<std::uint64_t> values_;
  std::vector<std::uint8_t> dtypes_;
  std::vector<std::uint64_t> dims_;
  std::vector<std::uint32_t> dims_ends_;
  std::vector<std::uint32_t> slice_ends_;
  std::vector<std::uint32_t> slice_files_;
  std::vector<std::uint64_t> slice_offsets_;
  std::vector<std::uint64_t> boxes_;
  std::vector<std::uint32_t> box_ends_;
  std::string file_names_;
  std::vector<std::uint32_t> file_name_ends_;
  std::string blobs_;
  std::vector<std::uint32_t> blob_ends_;
  std::vector<std::uint32_t> layout_numbers_;  // For the arrays up to the last one that has a layout.
  std::string layouts_;
  std::vector<std::uint32_t> layout_ends_;
  std::string policies_;
  std::vector<std::uint32_t> policy_ends_;
  std::vector<std::uint32_t> file_policies_;
  std::vector<std::pair<std::string, std::string>>
      given_aliases_;  // Further names, and the first ones. There are few.
  std::string aliases_;
  std::vector<std::uint32_t> alias_ends_;
};

}  // namespace cairn::formats
