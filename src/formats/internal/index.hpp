// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

namespace cairn::formats {

struct ForeignDetails;  // formats/internal/foreign_index.hpp

/// Returns whether append_key could have made `path` from valid UTF-8 keys.
[[nodiscard]] bool is_entry_path(std::string_view path) noexcept;

/// The keys of a path, outermost first; none for the root.
///
/// Errors: Errc::malformed_metadata when is_entry_path() is false.
[[nodiscard]] std::vector<std::string> split_path(std::string_view path);

/// How messages show a path: in quotes, the root in words.
[[nodiscard]] std::string shown(std::string_view path);

/// The version of indexes that are written; newer ones are refused.
inline constexpr std::uint32_t kIndexVersion = 1;

/// Most sharding policies of an index.
inline constexpr std::size_t kMaxPolicies = 1024;

/// Says what an entry of an index stands for. The numbers are stored: never change or reuse one.
enum class EntryKind : std::uint8_t {
  array = 1,
  integer = 2,           ///< std::int64_t
  unsigned_integer = 3,  ///< std::uint64_t, written for values above the range of std::int64_t
  floating = 4,          ///< double
  boolean = 5,
  string = 6,
  bytes = 7,
  null = 8,
  empty_map = 9,
  list = 10,  ///< Marks a list; its elements are the entries below it, under decimal keys. May be empty.
  /// A value of another program that is not known before its bytes have been read. Never stored: an index.fb that has
  /// one is malformed.
  unread = 255,
};

/// "array", "integer", … for messages.
[[nodiscard]] std::string_view name(EntryKind kind) noexcept;

/// One entry.
/// Ownership: views into the index that returned it.
struct IndexEntry {
  std::string_view name;  ///< The path of the entry in its tree; see append_key.
  EntryKind kind{};
  std::uint64_t value =
      0;  ///< Bits of a scalar, length of a list, else a number that only the index understands.
  bool is_alias = false;  ///< A further name of an array, whose first one has the same value.

  /// Errors (all of these): Errc::type_mismatch when the entry is of another kind.
  [[nodiscard]] std::int64_t as_integer() const;
  [[nodiscard]] std::uint64_t as_unsigned() const;
  [[nodiscard]] double as_double() const;
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::uint64_t list_size() const;
};

/// One array.
/// Ownership: views into the index that returned it.
struct IndexArray {
  std::string_view name;
  DType dtype{};
  std::span<const std::uint64_t> dims;  ///< The shape of the whole array; at most kMaxRank.
  std::uint32_t first_slice = 0;
  std::uint32_t slice_count = 0;
  std::uint64_t number = 0;  ///< The same for all names of an array; below Index::array_count().
  bool is_alias = false;     ///< The name is a further one.
};

/// The bytes of one part of an array: dense, row-major.
/// Ownership: views into the index that returned it.
struct IndexSlice {
  std::string_view file;                   ///< One plain component, in the directory of the index.
  std::uint32_t file_number = 0;           ///< Of that file, for Index::policy_of_file.
  std::uint64_t offset = 0;                ///< First byte in the file.
  std::uint64_t size = 0;                  ///< Bytes; offset + size fits in 63 bits.
  bool is_whole = true;                    ///< The slice is the array; offsets and extents are then empty.
  std::span<const std::uint64_t> offsets;  ///< Where the box begins in the array.
  std::span<const std::uint64_t> extents;  ///< The box lies inside the array.
  /// How the elements lie among those bytes; null: one behind the other, row-major, as all do in files of Cairn's.
  const SliceForm* form = nullptr;
  bool is_located = true;      ///< False: the elements lie somewhere among those bytes.
  std::uint64_t first = 0;     ///< As in ForeignSlice.
  std::uint64_t elements = 0;  ///< As in ForeignSlice.
  std::optional<std::uint32_t> crc32 = std::nullopt;  ///< Of all those bytes, where it is known.
};

/// An entry under another name.
struct RenamedEntry {
  std::string name;
  IndexEntry entry;
};

/// A view of an `index.fb`: what a checkpointable's arrays and scalars are called, and where their bytes lie.
///
/// Opening takes constant time, and a search for each alias. Columns are read where they lie; whatever an access
/// touches is checked then, so a damaged index gives an error, never a read outside its bytes.
/// Threads: a value; copies share the bytes; const methods may run at the same time.
/// Errors:  Errc::malformed_metadata from every method that reads, naming the file and the entry.
/// Source:  docs/format.md, "index.fb".
class Index {
 public:
  /// Opens the bytes of an `index.fb`, which `owner` keeps alive. `path` is used in errors only.
  ///
  /// Errors: Errc::malformed_metadata; Errc::unsupported_version when a later version wrote it.
  static Index open(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, std::string path);

  /// Entries, sorted by name. An array with several names is an entry under each of them.
  [[nodiscard]] std::size_t size() const noexcept {
    return name_ends_.size() + (alias_places_ ? alias_places_->back().inserted : 0);
  }
  [[nodiscard]] std::size_t array_count() const noexcept { return dtypes_.size(); }
  /// How many entries are aliases.
  [[nodiscard]] std::size_t alias_count() const noexcept { return alias_places_ ? alias_places_->size() : 0; }
  /// The first names of all arrays, by their numbers. An array that no entry names has none.
  [[nodiscard]] std::vector<std::string_view> first_names() const;

  /// Errors: Errc::invalid_argument when `i` is not below size().
  [[nodiscard]] IndexEntry entry(std::size_t i) const;

  /// The number of the entry with that name, by binary search.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;

  /// An object that has not been read yet is an array of bytes.
  ///
  /// Errors (all three): Errc::type_mismatch when the entry is of another kind.
  [[nodiscard]] IndexArray array(const IndexEntry& entry) const;
  [[nodiscard]] std::string_view string(const IndexEntry& entry) const;
  [[nodiscard]] std::span<const std::byte> bytes(const IndexEntry& entry) const;

  /// Finds the first array among the entries from `i` on: `i` becomes the number of its entry, `array` what it is.
  /// False, and `i` is size(), when there is none.
  [[nodiscard]] bool next_array(std::size_t& i, IndexArray& array) const;

  /// Errors: Errc::invalid_argument when `i` is not below array.slice_count.
  [[nodiscard]] IndexSlice slice(const IndexArray& array, std::uint32_t i) const;

  /// How the array of an entry was divided among ranks, as Sharding::from_json reads it; empty when nobody said so.
  ///
  /// Errors: Errc::type_mismatch when the entry is of another kind.
  [[nodiscard]] std::string_view layout(const IndexEntry& entry) const;

  /// Returns whether layout() says anything of any array.
  [[nodiscard]] bool has_layouts() const noexcept { return !layout_numbers_.empty(); }

  /// The description of files of other programs; null for an index.fb.
  [[nodiscard]] const ForeignDetails* foreign() const noexcept { return foreign_.get(); }
  /// Returns the same index with other details: they have as many slices.
  [[nodiscard]] Index with_foreign(std::shared_ptr<const ForeignDetails> details) const;
  /// Returns an index of these entries of it, and of new lists, of the same arrays and values.
  ///
  /// Shape:  sorted by name.
  /// Errors: Errc::invalid_argument when two have one name, one lies below a leaf, or the names are too long.
  [[nodiscard]] Index with_entries(const std::vector<RenamedEntry>& entries) const;
  /// How many entries have not been read yet; each counts as an array in array_count().
  [[nodiscard]] std::size_t unread_count() const noexcept;

  /// Files that slices lie in, numbered.
  [[nodiscard]] std::size_t file_count() const noexcept { return file_name_ends_.size(); }
  /// Errors: Errc::invalid_argument when `i` is not below file_count().
  [[nodiscard]] std::string_view file(std::size_t i) const;

  /// The sharding policies that have divided arrays among files, numbered from 0; none when nobody asked for anything.
  [[nodiscard]] std::size_t policy_count() const noexcept {
    return policies_.empty() ? 0 : std::max<std::size_t>(policy_ends_.size(), 1);
  }
  /// Returns what one of them says of itself: a sentence for people.
  ///
  /// Errors: Errc::invalid_argument when `i` is not below policy_count().
  [[nodiscard]] std::string_view policy(std::size_t i) const;
  /// Returns what the one says that made a file; empty where none did.
  ///
  /// Errors: Errc::invalid_argument when `i` is not below file_count().
  [[nodiscard]] std::string_view policy_of_file(std::size_t i) const;
  /// Returns whether one policy made all files.
  [[nodiscard]] bool has_one_policy() const noexcept { return policy_count() == 1 && file_policies_.empty(); }

  /// Refuses two entries that name one array or one blob, so that the memory which a reader of all entries needs
  /// is bounded by the bytes of the index; and aliases of arrays that have no other name.
  void check_numbers() const;

  /// Reads everything once: names are paths, sorted and unique, no leaf has entries below it, no two entries but
  /// aliases name one array or blob, every array and slice is sound. That slices cover their arrays is not checked
  /// here.
  void validate() const;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  Index() = default;

  /// The place of an alias among all entries, and how many of the aliases up to it stand between entries of the
  /// columns. The others hide a null.
  struct AliasPlace {
    std::uint32_t place = 0;
    std::uint32_t inserted = 0;
  };

  /// An entry of the columns, or an alias.
  struct Place {
    std::size_t number = 0;
    bool is_alias = false;
  };

  [[nodiscard]] bool is_known(EntryKind kind) const noexcept;
  void place_slice(std::size_t number, IndexSlice& slice) const;
  void check_columns() const;
  void place_aliases();
  [[nodiscard]] Place place_of(std::size_t i) const noexcept;
  /// The first of so many names, which are sorted, that is not less than `name`.
  template <class NameOf>
  [[nodiscard]] std::size_t lower_bound(std::size_t end, std::string_view name, NameOf name_at) const;
  void check_file_names() const;
  void check_entry(const IndexEntry& entry) const;
  void fill_array(const IndexEntry& entry, IndexArray& array) const;
  [[nodiscard]] std::uint64_t byte_size(const IndexArray& array,
                                        std::span<const std::uint64_t> extents) const;
  [[nodiscard]] std::string_view name_of(std::size_t i) const;
  [[nodiscard]] std::string_view column_name(std::size_t i) const;
  [[nodiscard]] std::string_view alias_name(std::size_t i) const;
  [[nodiscard]] std::uint32_t alias_number(std::size_t i) const noexcept { return alias_ends_[2 * i + 1]; }
  [[nodiscard]] std::string_view file_name(std::size_t i) const;
  [[nodiscard]] std::span<const std::uint8_t> blob(const IndexEntry& entry) const;
  template <class T>
  [[nodiscard]] std::span<const T> run(std::span<const T> values, std::span<const std::uint32_t> ends,
                                       std::size_t i, std::string_view column) const;
  [[noreturn]] void refuse(std::string_view why) const;
  [[noreturn]] void refuse_number(const IndexEntry& entry) const;
  [[noreturn]] void refuse_type(const IndexArray& array) const;
  [[noreturn]] void refuse_run(std::size_t i, std::string_view column, std::uint32_t begin, std::uint32_t end,
                               std::size_t size) const;

  std::shared_ptr<const void> owner_;
  std::string path_;
  std::span<const std::uint8_t> names_;
  std::span<const std::uint32_t> name_ends_;
  std::span<const std::uint8_t> kinds_;
  std::span<const std::uint64_t> values_;
  std::span<const std::uint8_t> dtypes_;
  std::span<const std::uint64_t> dims_;
  std::span<const std::uint32_t> dims_ends_;
  std::span<const std::uint32_t> slice_ends_;
  std::span<const std::uint32_t> slice_files_;
  std::span<const std::uint64_t> slice_offsets_;
  std::span<const std::uint64_t> boxes_;
  std::span<const std::uint32_t> box_ends_;
  std::span<const std::uint8_t> file_names_;
  std::span<const std::uint32_t> file_name_ends_;
  std::span<const std::uint8_t> blobs_;
  std::span<const std::uint32_t> blob_ends_;
  std::span<const std::uint32_t> layout_numbers_;
  std::span<const std::uint8_t> layouts_;
  std::span<const std::uint32_t> layout_ends_;
  std::span<const std::uint8_t> policies_;
  std::span<const std::uint32_t> policy_ends_;
  std::span<const std::uint32_t> file_policies_;
  std::span<const std::uint8_t> aliases_;
  std::span<const std::uint32_t>
      alias_ends_;  // Of each alias two numbers: where its name ends, and its array.
  std::shared_ptr<const std::vector<AliasPlace>> alias_places_;  // Null where there are no aliases.
  std::shared_ptr<const ForeignDetails> foreign_;
};

}  // namespace cairn::formats
