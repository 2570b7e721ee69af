// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/internal/stream_copy.hpp"

namespace cairn {

StreamCopies::~StreamCopies() = default;

void StreamCopies::add(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  StreamCopies().add(to, from, bytes);
}

}  // namespace cairn
