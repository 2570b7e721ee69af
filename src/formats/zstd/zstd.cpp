// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/zstd.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <new>

#include <fmt/format.h>
#include <zstd.h>

#include "cairn/base/error.hpp"

namespace cairn::formats {
namespace {

/// Windows of those levels that programs use; larger ones only where as much is unpacked.
constexpr int kUsualWindowLog = 23;
constexpr int kMostWindowLog = 31;

}  // namespace

bool can_read_zstd() noexcept {
  return true;
}

std::vector<std::byte> unpack_zstd(std::span<const std::byte> packed, std::uint64_t most_bytes,
                                   std::string_view name) {
  const auto refuse = [name](std::string_view why) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: zstd: {}", name, why));
  };
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  if (context == nullptr) {
    throw std::bad_alloc();
  }
  const int needed = static_cast<int>(std::bit_width(most_bytes));
  static_cast<void>(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax,
                                           std::clamp(needed, kUsualWindowLog, kMostWindowLog)));
  std::vector<std::byte> bytes;
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  std::size_t done = 0;
  std::size_t left = 1;  // Of a frame: it ends at 0.
  while (in.pos < in.size || left != 0) {
    if (done == bytes.size()) {
      const std::uint64_t grown = std::min<std::uint64_t>(most_bytes, 2 * done + 4 * packed.size() + 4096);
      bytes.resize(static_cast<std::size_t>(grown));
    }
    ZSTD_outBuffer out{bytes.data() + done, bytes.size() - done, 0};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0) {
      refuse(ZSTD_getErrorName(left));
    }
    done += out.pos;
    if (in.pos == before && out.pos == 0 && left != 0) {
      refuse(done == most_bytes ? fmt::format("it is more than the {} bytes that were expected", most_bytes)
                                : "it ends within a frame");
    }
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace cairn::formats
