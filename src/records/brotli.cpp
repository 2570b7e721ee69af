// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <brotli/decode.h>
#include <brotli/encode.h>

#include "records/codec.hpp"

namespace cairn::records {
namespace {

void pack_brotli(const RecordOptions& options, std::span<const Bytes> fragments, std::uint64_t bytes,
                 std::string& out) {
  const std::unique_ptr<BrotliEncoderState, decltype(&BrotliEncoderDestroyInstance)> encoder(
      BrotliEncoderCreateInstance(nullptr, nullptr, nullptr), &BrotliEncoderDestroyInstance);
  require_memory(encoder != nullptr);
  const auto set = [&](BrotliEncoderParameter parameter, std::uint64_t value) {
    require_memory(BrotliEncoderSetParameter(encoder.get(), parameter, static_cast<std::uint32_t>(value)) !=
                   0);
  };
  const int window_log = options.window_log.value_or(BROTLI_DEFAULT_WINDOW);
  set(BROTLI_PARAM_QUALITY, static_cast<std::uint64_t>(*options.level));
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
      require_memory(BrotliEncoderCompressStream(encoder.get(), operation, &left, &next, &no_room, nullptr,
                                                 nullptr) != 0);
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
  require_memory(decoder != nullptr);
  require_memory(BrotliDecoderSetParameter(decoder.get(), BROTLI_DECODER_PARAM_LARGE_WINDOW, 1) != 0);
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
