// SPDX-License-Identifier: Apache-2.0
// The input is an index.fb. Whatever is asked of it gives an Error or views of its bytes; one that is valid
// can be built again from its entries, and then says the same.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Errc;
using cairn::formats::EntryKind;
using cairn::formats::Index;
using cairn::formats::IndexArray;
using cairn::formats::IndexBuilder;
using cairn::formats::IndexEntry;
using cairn::formats::IndexSlice;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

template <class T, class U>
void require_inside(std::span<const T> outer, std::span<const U> inner) {
  const auto bytes = std::as_bytes(inner);
  const auto all = std::as_bytes(outer);
  const std::less_equal<> not_after;
  require(bytes.empty() || (not_after(all.data(), bytes.data()) &&
                            not_after(bytes.data() + bytes.size(), all.data() + all.size())),
          "views lie inside the index");
}

void read_array(const Index& index, std::span<const std::uint64_t> memory, const IndexEntry& entry) {
  const IndexArray array = index.array(entry);
  require_inside(memory, array.dims);
  for (std::uint32_t i = 0; i < array.slice_count; ++i) {
    const IndexSlice slice = index.slice(array, i);
    require_inside(memory, std::span(slice.file));
    require_inside(memory, slice.offsets);
    require_inside(memory, slice.extents);
    require(slice.offset + slice.size <= std::uint64_t{1} << 63, "a slice ends before 2^63");
  }
}

/// Reads an entry that nobody has validated.
void read_entry(const Index& index, std::span<const std::uint64_t> memory, std::size_t i) {
  static_cast<void>(attempt({Errc::malformed_metadata}, [&] {
    const IndexEntry entry = index.entry(i);
    require_inside(memory, std::span(entry.name));
    if (entry.kind == EntryKind::array) {
      read_array(index, memory, entry);
    } else if (entry.kind == EntryKind::string) {
      require_inside(memory, std::span(index.string(entry)));
    } else if (entry.kind == EntryKind::bytes) {
      require_inside(memory, index.bytes(entry));
    }
    static_cast<void>(index.find(entry.name));
    return true;
  }));
}

void add_array(const Index& index, const IndexEntry& entry, IndexBuilder& builder) {
  const IndexArray array = index.array(entry);
  builder.add_array(entry.name, array.dtype, array.dims);
  for (std::uint32_t i = 0; i < array.slice_count; ++i) {
    const IndexSlice slice = index.slice(array, i);
    const std::uint32_t policy = builder.add_policy(index.policy_of_file(slice.file_number));
    const std::uint32_t file = builder.add_file(slice.file, policy);
    if (slice.is_whole) {
      builder.add_whole(file, slice.offset);
    } else {
      builder.add_slice(file, slice.offset, slice.offsets, slice.extents);
    }
  }
}

void add_entry(const Index& index, const IndexEntry& entry, IndexBuilder& builder) {
  switch (entry.kind) {
    case EntryKind::array:
      return add_array(index, entry, builder);
    case EntryKind::integer:
      return builder.add_integer(entry.name, entry.as_integer());
    case EntryKind::unsigned_integer:
      return builder.add_unsigned(entry.name, entry.as_unsigned());
    case EntryKind::floating:
      return builder.add_double(entry.name, entry.as_double());
    case EntryKind::boolean:
      return builder.add_bool(entry.name, entry.as_bool());
    case EntryKind::string:
      return builder.add_string(entry.name, index.string(entry));
    case EntryKind::bytes:
      return builder.add_bytes(entry.name, index.bytes(entry));
    case EntryKind::null:
      return builder.add_null(entry.name);
    case EntryKind::empty_map:
      return builder.add_empty_map(entry.name);
    case EntryKind::list:
      return builder.add_list(entry.name, entry.list_size());
    case EntryKind::unread:  // No file holds one.
      break;
  }
  require(false, "an entry is of one of the kinds");
}

void require_same_slices(const Index& one, const IndexArray& a, const Index& other, const IndexArray& b) {
  require(a.dtype == b.dtype && a.slice_count == b.slice_count &&
              std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end()),
          "arrays come back");
  for (std::uint32_t i = 0; i < a.slice_count; ++i) {
    const IndexSlice from = one.slice(a, i);
    const IndexSlice to = other.slice(b, i);
    require(from.file == to.file && from.offset == to.offset && from.size == to.size &&
                std::equal(from.offsets.begin(), from.offsets.end(), to.offsets.begin(), to.offsets.end()) &&
                std::equal(from.extents.begin(), from.extents.end(), to.extents.begin(), to.extents.end()),
            "slices come back");
  }
}

void check_built_again(const Index& index) {
  IndexBuilder builder;
  const std::vector<std::string_view> first_names = index.first_names();
  for (std::size_t i = 0; i < index.size(); ++i) {
    const IndexEntry entry = index.entry(i);
    if (entry.is_alias) {
      builder.add_alias(entry.name, first_names[entry.value]);
    } else {
      add_entry(index, entry, builder);
    }
  }
  const cairn::formats::IndexBytes built = builder.finish();
  const Index again = Index::open(built.owner, built.bytes, "built");
  again.validate();
  require(again.size() == index.size(), "entries come back");
  for (std::size_t i = 0; i < index.size(); ++i) {
    const IndexEntry a = index.entry(i);
    const IndexEntry b = again.entry(i);
    require(a.name == b.name && a.kind == b.kind && index.find(a.name) == i, "an entry is found by its name");
    require(a.is_alias == b.is_alias, "aliases come back");
    require(cairn::formats::is_entry_path(a.name), "names are paths");
    if (a.kind == EntryKind::array) {
      require_same_slices(index, index.array(a), again, again.array(b));
    } else if (a.kind == EntryKind::string) {
      require(index.string(a) == again.string(b), "strings come back");
    } else if (a.kind == EntryKind::bytes) {
      require(std::ranges::equal(index.bytes(a), again.bytes(b)), "bytes come back");
    } else if (a.kind != EntryKind::null && a.kind != EntryKind::empty_map) {
      require(a.value == b.value, "scalars come back");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto memory = std::make_shared<std::vector<std::uint64_t>>((size + 7) / 8);
  std::copy_n(data, size, reinterpret_cast<std::uint8_t*>(memory->data()));
  const std::span<const std::uint64_t> words(*memory);
  const auto index = [&] {
    const cairn::fuzz::MemoryBound bound(8192 +
                                         size);  // Read where it lies; of each alias its place is kept.
    return attempt({Errc::malformed_metadata, Errc::unsupported_version},
                   [&] { return Index::open(memory, std::as_bytes(words).first(size), "input"); });
  }();
  if (!index) {
    return 0;
  }
  {
    const cairn::fuzz::MemoryBound bound(16384 + 16 * size);
    for (std::size_t i = 0; i < index->size(); ++i) {
      read_entry(*index, words, i);
    }
  }
  const auto is_valid = attempt({Errc::malformed_metadata}, [&] {
    const cairn::fuzz::MemoryBound bound(16384 + 64 * size);
    index->validate();
    return true;
  });
  if (is_valid) {
    check_built_again(*index);
  }
  return 0;
}
