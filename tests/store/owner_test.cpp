// SPDX-License-Identifier: Apache-2.0
#include "store/owner.hpp"

#include <string>

#include <gmock/gmock.h>

#include "store/internal/uuid.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

TEST(Owner, SurvivesItsText) {
  const Owner owner = this_process(make_uuid(system_random));

  EXPECT_EQ(parse_owner(encode_owner(owner)), owner);
  EXPECT_NE(owner.start_time, 0u);
  EXPECT_NE(owner.boot_id, "");
}

TEST(ParseOwner, RefusesOtherTexts) {
  const std::string good = encode_owner(this_process(make_uuid(system_random)));

  EXPECT_EQ(parse_owner(""), std::nullopt);
  EXPECT_EQ(parse_owner("alice"), std::nullopt);
  EXPECT_EQ(parse_owner(good.substr(0, good.size() - 1)), std::nullopt);
  EXPECT_EQ(parse_owner(good + "x"), std::nullopt);
  EXPECT_EQ(parse_owner("cairn-owner 2" + good.substr(13)), std::nullopt);
}

TEST(ParseOwner, RefusesNumbersThatNobodyWritesSo) {
  Owner owner = this_process(make_uuid(system_random));
  owner.pid = 12;
  std::string text = encode_owner(owner);
  text.replace(text.find("pid 12"), 6, "pid 012");

  EXPECT_EQ(parse_owner(text), std::nullopt);
}

TEST(IsGone, KnowsThisProcessAlive) {
  EXPECT_FALSE(is_gone(this_process({})));
}

TEST(IsGone, KnowsAnotherBoot) {
  Owner owner = this_process({});
  owner.boot_id = "another";

  EXPECT_TRUE(is_gone(owner));
}

TEST(IsGone, KnowsAReusedPid) {
  Owner owner = this_process({});
  ++owner.start_time;

  EXPECT_TRUE(is_gone(owner));
}

TEST(IsGone, TrustsNothingAboutAnotherHost) {
  Owner owner = this_process({});
  owner.host += "-other";
  owner.boot_id = "another";

  EXPECT_FALSE(is_gone(owner));
}

TEST(ReservedKind, NeedsAPrefixANameAndAUuid) {
  const Uuid uuid = make_uuid(system_random);

  EXPECT_EQ(reserved_kind(temporary_name("step", uuid)), ReservedKind::temporary);
  EXPECT_EQ(reserved_kind(trash_name("step", uuid)), ReservedKind::trash);
  EXPECT_EQ(reserved_kind(".tmp-step"), std::nullopt);
  EXPECT_EQ(reserved_kind(".tmp--" + to_string(uuid)), std::nullopt);
  EXPECT_EQ(reserved_kind("step-" + to_string(uuid)), std::nullopt);
  EXPECT_EQ(reserved_kind(temporary_name("step", uuid) + "~"), std::nullopt);
}

TEST(ParseGeneration, SplitsOnlyWhatItMade) {
  EXPECT_EQ(parse_generation(generation_name("step.5", 12)).base, "step.5");
  EXPECT_EQ(parse_generation(generation_name("step.5", 12)).generation, 12u);
  for (const char* name :
       {"step", "step.g", "step.g1", "step.g02", "step.gx", "step.g2x", ".g2", "step.g99999999999"}) {
    EXPECT_EQ(parse_generation(name).base, name);
    EXPECT_EQ(parse_generation(name).generation, 1u) << name;
  }
}

}  // namespace
}  // namespace cairn::store
