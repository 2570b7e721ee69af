// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <memory>

#include <zstd.h>

#include "records/codec.hpp"

namespace cairn::records {
namespace {

constexpr int kUsualWindowLog = 27;  // What zstd itself accepts unless told otherwise.
constexpr int kMostWindowLog = 31;

std::size_t require_good(std::size_t result) {
  require_memory(ZSTD_isError(result) == 0);
  return result;
}

void pack_zstd(const RecordOptions& options, std::span<const Bytes> fragments, std::uint64_t bytes,
               std::string& out) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  require_memory(context != nullptr);
  require_good(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, *options.level));
  require_good(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, options.window_log.value_or(0)));
  require_good(ZSTD_CCtx_setPledgedSrcSize(context.get(), bytes));
  const std::size_t step_bytes = std::min(ZSTD_CStreamOutSize(), ZSTD_compressBound(bytes));
  std::size_t end = out.size();
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    const ZSTD_EndDirective directive = i + 1 < fragments.size() ? ZSTD_e_continue : ZSTD_e_end;
    ZSTD_inBuffer in{fragments[i].data(), fragments[i].size(), 0};
    std::size_t left = 0;
    do {
      if (out.size() - end < step_bytes) {
        out.resize(end + step_bytes);
      }
      ZSTD_outBuffer made{out.data() + end, out.size() - end, 0};
      left = require_good(ZSTD_compressStream2(context.get(), &made, &in, directive));
      end += made.pos;
    } while (in.pos < in.size || (directive == ZSTD_e_end && left > 0));
  }
  out.resize(end);
}

bool unpack_zstd(Bytes packed, UnpackedBytes& out) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  require_memory(context != nullptr);
  // A window that is larger than what is unpacked makes sense only as long as it costs little.
  const int needed = static_cast<int>(std::bit_width(out.bytes()));
  require_good(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax,
                                      std::clamp(needed, kUsualWindowLog, kMostWindowLog)));
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  while (true) {
    const std::span<char> room = out.room();
    ZSTD_outBuffer made{room.data(), room.size(), 0};
    const std::size_t before = in.pos;
    const std::size_t left = ZSTD_decompressStream(context.get(), &made, &in);
    if (ZSTD_isError(left) != 0) {
      return false;
    }
    out.came(made.pos);
    if (left == 0 && in.pos == in.size) {
      return true;  // The last frame is complete; there may be several.
    }
    if (made.pos == 0 && in.pos == before) {
      return false;  // It ends early, or would give more than was claimed.
    }
  }
}

}  // namespace

CodecFunctions zstd_functions() noexcept {
  return {pack_zstd, unpack_zstd};
}

}  // namespace cairn::records
