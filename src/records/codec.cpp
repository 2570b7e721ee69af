// SPDX-License-Identifier: Apache-2.0
#include "records/codec.hpp"

#include <array>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::records {

std::span<const CodecTraits> codecs() noexcept {
  static const std::array<CodecTraits, 4> all = {
      CodecTraits{Codec::none, "uncompressed", '\0', "", 0, 0, 0, 0, {}},
      CodecTraits{Codec::brotli, "brotli", 'b', "libbrotli-dev", 0, 11, 6, 30, brotli_functions()},
      CodecTraits{Codec::zstd, "zstd", 'z', "libzstd-dev", -131072, 22, 3, 31, zstd_functions()},
      CodecTraits{Codec::snappy, "snappy", 's', "libsnappy-dev", 1, 2, 1, 0, snappy_functions()}};
  return all;
}

const CodecTraits& traits(Codec codec) noexcept {
  return codecs()[static_cast<std::size_t>(codec)];
}

std::string_view name(Codec codec) noexcept {
  return traits(codec).name;
}

bool is_built_in(Codec codec) noexcept {
  return codec == Codec::none || traits(codec).functions.pack != nullptr;
}

std::string missing(const CodecTraits& codec) {
  return fmt::format("this library was built without {}; install {} and build it again", codec.name,
                     codec.package);
}

void check(const RecordOptions& options) {
  const CodecTraits& codec = traits(options.codec);
  if (options.level && (options.codec == Codec::none || *options.level < codec.least_level ||
                        *options.level > codec.most_level)) {
    throw Error(Errc::invalid_argument,
                options.codec == Codec::none
                    ? fmt::format("level {}: 'uncompressed' has none", *options.level)
                    : fmt::format("'{}:{}': its levels are {} to {}", codec.name, *options.level,
                                  codec.least_level, codec.most_level));
  }
  if (options.window_log &&
      (*options.window_log < kLeastWindowLog || *options.window_log > codec.most_window_log)) {
    throw Error(Errc::invalid_argument,
                codec.most_window_log == 0
                    ? fmt::format("'window_log:{}': '{}' has no window", *options.window_log, codec.name)
                    : fmt::format("'window_log:{}': that of {} is {} to {}", *options.window_log, codec.name,
                                  kLeastWindowLog, codec.most_window_log));
  }
  if (!is_built_in(options.codec)) {
    throw Error(Errc::feature_missing, fmt::format("option '{}': {}", codec.name, missing(codec)));
  }
  if (options.codec == Codec::snappy && options.level.value_or(1) != 1) {
    throw Error(Errc::feature_missing, "option 'snappy:2': this library packs with level 1 only");
  }
}

}  // namespace cairn::records
