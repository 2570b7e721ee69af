// SPDX-License-Identifier: Apache-2.0
#include "store/internal/uuid.hpp"

#include <algorithm>

#include <gmock/gmock.h>

namespace cairn::store {
namespace {

void all_ones(std::span<std::byte> bytes) {
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
}

TEST(Uuid, CarriesItsVersionAndVariant) {
  EXPECT_EQ(to_string(make_uuid(all_ones)), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

TEST(Uuid, SurvivesItsText) {
  const Uuid uuid = make_uuid(system_random);

  EXPECT_EQ(parse_uuid(to_string(uuid)), uuid);
}

TEST(Uuid, TwoAreNotTheSame) {
  EXPECT_NE(make_uuid(system_random), make_uuid(system_random));
}

TEST(ParseUuid, RefusesOtherTexts) {
  for (const char* text : {"", "ffffffff-ffff-4fff-bfff-fffffffffff", "ffffffff-ffff-4fff-bfff-fffffffffffff",
                           "FFFFFFFF-ffff-4fff-bfff-ffffffffffff", "ffffffffffffff-4fff-bfff-ffffffffffff",
                           "gfffffff-ffff-4fff-bfff-ffffffffffff", "ffffffff+ffff-4fff-bfff-ffffffffffff"}) {
    EXPECT_EQ(parse_uuid(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn::store
