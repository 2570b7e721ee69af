// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/torch_archive.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/layouts/fetched_parts.hpp"
#include "array_store/layouts/layouts.hpp"
#include "formats/internal/first_bytes.hpp"
#include "formats/internal/hugging_face.hpp"

namespace cairn::array_store {
namespace {

using formats::ForeignCatalogue;
using Files = std::shared_ptr<const StoredFiles>;

constexpr std::uint64_t kTailBytes = 16 << 10;  ///< In which the directory of most archives lies.

/// Returns whether a file of that name says which archive holds which tensor: `pytorch_model.bin.index.json`.
bool is_list_name(std::string_view file) {
  return file.ends_with(".bin.index.json");
}

bool is_archive_name(std::string_view file) {
  constexpr std::array<std::string_view, 4> kEnds = {".pt", ".pth", ".bin", ".ckpt"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [file](std::string_view end) { return file.ends_with(end); });
}

/// Describes one archive: reads a few parts of it, never a storage. A file of safetensors may have its name.
Awaitable<ForeignCatalogue> describe_archive(Files files, std::string file, OpenOptions options) {
  FetchedParts parts(files);
  const std::uint64_t size = files->size_bytes(file).value_or(0);
  parts.want(file, 0, formats::kTellingBytes);
  parts.want(file, size - std::min(size, kTailBytes), size);
  const std::string path = full_path(*files, file);
  // Each time more is there than before; an archive asks for its directory, then for headers and small members.
  std::optional<formats::TorchArchive> archive;
  co_await parts.fetch();
  if (formats::begins_as_safetensors(parts.start_of(file), size)) {
    std::vector<std::string> names(1, file);
    Awaitable<ForeignCatalogue> describing =
        describe_safetensors(files, std::move(names), std::nullopt, std::move(options));
    ForeignCatalogue catalogue = co_await std::move(describing);
    catalogue.problems.push_back(path + ": it is a file of safetensors, and is read as one");
    co_return catalogue;
  }
  while (!parts.try_read(file, 0, [&](const auto& read, const auto& expect) {
    archive = formats::open_torch_archive(read, size, path, expect);
  })) {
    co_await parts.fetch();
  }
  ForeignCatalogue catalogue = formats::describe_torch_archive(*archive, path);
  catalogue.files.front() = file;
  co_return catalogue;
}

/// Adds the tensors that a list says are in that file.
void add_listed(ForeignCatalogue& all, ForeignCatalogue one,
                std::map<std::string, std::string, std::less<>>& listed) {
  const std::string file = one.files.front();
  const auto number = static_cast<std::uint32_t>(all.files.size());
  all.files.push_back(file);
  for (formats::ForeignArray& array : one.arrays) {
    const auto found = listed.find(array.path);
    if (found == listed.end() || found->second != file) {
      continue;
    }
    listed.erase(found);
    for (formats::ForeignSlice& slice : array.slices) {
      slice.range.file = number;
      slice.form = all.add_form(one.forms[slice.form]);
    }
    all.arrays.push_back(std::move(array));
  }
  for (formats::LeftOut& left_out : one.left_out) {
    const auto found = listed.find(left_out.path);
    if (found != listed.end() && found->second == file) {
      listed.erase(found);
      all.left_out.push_back(std::move(left_out));
    }
  }
  all.problems.insert(all.problems.end(), one.problems.begin(), one.problems.end());
}

/// The archives of a model in shards.
Awaitable<ForeignCatalogue> describe_list(Files files, std::string list, OpenOptions options) {
  Awaitable<std::string> reading = files->read(list);
  async::require_coroutine(reading, "'read'");
  const std::string text = co_await std::move(reading);
  formats::HuggingFaceIndex index = formats::parse_hugging_face_index(text, full_path(*files, list));
  if (options.is_partial) {
    leave_out(index, *files, options);
  }
  std::map<std::string, std::string, std::less<>> listed;  // Files by paths.
  for (const auto& [tensor, file] : index.weight_map) {
    std::string path;
    formats::append_key(path, tensor);
    listed.emplace(std::move(path), file);
  }
  ForeignCatalogue all;
  all.may_overlap = true;
  for (const std::string& file : index.files()) {
    Awaitable<ForeignCatalogue> describing = describe_archive(files, file, options);
    ForeignCatalogue one = co_await std::move(describing);
    add_listed(all, std::move(one), listed);
  }
  if (!listed.empty()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: tensor {}: is not in '{}'", index.path,
                            formats::shown(listed.begin()->first), listed.begin()->second));
  }
  co_return all;
}

/// The archives of a folder, of which one is read.
Awaitable<ForeignCatalogue> describe_folder(Files files, OpenOptions options) {
  std::vector<std::string> archives;
  for (std::string& file : files->names()) {
    if (is_archive_name(file)) {
      archives.push_back(std::move(file));
    }
  }
  if (archives.empty() && files->names().size() == 1) {
    archives = files->names();  // Somebody says that it is one.
  }
  if (archives.size() != 1) {
    throw Error(archives.empty() ? Errc::not_found : Errc::invalid_argument,
                archives.empty()
                    ? fmt::format("{}: there is no .pt, .pth, .bin or .ckpt", files->directory().string())
                    : fmt::format("{}: there are several archives: '{}'; give the path of one of them",
                                  files->directory().string(), fmt::join(archives, "', '")));
  }
  return describe_archive(std::move(files), std::move(archives.front()), std::move(options));
}

class TorchArchiveLayout final : public FileLayout {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "torch.archive"; }

  [[nodiscard]] int recognises(std::span<const std::string> files) const override {
    const int without_list = std::any_of(files.begin(), files.end(), is_archive_name) ? 60 : 0;
    return std::any_of(files.begin(), files.end(), is_list_name) ? 70 : without_list;
  }

  [[nodiscard]] Awaitable<ForeignCatalogue> describe(Files files, OpenOptions options) const override {
    const std::vector<std::string> names = files->names();
    const auto list = std::find_if(names.begin(), names.end(), is_list_name);
    const bool is_named = is_archive_name(files->named_file());
    return list == names.end() || is_named ? describe_folder(std::move(files), std::move(options))
                                           : describe_list(std::move(files), *list, std::move(options));
  }

  [[nodiscard]] std::vector<formats::FileRange> archives(const ForeignCatalogue& described,
                                                         const StoredFiles& files) const override {
    std::vector<formats::FileRange> archives;
    for (const std::string& file : described.files) {
      archives.push_back(
          {static_cast<std::uint32_t>(archives.size()), 0, files.size_bytes(file).value_or(0)});
    }
    return archives;
  }
};

}  // namespace

std::shared_ptr<const FileLayout> torch_archive_layout() {
  return std::make_shared<TorchArchiveLayout>();
}

}  // namespace cairn::array_store
