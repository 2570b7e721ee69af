// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>

#include <brotli/decode.h>
#include <brotli/encode.h>

#include "records/codec.hpp"

namespace cairn::records {
namespace {

constexpr int kBrotliLevel = 6;

void require_set(BROTLI_BOOL result) {
  if (result == BROTLI_FALSE) {
    throw std::bad_alloc();  // Options are checked before, so nothing else can be wrong.
  }
}

void pack_brotli(const RecordOptions& options, std::span<const Bytes> fragments, std::uint64_t bytes,
                 std::string& out) {
  const std::unique_ptr<BrotliEncoderState, decltype(&BrotliEncoderDestroyInstance)> encoder(
      BrotliEncoderCreateInstance(nullptr, nullptr, nullptr), &BrotliEncoderDestroyInstance);
  if (!encoder) {
    throw std::bad_alloc();
  }
  const auto set = [&](BrotliEncoderParameter parameter, std::uint64_t value) {
    require_set(BrotliEncoderSetParameter(encoder.get(), parameter, static_cast<std::uint32_t>(value)));
  };
  const int window_log = options.window_log.value_or(BROTLI_DEFAULT_WINDOW);
  set(BROTLI_PARAM_QUALITY, static_cast<std::uint64_t>(options.level.value_or(kBrotliLevel)));
  set(BROTLI_PARAM_LARGE_WINDOW, window_log > BROTLI_MAX_WINDOW_BITS ? 1 : 0);
  set(BROTLI_PARAM_LGWIN, static_cast<std::uint64_t>(window_log));
  set(BROTLI_PARAM_SIZE_HINT, std::min<std::uint64_t>(bytes, UINT32_MAX));
  const auto step = [&](BrotliEncoderOperation operation, Bytes fragment) {
    std::size_t left = fragment.size();
    const auto* next = reinterpret_cast<const std::uint8_t*>(fragment.data());
    const bool is_end = operation == BROTLI_OPERATION_FINISH;
    while (left > 0 || BrotliEncoderHasMoreOutput(encoder.get()) != 0 ||
           (is_end && BrotliEncoderIsFinished(encoder.get()) == 0)) {
      std::size_t no_room = 0;
      require_set(
          BrotliEncoderCompressStream(encoder.get(), operation, &left, &next, &no_room, nullptr, nullptr));
      std::size_t taken = 0;
      const std::uint8_t* made = BrotliEncoderTakeOutput(encoder.get(), &taken);
      out.append(reinterpret_cast<const char*>(made), taken);
    }
  };
  for (const Bytes fragment : fragments) {
    step(BROTLI_OPERATION_PROCESS, fragment);
  }
  step(BROTLI_OPERATION_FINISH, {});
}

bool unpack_brotli(Bytes packed, UnpackedBytes& out) {
  const std::unique_ptr<BrotliDecoderState, decltype(&BrotliDecoderDestroyInstance)> decoder(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), &BrotliDecoderDestroyInstance);
  if (!decoder || BrotliDecoderSetParameter(decoder.get(), BROTLI_DECODER_PARAM_LARGE_WINDOW, 1) == 0) {
    throw std::bad_alloc();
  }
  std::size_t left = packed.size();
  const auto* next = reinterpret_cast<const std::uint8_t*>(packed.data());
  while (true) {
    const std::span<char> room = out.room();
    std::size_t free = room.size();
    auto* place = reinterpret_cast<std::uint8_t*>(room.data());
    const BrotliDecoderResult result =
        BrotliDecoderDecompressStream(decoder.get(), &left, &next, &free, &place, nullptr);
    out.came(room.size() - free);
    if (result != BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT || room.empty()) {
      return result == BROTLI_DECODER_RESULT_SUCCESS && left == 0;
    }
  }
}

}  // namespace

CodecFunctions brotli_functions() noexcept {
  return {pack_brotli, unpack_brotli};
}

}  // namespace cairn::records
