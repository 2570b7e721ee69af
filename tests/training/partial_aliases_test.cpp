// SPDX-License-Identifier: Apache-2.0
// Arrays with several names in checkpoints that are put together part by part.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/load.hpp"
#include "cairn/training/partial_save.hpp"

#include "support/fails.hpp"
#include "training/parts_fixture.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::PartialSaves;

TEST_F(PartialSaves, KeepArraysWithSeveralNames) {
  const Array array = Array::adopt(values(1));
  const auto save_all = [&](PartialSave& save) {
    save.add({{"state", Tree{{"embed", array}, {"head", array}}}});
    save.add({{"state", layer(1)}});
  };
  PartialSave save = partial();
  save_all(save);
  const auto refused = [&](const Tree& tree, const char* why) {
    EXPECT_THAT([&] { save.add({{"state", tree}}); }, Fails(Errc::already_exists, HasSubstr(why)));
  };

  refused({{"head", values(2)}}, "'state': 'head' of part 2 is also 'head' (an alias of 'embed') of part 0");
  refused({{"a", array}, {"embed", array}}, "'embed' (an alias of 'a') of part 2 is also 'embed' of part 0");
  refused({{"head", {{"x", 1}}}},
          "'head/x' of part 2 lies above or below 'head' (an alias of 'embed') of part 0");
  save.finalize();

  const CheckpointMetadata metadata = checkpointables_metadata(target(), *context_);
  const Description description = metadata.at("state").description();
  std::vector<std::string> aliases;
  for (const ArrayEntry& entry : description.arrays) {
    if (!entry.alias_of.empty()) {
      aliases.emplace_back(entry.name);
    }
  }
  EXPECT_THAT(aliases, ElementsAre("head"));
  EXPECT_EQ(load_items().take<Tree>("state").at("head").as<Array>(), array);
}

}  // namespace
}  // namespace cairn
