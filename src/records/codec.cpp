// SPDX-License-Identifier: Apache-2.0
#include "records/codec.hpp"

#include <array>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::records {
namespace {

constexpr int kLeastWindowLog = 10;

void require_within(std::string_view what, int value, int least, int most) {
  if (value < least || value > most) {
    throw Error(Errc::invalid_argument,
                least > most ? fmt::format("option '{}:{}': the codec has none", what, value)
                             : fmt::format("option '{}:{}': it is {} to {}", what, value, least, most));
  }
}

}  // namespace

std::span<const CodecTraits> codecs() noexcept {
  static const std::array<CodecTraits, 4> all = {
      CodecTraits{Codec::none, "uncompressed", '\0', "", 1, 0, 0, 0, {}},
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

std::string missing(Codec codec) {
  return fmt::format("this library was built without {}; install {} and build it again", name(codec),
                     traits(codec).package);
}

RecordOptions checked(RecordOptions options) {
  require_hash();
  const CodecTraits& codec = traits(options.codec);
  if (options.level) {
    require_within(codec.name, *options.level, codec.least_level, codec.most_level);
  }
  if (options.window_log) {
    require_within("window_log", *options.window_log, kLeastWindowLog, codec.most_window_log);
  }
  if (!is_built_in(options.codec)) {
    throw Error(Errc::feature_missing, fmt::format("option '{}': {}", codec.name, missing(options.codec)));
  }
  options.level = options.level.value_or(codec.default_level);
  if (options.codec == Codec::snappy && options.level != 1) {
    throw Error(Errc::feature_missing, "option 'snappy:2': this library packs with level 1 only");
  }
  return options;
}

}  // namespace cairn::records
