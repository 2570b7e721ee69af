// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/array_store/reader.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/async/require.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/formats/index_builder.hpp"

#include "async/internal/semaphore.hpp"
#include "base/internal/aligned_memory.hpp"
#include "formats/internal/first_bytes.hpp"
#include "formats/internal/hugging_face.hpp"
#include "formats/internal/safetensors.hpp"

namespace cairn::array_store {
namespace {

/// Enough for any disk; each takes the memory of a header.
constexpr std::size_t kHeadersAtOnce = 32;

using Files = std::shared_ptr<const StoredFiles>;

/// Takes the first `size` bytes of a file to memory.
std::vector<DestinationPiece> start_of_file(const std::shared_ptr<AlignedMemory>& memory,
                                            std::uint64_t size) {
  std::vector<DestinationPiece> pieces(size > 0 ? 1 : 0);
  if (size > 0) {
    pieces[0].size_bytes = size;
    pieces[0].data = memory->data();
    pieces[0].owner = memory;
  }
  return pieces;
}

/// Reads the first `size` bytes of a file.
Awaitable<std::shared_ptr<AlignedMemory>> read_start(Files files, std::string file, std::uint64_t size) {
  auto memory = std::make_shared<AlignedMemory>(static_cast<std::size_t>(size));
  if (size > 0) {
    std::vector<DestinationPiece> pieces = start_of_file(memory, size);
    Awaitable<> reading = files->read_pieces(std::move(file), std::move(pieces));
    async::require_coroutine(reading, "'read_pieces'");
    co_await std::move(reading);
  }
  co_return memory;
}

std::span<const std::byte> bytes_of(const AlignedMemory& memory, std::uint64_t size) {
  return {memory.data(), static_cast<std::size_t>(size)};
}

std::string full_path(const StoredFiles& files, std::string_view file) {
  return (files.directory() / file).string();
}

Awaitable<formats::Index> open_own(Files files, std::uint64_t size) {
  const auto memory = std::make_shared<AlignedMemory>(static_cast<std::size_t>(size));
  PiecesByFile pieces;
  pieces.emplace(kIndexFile, start_of_file(memory, size));
  NotesByFile none;
  Awaitable<> reading = files->read_files(std::move(pieces), std::move(none));
  async::require_coroutine(reading, "'read_files'");
  co_await std::move(reading);
  co_return formats::Index::open(memory, bytes_of(*memory, size), full_path(*files, kIndexFile));
}

Awaitable<formats::FolderFile> read_header(Files files, std::string file, async::Semaphore readers) {
  const async::Permit permit = co_await readers.acquire();  // Before any memory.
  const std::optional<std::uint64_t> size = files->size_bytes(file);
  if (!size) {
    throw Error(Errc::not_found, fmt::format("{}: the file is not there", full_path(*files, file)));
  }
  const std::uint64_t first_size = std::min<std::uint64_t>(*size, formats::kTellingBytes);
  const auto first = co_await read_start(files, file, first_size);
  const std::string path = full_path(*files, file);
  const std::uint64_t prefix_size =
      formats::safetensors_prefix_size(bytes_of(*first, first_size), *size, path);
  const auto prefix = co_await read_start(files, file, prefix_size);
  formats::FolderFile read;
  read.header = formats::parse_safetensors(bytes_of(*prefix, prefix_size), *size, path);
  read.name = std::move(file);
  co_return read;
}

/// Adds what the header of a file says of itself.
void add_metadata(formats::IndexBuilder& builder, const formats::FolderFile& file) {
  std::string path;
  formats::append_key(path, kFileMetadataKey);
  formats::append_key(path, file.name);
  if (file.header.metadata.empty()) {
    builder.add_empty_map(path);
  }
  const std::size_t end = path.size();
  for (const auto& [key, value] : file.header.metadata) {
    formats::append_key(path, key);
    builder.add_string(path, value);
    path.resize(end);
  }
}

/// An index that says of each tensor where it lies.
formats::IndexBytes describe(const std::vector<formats::FolderFile>& files,
                             const std::vector<formats::FolderTensor>& tensors, bool has_file_metadata) {
  formats::IndexBuilder builder;
  for (const formats::FolderFile& file : files) {
    static_cast<void>(builder.add_file(file.name));  // Numbered as TensorSlice::file is.
    if (has_file_metadata) {
      add_metadata(builder, file);
    }
  }
  std::string path;
  for (const formats::FolderTensor& tensor : tensors) {
    path.clear();
    formats::append_key(path, tensor.name);
    builder.add_array(path, tensor.dtype, {tensor.shape.begin(), tensor.shape.end()});
    for (const formats::TensorSlice& slice : tensor.slices) {
      const auto file = static_cast<std::uint32_t>(slice.file);
      const Shape& offsets = slice.box.offsets();
      const Shape& extents = slice.box.extents();
      if (slice.box.is_whole(tensor.shape)) {
        builder.add_whole(file, slice.begin);
      } else {
        builder.add_slice(file, slice.begin, {offsets.begin(), offsets.end()},
                          {extents.begin(), extents.end()});
      }
    }
  }
  return builder.finish();
}

/// The file that says which file holds which tensor; empty where there is none.
///
/// Errors: Errc::invalid_argument when there are several, and the caller has named none.
std::string index_file_of(const StoredFiles& files) {
  if (std::string named = files.named_file(); !named.empty()) {
    return is_safetensors_index(named) ? named : std::string();
  }
  std::vector<std::string> found;
  for (std::string& file : files.names()) {
    if (is_safetensors_index(file)) {
      found.push_back(std::move(file));
    }
  }
  if (found.size() > 1) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}: several files say which file holds which tensor: '{}'; give the path of one of them",
                    files.directory().string(), fmt::join(found, "', '")));
  }
  if (found.empty() &&
      files.size_bytes(formats::kHuggingFaceIndexName)) {  // A link that leads nowhere is an error.
    found.emplace_back(formats::kHuggingFaceIndexName);
  }
  return found.empty() ? std::string() : std::move(found.front());
}

/// Returns whether a file is there that can be read.
bool is_there(const StoredFiles& files, const std::string& file) {
  try {
    return files.size_bytes(file).has_value();
  } catch (const Error& error) {  // A link that leads nowhere.
    if (error.code() == Errc::not_found) {
      return false;
    }
    throw;
  }
}

void tell(const OpenOptions& options, const std::string& problem) {
  if (options.on_problem) {
    options.on_problem(problem);
  }
}

/// Leaves out of the list of a part of a model what is not wanted, or not there, and tells what is missing.
void leave_out(formats::HuggingFaceIndex& index, const StoredFiles& files, const OpenOptions& options) {
  std::set<std::string> missing;
  for (std::string& file : index.files()) {
    if (!is_there(files, file)) {
      tell(options, fmt::format("{}: the file is not there, which {} names: its tensors are left out",
                                full_path(files, file), index.path));
      missing.insert(std::move(file));
    }
  }
  std::erase_if(index.weight_map, [&](const auto& entry) {
    return options.wanted ? !options.wanted->contains(entry.first) : missing.contains(entry.second);
  });
}

/// Refuses a folder without a list in which shards are missing; of a part of a model it is told.
void check_complete(const StoredFiles& files, std::span<const std::string> names,
                    const OpenOptions& options) {
  const auto shards = formats::find_missing_shards(names);
  if (!shards || !files.named_file().empty()) {  // Who names one shard wants that one.
    return;
  }
  const std::string problem =
      fmt::format("{}: {} of {} shards are not there: '{}'{}; '{}' is", files.directory().string(),
                  shards->missing, shards->total, fmt::join(shards->names, "', '"),
                  shards->missing > shards->names.size() ? ", …" : "", shards->present);
  if (!options.is_partial) {
    throw Error(Errc::not_found, problem);
  }
  tell(options, problem);
}

std::vector<std::string> safetensors_of(const StoredFiles& files) {
  std::vector<std::string> names;
  for (std::string& file : files.names()) {
    if (is_safetensors(file)) {
      names.push_back(std::move(file));
    }
  }
  if (names.empty()) {
    throw Error(Errc::not_found, fmt::format("{}: there is neither an {} nor a safetensors file",
                                             files.directory().string(), kIndexFile));
  }
  return names;
}

Awaitable<formats::Index> open_foreign(Files files, OpenOptions options) {
  std::optional<formats::HuggingFaceIndex> index;
  std::vector<std::string> names;
  if (const std::string file = index_file_of(*files); !file.empty()) {
    Awaitable<std::string> reading = files->read(file);
    async::require_coroutine(reading, "'read'");
    const std::string text = co_await std::move(reading);
    index = formats::parse_hugging_face_index(text, full_path(*files, file));
    if (options.is_partial) {
      leave_out(*index, *files, options);
    }
    names = index->files();
  } else {
    names = safetensors_of(*files);
    check_complete(*files, names, options);
  }
  const async::Semaphore readers(kHeadersAtOnce);
  std::vector<Awaitable<formats::FolderFile>> reads;
  for (std::string& name : names) {
    reads.push_back(read_header(files, std::move(name), readers));
  }
  const std::vector<formats::FolderFile> headers = co_await async::when_all(std::move(reads));
  const auto tensors = formats::gather_tensors(headers, index ? &*index : nullptr);
  formats::IndexBytes described = describe(headers, tensors, options.has_file_metadata);
  co_return formats::Index::open(std::move(described.owner), described.bytes, files->directory().string());
}

}  // namespace

bool is_safetensors(std::string_view file) noexcept {
  return file.ends_with(".safetensors") && file.find('/') == std::string_view::npos;
}

bool is_safetensors_index(std::string_view file) noexcept {
  return formats::is_hugging_face_index(file);
}

Awaitable<formats::Index> open_index(std::shared_ptr<const StoredFiles> files, OpenOptions options) {
  if (const auto size = files->size_bytes(kIndexFile)) {
    return open_own(std::move(files), *size);
  }
  return open_foreign(std::move(files), std::move(options));
}

}  // namespace cairn::array_store
