// SPDX-License-Identifier: Apache-2.0
#include "array_store/sum_check.hpp"

#include "formats/internal/zip.hpp"

namespace cairn::array_store {

void SumCheck::take(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const std::uint64_t behind = end_bytes_ - offset_bytes - bytes.size();
  sum_ ^= formats::shift_crc32(formats::update_crc32(0, bytes), behind);
  // The part is in the sum before it is counted: whoever counts the last one sees all.
  if (missing_.fetch_sub(bytes.size()) == bytes.size() && sum_ != crc32_) {
    refuse_();
  }
}

}  // namespace cairn::array_store
