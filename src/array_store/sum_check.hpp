// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "cairn/staging/pieces.hpp"

namespace cairn::array_store {

/// Compares the bytes of a range with their CRC-32. They come in parts, in any order: what each adds to the sum does
/// not depend on the others.
class SumCheck final : public ByteCheck {
 public:
  /// `refuse` is called by whoever brings the last bytes, when the sum is another.
  SumCheck(std::uint64_t begin_bytes, std::uint64_t end_bytes, std::uint32_t crc32,
           std::function<void()> refuse)
      : end_bytes_(end_bytes), crc32_(crc32), refuse_(std::move(refuse)), missing_(end_bytes - begin_bytes) {}

  void take(std::uint64_t offset_bytes, std::span<const std::byte> bytes) override;

 private:
  const std::uint64_t end_bytes_;
  const std::uint32_t crc32_;
  const std::function<void()> refuse_;
  std::atomic<std::uint32_t> sum_{0};
  std::atomic<std::uint64_t> missing_;
};

}  // namespace cairn::array_store
