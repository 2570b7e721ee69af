// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"

#include "array_store/internal/reader.hpp"
#include "formats/internal/zip.hpp"

namespace cairn::array_store {

/// Parts of files that have been read, for readers that ask for bytes one after the other: those that lack some say
/// which, and begin again when they have been fetched.
class FetchedParts {
 public:
  explicit FetchedParts(std::shared_ptr<const StoredFiles> files) : files_(std::move(files)) {}

  /// Adds bytes [begin, end) of a file to what is fetched next, as far as it has them.
  ///
  /// Errors: Errc::not_found when there is no such file.
  void want(const std::string& file, std::uint64_t begin, std::uint64_t end);

  /// Fetches what is wanted, in one call of StoredFiles::read_files.
  [[nodiscard]] Awaitable<> fetch();

  /// Returns what is there of a file from its first byte on.
  [[nodiscard]] std::span<const std::byte> start_of(const std::string& file) const;

  /// Calls `read(reader, expecter)`, which read from what is there of the part of a file that begins at `base`. False
  /// where it asked for what is not there: that is wanted now.
  template <class Read>
  [[nodiscard]] bool try_read(const std::string& file, std::uint64_t base, const Read& read) {
    try {
      read(reader(file, base), expecter(file, base));
      return true;
    } catch (const Missing& missing) {
      for (const formats::PartOfFile& part : missing.parts) {
        want(file, base + part.begin, base + part.begin + part.size);
      }
      return false;
    }
  }

 private:
  [[nodiscard]] formats::ReadAt reader(const std::string& file, std::uint64_t base) const;
  [[nodiscard]] formats::ExpectParts expecter(const std::string& file, std::uint64_t base) const;

  /// Thrown to a reader that asks for what is not there.
  struct Missing {
    std::vector<formats::PartOfFile> parts;
  };

  using Ends = std::map<std::uint64_t, std::uint64_t>;     // By where they begin.
  using Memory = std::shared_ptr<std::vector<std::byte>>;  // A read that is given up may still write to it.
  using Bytes = std::map<std::uint64_t, Memory>;

  [[nodiscard]] static std::uint64_t end_of(const Bytes::value_type& part);
  /// The bytes of a part; null where not all are there.
  [[nodiscard]] const std::byte* find(const std::string& file, std::uint64_t begin, std::uint64_t size) const;

  std::shared_ptr<const StoredFiles> files_;
  std::map<std::string, Ends, std::less<>> wanted_;    // Of a file no two overlap.
  std::map<std::string, Bytes, std::less<>> fetched_;  // As of those.
};

}  // namespace cairn::array_store
