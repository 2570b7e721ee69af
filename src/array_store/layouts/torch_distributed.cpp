// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array_store/layouts/fetched_parts.hpp"
#include "array_store/layouts/layouts.hpp"
#include "base/internal/json_reader.hpp"
#include "formats/internal/dcp_metadata.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"

namespace cairn::array_store {
namespace {

using formats::FileRange;
using formats::ForeignArray;
using formats::ForeignCatalogue;
using formats::ForeignSlice;
using Files = std::shared_ptr<const StoredFiles>;

/// A chunk of at most so many bytes of which nearly all is wanted is read whole, together with others, and looked into
/// as it comes; so is one of a few bytes, whatever is wanted of it.
constexpr std::uint64_t kMostWholeBytes = 256 << 10;
constexpr std::uint64_t kFewBytes = 32 << 10;

/// So much at both ends of another tells where its elements lie; the second is for the few of which it does not.
constexpr std::array<std::uint64_t, 2> kEndBytes = {1 << 10, 64 << 10};

/// The file in which Megatron-Core says by which of its strategies a folder was written.
constexpr std::string_view kMegatronConfig = "metadata.json";
constexpr std::uint64_t kMostConfigBytes = 64 << 10;

bool is_metadata(std::string_view file) {
  return file == ".metadata" || (file.starts_with("__") && file.ends_with(".metadata"));
}

/// Returns whether a text is what Megatron-Core writes to `metadata.json` of such a folder. Others may be of anybody.
bool says_torch_dist(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    JsonReader reader(text, kMegatronConfig);
    reader.begin_object();
    while (const auto key = reader.next_key()) {
      if (*key == "sharded_backend") {
        return reader.read_string() == "torch_dist";
      }
      reader.skip_value();
    }
  } catch (const Error&) {
    return false;
  }
  return false;
}

/// Marks the objects of which each rank of Megatron-Core has its own.
void mark_shards(ForeignCatalogue& catalogue) {
  for (formats::ForeignObject& object : catalogue.objects) {
    if (formats::is_name_of_shard(object.path)) {
      formats::SliceForm form = catalogue.forms[object.form];
      form.codecs.emplace_back(formats::kShardCodec);
      object.form = catalogue.add_form(form);
    }
  }
}

/// Megatron-Core's older form has common state in a file of its own: it becomes the object that it is in today's form.
void add_common_state(const StoredFiles& files, ForeignCatalogue& catalogue) {
  const std::string file = "common.pt";
  const std::optional<std::uint64_t> bytes = files.size_bytes(file);
  const std::string path(formats::kCommonStatePath);
  const auto has_path = [&path](const auto& one) { return one.path == path; };
  if (!bytes || std::any_of(catalogue.objects.begin(), catalogue.objects.end(), has_path) ||
      std::any_of(catalogue.arrays.begin(), catalogue.arrays.end(), has_path)) {
    return;
  }
  if (*bytes == 0) {
    catalogue.left_out.push_back({path, "common.pt is empty: its save did not end, or it was cut off"});
    return;
  }
  const auto number = static_cast<std::uint32_t>(catalogue.files.size());
  catalogue.files.push_back(file);
  catalogue.objects.push_back({path, FileRange{number, 0, *bytes}, 0});
}

Awaitable<ForeignCatalogue> describe_files(Files files) {
  const std::vector<std::string> names = formats::dcp_metadata_files(files->names());
  if (names.empty()) {
    throw Error(
        Errc::not_found,
        fmt::format("{}: there is no .metadata, which says what the .distcp files hold: give the path of the "
                    "folder in which it is",
                    files->directory().string()));
  }
  FetchedParts parts(files);
  for (const std::string& name : names) {
    const std::uint64_t size = files->size_bytes(name).value_or(0);
    if (size > formats::kMaxPickleBytes) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("{}: it has {} bytes; {} at most are read", full_path(*files, name), size,
                              formats::kMaxPickleBytes));
    }
    parts.want(name, 0, size);
  }
  const std::string config(kMegatronConfig);
  const bool has_config = files->size_bytes(config).value_or(kMostConfigBytes + 1) <= kMostConfigBytes;
  if (has_config) {
    parts.want(config, 0, kMostConfigBytes);
  }
  co_await parts.fetch();
  std::vector<ForeignCatalogue> ranks;
  for (const std::string& name : names) {
    ranks.push_back(formats::describe_dcp_metadata(parts.start_of(name), full_path(*files, name)));
  }
  ForeignCatalogue catalogue =
      ranks.size() == 1 ? std::move(ranks.front()) : formats::join_dcp_metadata(ranks);
  if (has_config && says_torch_dist(parts.start_of(config))) {
    mark_shards(catalogue);
  }
  add_common_state(*files, catalogue);
  co_return catalogue;
}

/// Refuses a chunk that a file does not have.
void check_inside(const StoredFiles& files, const std::string& file, std::uint64_t end) {
  const std::optional<std::uint64_t> size = files.size_bytes(file);
  if (size && end > *size) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: it has {} bytes, and a part of an array in it should end at {}",
                            full_path(files, file), *size, end));
  }
}

/// The place of a chunk.
using ChunkPlace = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;

ChunkPlace place_of(const FileRange& range) {
  return {range.file, range.begin, range.end};
}

/// A chunk of which a load wants something: one slice or, of a flattened state, several.
struct Chunk {
  std::uint64_t wanted = 0;    ///< Elements.
  std::uint64_t elements = 0;  ///< That it has.
  bool is_encoded = false;
  bool is_packed = false;                    ///< Decoded, packed elements would be refused in boxes.
  std::optional<ForeignCatalogue> contents;  ///< As far as its ends have told.

  [[nodiscard]] bool is_read_whole(std::uint64_t bytes) const {
    const bool is_wanted = wanted >= elements - elements / 8;
    return is_encoded || (wanted > 0 && !is_packed && bytes <= (is_wanted ? kMostWholeBytes : kFewBytes));
  }
};

/// Returns what a chunk holds, as far as its ends tell; nothing where more of it must be there.
std::optional<ForeignCatalogue> look_into(FetchedParts& parts, const std::string& file,
                                          const FileRange& range, const std::string& path) {
  std::optional<ForeignCatalogue> contents;
  static_cast<void>(parts.try_read(file, range.begin, [&](const auto& read, const auto& /*expect*/) {
    const formats::TorchArchive archive = formats::open_torch_archive(read, range.end - range.begin, path);
    contents = formats::describe_torch_archive(archive, path);
  }));
  return contents;
}

/// Calls `visit(array, slice)` for all slices.
template <class Visit>
void visit_slices(ForeignCatalogue& part, Visit visit) {
  for (ForeignArray& array : part.arrays) {
    for (ForeignSlice& slice : array.slices) {
      visit(array, slice);
    }
  }
}

/// Finds the chunks that are to be looked into, and those that are read whole.
std::map<ChunkPlace, Chunk> chunks_of(const StoredFiles& files, ForeignCatalogue& part) {
  std::map<ChunkPlace, Chunk> chunks;
  visit_slices(part, [&](const ForeignArray& array, const ForeignSlice& slice) {
    check_inside(files, part.files[slice.range.file], slice.range.end);
    Chunk& chunk = chunks[place_of(slice.range)];
    chunk.wanted += slice.wanted;
    chunk.elements = slice.elements;
    chunk.is_packed = is_packed(array.dtype);
    chunk.is_encoded = !part.forms[slice.form].codecs.empty();
  });
  return chunks;
}

Awaitable<ForeignCatalogue> locate_slices(Files files, ForeignCatalogue part) {
  std::map<ChunkPlace, Chunk> chunks = chunks_of(*files, part);
  FetchedParts parts(files);
  for (const std::uint64_t end_bytes : kEndBytes) {
    const auto for_each_missing = [&](const auto& visit) {
      for (auto& [place, chunk] : chunks) {
        const auto& [file, begin, end] = place;
        if (!chunk.contents && !chunk.is_read_whole(end - begin)) {
          visit(FileRange{file, begin, end}, chunk);
        }
      }
    };
    for_each_missing([&](const FileRange& range, const Chunk& /*chunk*/) {
      const std::uint64_t near = std::min(end_bytes, range.end - range.begin);
      parts.want(part.files[range.file], range.begin, range.begin + near);
      parts.want(part.files[range.file], range.end - near, range.end);
    });
    co_await parts.fetch();  // As often on all ranks.
    for_each_missing([&](const FileRange& range, Chunk& chunk) {
      const std::string& file = part.files[range.file];
      chunk.contents = look_into(parts, file, range, full_path(*files, file));
    });
  }
  visit_slices(part, [&](const ForeignArray& array, ForeignSlice& slice) {
    const Chunk& chunk = chunks.at(place_of(slice.range));
    if (chunk.is_read_whole(slice.range.end - slice.range.begin)) {
      formats::SliceForm form = part.forms[slice.form];
      form.codecs.emplace_back(formats::kTorchArchiveCodec);
      slice.form = part.add_form(form);
      return;
    }
    const std::string path = full_path(*files, part.files[slice.range.file]);
    if (!chunk.contents) {
      throw Error(
          Errc::malformed_metadata,
          fmt::format("{}: the part {} of {}: its archive is described by more than the {} bytes at its ends",
                      path, to_string(slice.box), formats::shown(array.path), kEndBytes.back()));
    }
    slice = formats::locate_dcp_slice(array, slice, *chunk.contents, part, path);
  });
  part.is_located = true;
  co_return part;
}

class TorchDistributedLayout final : public FileLayout {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "torch.distributed"; }

  [[nodiscard]] int recognises(std::span<const std::string> files) const override {
    const auto is_chunks = [](const std::string& file) { return file.ends_with(".distcp"); };
    const int without = std::any_of(files.begin(), files.end(), is_chunks) ? 10 : 0;
    return std::any_of(files.begin(), files.end(), is_metadata) ? 90 : without;
  }

  [[nodiscard]] Awaitable<ForeignCatalogue> describe(Files files, OpenOptions /*options*/) const override {
    return describe_files(std::move(files));
  }

  [[nodiscard]] Awaitable<ForeignCatalogue> locate(Files files, ForeignCatalogue part) const override {
    return locate_slices(std::move(files), std::move(part));
  }

  [[nodiscard]] std::vector<FileRange> archives(const ForeignCatalogue& described,
                                                const StoredFiles& /*files*/) const override {
    std::vector<FileRange> archives;
    const auto add = [&](const FileRange& range, std::uint32_t form) {
      const std::vector<std::string>& codecs = described.forms[form].codecs;
      if (codecs.empty() || codecs.front() == formats::kShardCodec) {
        archives.push_back(range);
      }
    };
    for (const ForeignArray& array : described.arrays) {
      for (const ForeignSlice& slice : array.slices) {
        add(slice.range, slice.form);
      }
    }
    for (const formats::ForeignObject& object : described.objects) {
      add(object.range, object.form);
    }
    const auto comes_before = [](const FileRange& a, const FileRange& b) {
      return place_of(a) < place_of(b);
    };
    std::sort(archives.begin(), archives.end(), comes_before);
    const auto is_same = [](const FileRange& a, const FileRange& b) { return place_of(a) == place_of(b); };
    archives.erase(std::unique(archives.begin(), archives.end(), is_same), archives.end());
    return archives;
  }

  [[nodiscard]] ForeignCatalogue describe_object(std::string_view path,
                                                 std::span<const std::byte> bytes) const override {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with("PK")) {
      return FileLayout::describe_object(path, bytes);
    }
    const std::string name = formats::shown(path);
    const formats::ReadAt read = [bytes](std::uint64_t begin, std::uint64_t size) {
      const auto part = bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
      return std::vector<std::byte>(part.begin(), part.end());
    };
    const formats::TorchArchive archive = formats::open_torch_archive(read, bytes.size(), name);
    ForeignCatalogue catalogue = formats::describe_torch_archive(archive, name);
    catalogue.files.front() = "object";
    return catalogue;
  }
};

}  // namespace

std::shared_ptr<const FileLayout> torch_distributed_layout() {
  return std::make_shared<TorchDistributedLayout>();
}

}  // namespace cairn::array_store
