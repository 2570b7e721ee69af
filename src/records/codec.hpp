// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "cairn/records/record_options.hpp"

#include "records/layout.hpp"

namespace cairn::records {

/// The destination of unpacked bytes. Memory is taken as they come: a claim costs nothing by itself.
///
/// The string keeps what it had as room, so that one that is used again is cleared once only.
class UnpackedBytes {
 public:
  /// `bytes` are claimed to come of `packed_bytes`.
  UnpackedBytes(std::string& out, std::uint64_t bytes, std::size_t packed_bytes)
      : out_(out), bytes_(static_cast<std::size_t>(bytes)), at_first_(kSmall + kOften * packed_bytes) {}

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// The memory for the next bytes; empty when all have come.
  [[nodiscard]] std::span<char> room() {
    if (out_.size() < bytes_ && (done_ == out_.size() || done_ == 0)) {
      out_.resize(std::min(bytes_, std::max({at_first_, 2 * done_, out_.size()})));
    }
    return std::span(out_).first(std::min(bytes_, out_.size())).subspan(done_);
  }
  void came(std::size_t bytes) noexcept { done_ += bytes; }

  /// Cuts the string to what has come. Returns whether that is all.
  [[nodiscard]] bool finish() {
    out_.resize(done_);
    return done_ == bytes_;
  }

 private:
  static constexpr std::size_t kSmall = 65536;
  static constexpr std::size_t kOften = 64;  // What packs better is rare, and moved as it grows.

  std::string& out_;
  std::size_t bytes_;
  std::size_t at_first_;
  std::size_t done_ = 0;
};

/// The functions of one codec.
struct CodecFunctions {
  /// Packs what the fragments are together, `bytes` in all, to the end of `out`. There is at least one; options have
  /// been checked, and have a level.
  void (*pack)(const RecordOptions& options, std::span<const Bytes> fragments, std::uint64_t bytes,
               std::string& out) = nullptr;
  /// Returns whether `packed` is right, and ends where its last byte is. Gives no more than was claimed.
  bool (*unpack)(Bytes packed, UnpackedBytes& out) = nullptr;
};

/// Both are null for a codec that is not built in.
[[nodiscard]] CodecFunctions brotli_functions() noexcept;
[[nodiscard]] CodecFunctions snappy_functions() noexcept;
[[nodiscard]] CodecFunctions zstd_functions() noexcept;

/// For what fails in a codec only when there is no memory.
inline void require_memory(bool is_there) {
  if (!is_there) {
    throw std::bad_alloc();
  }
}

/// A codec that the format knows.
struct CodecTraits {
  Codec codec = Codec::none;
  std::string_view name;
  char letter = 0;           ///< In files.
  std::string_view package;  ///< Debian's.
  int least_level = 0;
  int most_level = 0;
  int default_level = 0;
  int most_window_log = 0;  ///< 0: it has none.
  CodecFunctions functions;
};

[[nodiscard]] std::span<const CodecTraits> codecs() noexcept;
[[nodiscard]] const CodecTraits& traits(Codec codec) noexcept;
/// Returns what an error says of a codec that is not built in.
[[nodiscard]] std::string missing(Codec codec);
/// Returns options with a level.
///
/// Errors: as RecordOptions::parse.
[[nodiscard]] RecordOptions checked(RecordOptions options);

}  // namespace cairn::records
