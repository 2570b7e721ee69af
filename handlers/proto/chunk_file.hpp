// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/handlers/proto.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::detail {

inline constexpr std::string_view kChunksFile = "message.chunks";
inline constexpr std::string_view kMetadataFile = "chunks.binpb";

/// The library writes and reads files in runs of so many bytes, and asks for what lies in one run as a whole.
inline constexpr std::uint64_t kRunBytes = std::uint64_t{4} << 20;

/// A message in chunks, as it is written.
struct ChunkFile {
  std::vector<SourcePiece> pieces;
  std::uint64_t bytes = 0;
  std::string metadata;
};

inline constexpr std::uint64_t kPageBytes = std::uint64_t{1} << 20;

/// Cuts a message into pages of at most `page_bytes`, and gives each chunk its place in the file. Pieces refer to the
/// message, and share it where it is shared.
///
/// Errors: Errc::invalid_argument when required fields are missing, and when messages lie too deep in each other.
[[nodiscard]] ChunkFile cut_message(const ProtoMessage& message, std::uint64_t page_bytes = kPageBytes);

}  // namespace cairn::detail
