// SPDX-License-Identifier: Apache-2.0
#include "store/internal/uuid.hpp"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <stdexcept>

#include <boost/uuid/string_generator.hpp>
#include <boost/uuid/uuid.hpp>
#include <boost/uuid/uuid_io.hpp>

#include "cairn/base/error.hpp"

namespace cairn::store {
void system_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t filled = ::getrandom(bytes.data(), bytes.size(), 0);
    if (filled < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno(errno, "getrandom", "");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(filled));
  }
}

Uuid make_uuid(const RandomSource& random) {
  Uuid uuid;
  random(uuid.bytes);
  uuid.bytes[6] = (uuid.bytes[6] & std::byte{0x0f}) | std::byte{0x40};  // Version 4: random.
  uuid.bytes[8] = (uuid.bytes[8] & std::byte{0x3f}) | std::byte{0x80};  // The variant of RFC 4122.
  return uuid;
}

std::string to_string(const Uuid& uuid) {
  return boost::uuids::to_string(std::bit_cast<boost::uuids::uuid>(uuid.bytes));
}

std::optional<Uuid> parse_uuid(std::string_view text) {
  constexpr std::size_t kChars =
      36;  // Of the generator's other forms none has so many, but it takes capitals, too.
  if (text.size() != kChars || text.find_first_of("ABCDEF") != std::string_view::npos) {
    return std::nullopt;
  }
  try {
    const boost::uuids::uuid uuid = boost::uuids::string_generator()(text.begin(), text.end());
    return Uuid{std::bit_cast<std::array<std::byte, 16>>(uuid)};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace cairn::store
