// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/safetensors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/internal/reader.hpp"
#include "array_store/layouts/layouts.hpp"
#include "async/internal/semaphore.hpp"
#include "base/internal/aligned_memory.hpp"
#include "formats/internal/first_bytes.hpp"
#include "formats/internal/hugging_face.hpp"
#include "formats/internal/index.hpp"

namespace cairn::array_store {
namespace {

/// Enough for any disk; each takes the memory of a header.
constexpr std::size_t kHeadersAtOnce = 32;

using Files = std::shared_ptr<const StoredFiles>;

/// Reads the first `size` bytes of a file.
Awaitable<std::shared_ptr<AlignedMemory>> read_start(Files files, std::string file, std::uint64_t size) {
  auto memory = std::make_shared<AlignedMemory>(static_cast<std::size_t>(size));
  if (size > 0) {
    std::vector<DestinationPiece> pieces(1);
    pieces[0].size_bytes = size;
    pieces[0].data = memory->data();
    pieces[0].owner = memory;
    Awaitable<> reading = files->read_pieces(std::move(file), std::move(pieces));
    async::require_coroutine(reading, "'read_pieces'");
    co_await std::move(reading);
  }
  co_return memory;
}

std::span<const std::byte> bytes_of(const AlignedMemory& memory, std::uint64_t size) {
  return {memory.data(), static_cast<std::size_t>(size)};
}

Awaitable<formats::FolderFile> read_header(Files files, std::string file, formats::TrailingBytes trailing,
                                           async::Semaphore readers) {
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
  read.header = formats::parse_safetensors(bytes_of(*prefix, prefix_size), *size, path, trailing);
  read.name = std::move(file);
  co_return read;
}

/// Adds what the header of a file says of itself.
void add_metadata(formats::ForeignCatalogue& catalogue, const formats::FolderFile& file) {
  std::string path;
  formats::append_key(path, kFileMetadataKey);
  formats::append_key(path, file.name);
  if (file.header.metadata.empty()) {
    catalogue.values.push_back({path, formats::EmptyMap()});
  }
  const std::size_t end = path.size();
  for (const auto& [key, value] : file.header.metadata) {
    formats::append_key(path, key);
    catalogue.values.push_back({path, value});
    path.resize(end);
  }
}

formats::ForeignCatalogue catalogue_of(const std::vector<formats::FolderFile>& files,
                                       std::vector<formats::ForeignArray> tensors, bool has_file_metadata) {
  formats::ForeignCatalogue catalogue;
  for (const formats::FolderFile& file : files) {
    catalogue.files.push_back(file.name);
    if (has_file_metadata) {
      add_metadata(catalogue, file);
    }
  }
  for (formats::ForeignArray& tensor : tensors) {
    const std::string name = std::exchange(tensor.path, {});
    formats::append_key(tensor.path, name);
  }
  catalogue.arrays = std::move(tensors);
  return catalogue;
}

/// Which files of a folder are read.
struct FileChoice {
  std::string index;    ///< The file that says which file holds which tensor; empty where none is followed.
  std::string whole;    ///< The one file that is read; empty: those of `index`, or all.
  std::string problem;  ///< What is not read though it is there, in a sentence.
};

/// Chooses as transformers does where one file with the whole model and files that list shards lie in a folder.
FileChoice choose_files(const StoredFiles& files) {
  FileChoice choice;
  if (std::string named = files.named_file(); !named.empty()) {
    choice.index = is_safetensors_index(named) ? std::move(named) : std::string();
    return choice;
  }
  const std::vector<std::string> names = files.names();
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found), is_safetensors_index);
  choice.whole = formats::whole_model_of(names, found);
  if (!choice.whole.empty()) {
    choice.problem = fmt::format(
        "{}: '{}' is read, as transformers does, and not what '{}' lists: give the path of a list to read "
        "that",
        files.directory().string(), choice.whole, fmt::join(found, "', '"));
    return choice;
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
  choice.index = found.empty() ? std::string() : std::move(found.front());
  return choice;
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

}  // namespace

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

Awaitable<formats::ForeignCatalogue> describe_safetensors(std::shared_ptr<const StoredFiles> files,
                                                          std::vector<std::string> names,
                                                          std::optional<formats::HuggingFaceIndex> index,
                                                          OpenOptions options) {
  const async::Semaphore readers(kHeadersAtOnce);
  const auto trailing =
      options.allow_trailing_bytes ? formats::TrailingBytes::allowed : formats::TrailingBytes::refused;
  std::vector<Awaitable<formats::FolderFile>> reads;
  for (std::string& name : names) {
    reads.push_back(read_header(files, std::move(name), trailing, readers));
  }
  const std::vector<formats::FolderFile> headers = co_await async::when_all(std::move(reads));
  auto tensors = formats::gather_tensors(headers, index ? &*index : nullptr);
  formats::ForeignCatalogue catalogue = catalogue_of(headers, std::move(tensors), options.has_file_metadata);
  for (const formats::FolderFile& file : headers) {
    if (const std::uint64_t bytes = file.header.trailing_bytes; bytes > 0) {
      catalogue.problems.push_back(fmt::format("{}: {} bytes behind its last tensor are not read",
                                               full_path(*files, file.name), bytes));
    }
  }
  co_return catalogue;
}

namespace {

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
    throw Error(Errc::not_found, fmt::format("{}: there is no safetensors file", files.directory().string()));
  }
  return names;
}

Awaitable<formats::ForeignCatalogue> describe_files(Files files, OpenOptions options) {
  std::optional<formats::HuggingFaceIndex> index;
  std::vector<std::string> names;
  const FileChoice choice = choose_files(*files);
  if (!choice.index.empty()) {
    Awaitable<std::string> reading = files->read(choice.index);
    async::require_coroutine(reading, "'read'");
    const std::string text = co_await std::move(reading);
    index = formats::parse_hugging_face_index(text, full_path(*files, choice.index));
    if (options.is_partial) {
      leave_out(*index, *files, options);
    }
    names = index->files();
  } else if (!choice.whole.empty()) {
    names.push_back(choice.whole);
  } else {
    names = safetensors_of(*files);
    check_complete(*files, names, options);
  }
  Awaitable<formats::ForeignCatalogue> describing =
      describe_safetensors(files, std::move(names), std::move(index), std::move(options));
  formats::ForeignCatalogue catalogue = co_await std::move(describing);
  if (!choice.problem.empty()) {
    catalogue.problems.push_back(choice.problem);
  }
  co_return catalogue;
}

class SafetensorsLayout final : public FileLayout {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "safetensors"; }

  [[nodiscard]] int recognises(std::span<const std::string> files) const override {
    const bool is_one = std::any_of(files.begin(), files.end(), [](const std::string& file) {
      return is_safetensors(file) || is_safetensors_index(file);
    });
    return is_one ? 80 : 0;
  }

  [[nodiscard]] Awaitable<formats::ForeignCatalogue> describe(Files files,
                                                              OpenOptions options) const override {
    return describe_files(std::move(files), std::move(options));
  }
};

}  // namespace

std::shared_ptr<const FileLayout> safetensors_layout() {
  return std::make_shared<SafetensorsLayout>();
}

}  // namespace cairn::array_store
