// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/core/load.hpp"
#include "cairn/tools/array_reader.hpp"

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::tools {

/// A file of a checkpoint, of which any bytes are read and verified. It holds one MiB.
///
/// Threads: one at a time.
class VerifiedFile {
 public:
  /// Errors: as CommittedDirectory::open_file and digest.
  VerifiedFile(const store::CommittedDirectory& checkpoint, const std::string& relative);

  /// Errors: Errc::malformed_metadata when the file ends before; Errc::checksum_mismatch; OS errors.
  void read(std::uint64_t offset_bytes, std::span<std::byte> out);

 private:
  std::string path_;
  io::FileHandle file_;
  io::FileDigest digest_;
  std::optional<std::uint64_t> begin_;  ///< Where `chunk_` lies.
  std::vector<std::byte> chunk_;
};

/// Returns whether an array of a checkpointable holds the bytes of an object: in a state dict those that are named so.
[[nodiscard]] bool is_object(const ItemMetadata& item, const ArrayEntry& array);

/// Called with the path of an array that lies in an object, and with the array.
using TakeArray = std::function<void(std::string path, const Array& array)>;

/// A checkpoint that is looked at, or one of two that are compared: what it says of itself, and its files.
class CheckpointView {
 public:
  /// Errors: what keeps the checkpoint that was described from being opened.
  explicit CheckpointView(CheckpointMetadata metadata);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return metadata_.path; }
  [[nodiscard]] const CheckpointMetadata& metadata() const noexcept { return metadata_; }
  /// Returns whether this is all of a checkpoint, and not a part of one or files of other programs.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
  [[nodiscard]] bool is_foreign() const noexcept { return !checkpoint_; }

  /// Opens the arrays of a checkpointable, of files of other programs by the layout by which they were described.
  ///
  /// Errors: as those of an ArrayReader.
  [[nodiscard]] ArrayReader reader(const std::string& name, array_store::FileLayouts layouts = {}) const;
  /// Describes a checkpointable, with the leaves of its objects in place of them: those of another program, and of a
  /// state dict, whose common state is an object as in Megatron-Core's files (kCommonStatePath). Reads the objects.
  /// `take` gets the arrays in them; null: they are values, too.
  ///
  /// Errors: of a state dict all that keep an object from being read; of another program those of read_objects.
  [[nodiscard]] Description description(const std::string& name, const array_store::FileLayouts& layouts = {},
                                        const TakeArray& take = nullptr) const;
  /// The files of a checkpointable, by their paths in its directory; nothing when they are foreign.
  [[nodiscard]] std::optional<std::map<std::string, store::FileEntry>> files(std::string_view name) const;
  /// Looks at each of them without reading: the first that is not there, or not as large as it was written.
  /// Errors: OS errors.
  [[nodiscard]] std::optional<store::VerifyProblem> file_problem(std::string_view name) const;
  /// Reads and verifies one of them.
  /// Errors: as CommittedDirectory::read_verified.
  [[nodiscard]] std::string read(const store::FileEntry& file, std::size_t max_bytes) const;
  [[nodiscard]] VerifiedFile open(const store::FileEntry& file) const { return {*checkpoint_, file.path}; }

 private:
  void describe_foreign_objects(Description& description, const array_store::FileLayouts& layouts,
                                const TakeArray& take) const;
  void describe_state_dict(const std::string& name, Description& description, const TakeArray& take) const;

  CheckpointMetadata metadata_;
  bool is_whole_ = false;
  std::optional<store::CommittedDirectory> checkpoint_;
};

}  // namespace cairn::tools
