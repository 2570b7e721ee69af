// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.hpp"

#include <system_error>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "array_store/internal/reader.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::cli {
namespace {

/// The names of the files in a folder, or of a file alone, and how many bytes they have.
std::pair<std::vector<std::string>, std::uint64_t> files_of(const std::filesystem::directory_entry& entry) {
  std::vector<std::string> names;
  std::uint64_t bytes = 0;
  std::error_code error;
  const auto add = [&](const std::filesystem::directory_entry& file) {
    std::error_code ignored;
    if (file.is_regular_file(ignored)) {
      names.push_back(file.path().filename().string());
      const std::uintmax_t size = file.file_size(ignored);
      bytes += ignored ? 0 : size;
    }
  };
  if (!entry.is_directory(error)) {
    add(entry);
    return {names, bytes};
  }
  for (std::filesystem::directory_iterator file(entry.path(), error), end; !error && file != end;
       file.increment(error)) {
    add(*file);
  }
  return {names, bytes};
}

}  // namespace

std::vector<ForeignEntry> find_foreign(const std::filesystem::path& path) {
  std::vector<ForeignEntry> found;
  if (!may_be_root(path)) {
    return found;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (entry->is_directory(ignored) && !may_be_root(entry->path())) {
      continue;  // A checkpoint, or what is left of one.
    }
    const auto [names, bytes] = files_of(*entry);
    const bool has_index = std::find(names.begin(), names.end(), array_store::kIndexFile) != names.end();
    if (const auto layout = array_store::find_layout(names, {}); layout != nullptr && !has_index) {
      found.push_back({name, std::string(layout->name()), bytes});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const ForeignEntry& a, const ForeignEntry& b) { return a.name < b.name; });
  return found;
}

std::optional<std::pair<std::string, std::string>> names_in_doubt(std::vector<store::FoundCheckpoint> found) {
  const auto by = [](store::NumbersInNames numbers) {
    return [numbers](const auto& a, const auto& b) { return store::is_before_by_name(a, b, numbers); };
  };
  std::stable_sort(found.begin(), found.end(), by(store::NumbersInNames::apart));
  std::vector<store::FoundCheckpoint> decimal = found;
  std::stable_sort(decimal.begin(), decimal.end(), by(store::NumbersInNames::decimal));
  for (std::size_t i = found.size(); i-- > 0;) {
    if (store::name_in_root(found[i]) != store::name_in_root(decimal[i])) {
      return std::pair(decimal[i].name, found[i].name);
    }
  }
  return std::nullopt;
}

std::vector<store::FoundCheckpoint> find_checkpoints(const std::filesystem::path& path,
                                                     std::optional<store::NumbersInNames> numbers) {
  store::ListOptions options;
  options.everything = true;
  options.numbers = numbers;
  return store::list_checkpoints(io::posix_syscalls(), path, options);
}

bool may_be_listed(const std::filesystem::path& path, const Error& error) {
  std::error_code ignored;
  return (error.code() == Errc::not_committed || error.code() == Errc::invalid_argument) &&
         std::filesystem::is_directory(path, ignored);
}

bool may_be_root(const std::filesystem::path& path) {
  const std::array<std::string_view, 3> own = {store::kCommitName, store::kManifestName, store::kChunksName};
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) &&
         std::none_of(own.begin(), own.end(), [&](std::string_view name) {
           return std::filesystem::exists(std::filesystem::symlink_status(path / name, ignored));
         });
}

}  // namespace cairn::cli
