// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::records {

/// How the bytes of records are packed in a file.
enum class Codec : std::uint8_t { none, brotli, zstd, snappy };

/// Returns what options and errors call a codec: "uncompressed", "brotli", "zstd", "snappy".
[[nodiscard]] std::string_view name(Codec codec) noexcept;

/// Returns whether this build of the library packs and unpacks with it.
[[nodiscard]] bool is_built_in(Codec codec) noexcept;

/// How a file of records is written. Its text form is riegeli's: "zstd:3,chunk_size:1M".
struct RecordOptions {
  RecordOptions() = default;

  /// Reads options as riegeli writes them, separated by commas:
  /// `default` (which is `brotli`), `uncompressed`, `brotli[:level]`, `zstd[:level]`, `snappy[:level]`,
  /// `window_log:auto` or `:bits`, `chunk_size:auto` or `:bytes` (with B, k, M, G, T, P or E behind the number),
  /// `transpose:false`, `parallelism:n`, which changes nothing here. The empty text is `uncompressed`.
  ///
  /// Errors: Errc::invalid_argument, naming the option; Errc::feature_missing for a codec that is not built in, and
  ///         for what this library does not write: transposed chunks, buckets, padding, other encoders of brotli.
  [[nodiscard]] static RecordOptions parse(std::string_view text);

  Codec codec = Codec::none;
  /// Higher ones pack better and take longer. Nothing: brotli 6, zstd 3, snappy 1.
  std::optional<int> level;
  /// Logarithm of the bytes that brotli and zstd look back; who unpacks needs as much memory. Nothing: by the codec.
  std::optional<int> window_log;
  /// Records are put together in chunks of about so many bytes, each of which is read and unpacked as a whole. 0: 1
  /// MiB, without a codec 4 KiB. A larger record has a chunk of its own.
  std::uint64_t chunk_bytes = 0;
};

}  // namespace cairn::records
