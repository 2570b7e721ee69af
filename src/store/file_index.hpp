// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/internal/manifest.hpp"

namespace cairn::store {

/// Where the files of a checkpoint are, found without a walk over all of them: there may be a hundred thousand, and a
/// load asks for each.
///
/// `Less` compares names; it must be transparent.
template <class Less = std::less<>>
class FileIndex {
 public:
  struct Place {
    std::size_t position;       ///< In the manifest.
    std::uint64_t first_chunk;  ///< In the table of the rank that wrote it.
  };

  explicit FileIndex(std::span<const FileEntry> files) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::uint64_t& chunks = chunks_[files[i].rank];
      places_.emplace(files[i].path, Place{i, chunks});
      chunks += io::chunk_count(files[i].size_bytes);
    }
  }

  /// Null when there is no file of that path.
  [[nodiscard]] const Place* find(std::string_view relative) const {
    const auto found = places_.find(relative);
    return found == places_.end() ? nullptr : &found->second;
  }

  /// The names of the files below `directory`, relative to it, sorted.
  [[nodiscard]] std::vector<std::string> below(std::string_view directory) const {
    const std::string prefix = std::string(directory) + "/";
    std::vector<std::string> names;
    for (auto each = places_.lower_bound(prefix); each != places_.end() && each->first.starts_with(prefix);
         ++each) {
      names.push_back(each->first.substr(prefix.size()));
    }
    return names;
  }

  /// The size of a rank's table of chunk hashes.
  [[nodiscard]] std::uint64_t table_bytes(std::uint32_t rank) const {
    const auto found = chunks_.find(rank);
    return found == chunks_.end() ? 0 : found->second * sizeof(std::uint64_t);
  }

 private:
  std::map<std::string, Place, Less> places_;
  std::map<std::uint32_t, std::uint64_t> chunks_;  // By rank.
};

}  // namespace cairn::store
