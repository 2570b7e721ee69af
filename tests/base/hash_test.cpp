// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/hash.hpp"

#include <optional>
#include <string>

#include <gmock/gmock.h>

namespace cairn {
namespace {

// The value for the empty input that the reference implementation documents.
TEST(HashBytes, IsXxh3) {
  EXPECT_EQ(to_hex(hash_bytes({})), "99aa06d3014798d86001c324468d497f");
}

TEST(ParseHash, ReadsWhatToHexWrites) {
  const Hash128 hash{0x0123456789abcdef, 42};

  EXPECT_EQ(parse_hash(to_hex(hash)), hash);
}

TEST(ParseHash, RefusesOtherTexts) {
  for (const std::string text : {"", "99aa06d3014798d86001c324468d497", "99AA06d3014798d86001c324468d497f",
                                 "99aa06d3014798d86001c324468d497f0", "99aa06d3014798d8 001c324468d497f"}) {
    EXPECT_EQ(parse_hash(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn
