// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::array_store {

/// The file that says which arrays and scalars a checkpointable has.
inline constexpr std::string_view kIndexFile = "index.fb";

/// Whether a file of that name holds tensors. Those in sub-folders do not count.
[[nodiscard]] bool is_safetensors(std::string_view file) noexcept;

/// The files of one checkpointable, for whoever reads arrays from them.
///
/// Threads: const methods may run at the same time.
/// Errors:  of whatever reads the files; Errc::not_found for one that is not there.
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;

  /// Where they are, for messages.
  [[nodiscard]] virtual std::filesystem::path directory() const = 0;
  /// Their names.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  /// The size of one, or nothing when there is none of that name.
  [[nodiscard]] virtual std::optional<std::uint64_t> size_bytes(std::string_view file) const = 0;
  /// Reads a whole file.
  [[nodiscard]] virtual Awaitable<std::string> read(std::string file) const = 0;
  /// Reads ranges of a file to where the pieces want them.
  [[nodiscard]] virtual Awaitable<> read_pieces(std::string file,
                                                std::vector<DestinationPiece> pieces) const = 0;
  /// Maps a file into memory.
  [[nodiscard]] virtual std::shared_ptr<const std::span<const std::byte>> map(
      std::string_view file) const = 0;
};

/// The index of a checkpointable. For files that others wrote it is made from their headers: every tensor is
/// then one key of a flat map.
///
/// Errors: Errc::not_found when there is neither an index nor a safetensors file; Errc::malformed_metadata, …
[[nodiscard]] Awaitable<formats::Index> open_index(std::shared_ptr<const StoredFiles> files);

}  // namespace cairn::array_store
