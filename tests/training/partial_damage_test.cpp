// SPDX-License-Identifier: Apache-2.0
// Parts that are damaged, missing, left over or none of ours.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "cairn/api/maintain.hpp"
#include "cairn/api/save.hpp"

#include "support/fails.hpp"
#include "training/parts_fixture.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::PartialSaves;

TEST_F(PartialSaves, AreLeftOverOnceTheirCheckpointIsThere) {
  partial().add({{"state", layer(0)}});
  std::filesystem::copy(parts(), directory_ / "copy", std::filesystem::copy_options::recursive);
  partial().finalize();
  std::filesystem::rename(directory_ / "copy", parts());  // As a crash before their removal leaves them.

  const store::RecoveryReport report = recover(directory_.path(), {}, *context_);

  ASSERT_EQ(report.entries.size(), 2u);
  EXPECT_EQ(report.entries[0].name, ".partial-checkpoint");
  EXPECT_THAT(report.entries[0].note, HasSubstr("parts beside 'checkpoint'"));
  EXPECT_THAT([&] { partial().add({{"state", layer(1)}}); }, Fails(Errc::already_exists));
  PartialSave::abandon(target(), *context_);
  EXPECT_THAT(left(), Not(Contains(HasSubstr("partial"))));
  EXPECT_THAT([&] { static_cast<void>(partial()); },
              Fails(Errc::already_exists, HasSubstr("it was made of parts, and is finished")));
  expect_layers(1);
}

TEST_F(PartialSaves, AreRefusedWhereAPartIsNoneOfOurs) {
  partial().add({{"state", layer(0)}});
  cairn::save(directory_ / "made", tree_, {}, *context_);
  std::filesystem::rename(directory_ / "made", parts() / "part-00001");

  EXPECT_THAT([&] { static_cast<void>(partial()); },
              Fails(Errc::malformed_metadata, HasSubstr("part-00001 is not part 1 of a checkpoint")));
}

TEST_F(PartialSaves, AreRefusedWhereAPartIsMissing) {
  PartialSave save = partial();
  for (int number = 0; number < 3; ++number) {
    save.add({{"state", layer(number)}});
  }
  const auto is_refused = [](const char* missing, const char* there) {
    return Fails(Errc::malformed_metadata,
                 AllOf(HasSubstr(".partial-checkpoint"), HasSubstr(std::string(missing) + " is missing"),
                       HasSubstr(std::string(there) + " is there")));
  };
  for (const char* missing : {"part-00001", "part-00000"}) {
    const char* const there = missing == std::string("part-00000") ? "part-00001" : "part-00002";
    std::filesystem::rename(parts() / missing, directory_ / "aside");

    EXPECT_THAT([&] { static_cast<void>(partial()); }, is_refused(missing, there));
    if (missing == std::string("part-00000")) {  // Of those between `add` looks at none.
      EXPECT_THAT([&] { save.add({{"state", layer(3)}}); }, is_refused(missing, there));
    }
    EXPECT_THAT([&] { save.finalize(); }, is_refused(missing, there));

    std::filesystem::rename(directory_ / "aside", parts() / missing);
  }
  partial().finalize();
  expect_layers(3);
}

TEST_F(PartialSaves, AreAbandonedAlsoWhereOneIsDamagedOrMissing) {
  for (const int damage : {1, 2}) {
    PartialSave save = partial();
    save.add({{"state", layer(0)}});
    save.add({{"state", layer(1)}});
    if (damage == 1) {
      std::filesystem::remove(parts() / "part-00000" / "COMMIT");
    } else {
      std::filesystem::remove_all(parts() / "part-00000");
    }
    EXPECT_THAT([&] { static_cast<void>(partial()); },
                AnyOf(Fails(Errc::checksum_mismatch), Fails(Errc::malformed_metadata),
                      Fails(Errc::not_committed), Fails(Errc::not_found)));

    EXPECT_THAT(PartialSave::abandon(target(), *context_).kept, IsEmpty());

    EXPECT_THAT(left(), IsEmpty()) << damage;
  }
  PartialSave::abandon(target(), *context_);  // There is nothing.
}

TEST_F(PartialSaves, LeaveAPartWhoseFilesNobodyKnowsWhenTheyAreAbandoned) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  save.add({{"state", layer(1)}});
  testing::write_text(parts() / "part-00001" / "checkpoint.json", "{");

  EXPECT_THAT(PartialSave::abandon(target(), *context_).kept,
              ElementsAre(AllOf(HasSubstr(parts().string()),
                                HasSubstr("nothing says that Cairn has written it: 'part-00001'"))));

  EXPECT_FALSE(std::filesystem::exists(parts() / "part-00000"));
  EXPECT_TRUE(std::filesystem::exists(parts() / "part-00001" / "state" / "index.fb"));
}

TEST_F(PartialSaves, AddNothingOnceTheTargetIsThere) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  cairn::save(target(), tree_, {}, *context_);

  EXPECT_THAT([&] { save.add({{"state", layer(1)}}); }, Fails(Errc::already_exists, HasSubstr("checkpoint")));

  EXPECT_EQ(save.parts(), 1u);
  remove_checkpoint(target(), {}, *context_);
  PartialSave first = partial();
  PartialSave second = partial();
  first.add({{"state", layer(1)}});
  first.finalize();
  EXPECT_THAT([&] { second.add({{"state", layer(2)}}); }, Fails(Errc::closed, HasSubstr("finalized")));
  EXPECT_THAT(left(), Not(Contains(HasSubstr("partial"))));
  expect_layers(2);
}

TEST_F(PartialSaves, AreNotMadeOfADamagedPart) {
  for (const int damage : {0, 1, 2, 3}) {
    PartialSaveOptions options;
    options.overwrite = true;
    PartialSave save = partial(options);
    save.add({{"state", layer(0)}});
    save.add({{"state", layer(1)}});
    const std::filesystem::path state = parts() / "part-00001" / "state";
    const std::filesystem::path data = state / "data-r00001-000.safetensors";
    const std::string saved = testing::read_text(data);
    const std::string index = testing::read_text(state / "index.fb");
    if (damage == 0) {
      std::filesystem::remove(data);
    } else if (damage == 1) {
      testing::write_text(data, saved.substr(1));
    } else if (damage == 2) {
      std::filesystem::remove(data);
      std::filesystem::create_symlink("/etc/passwd", data);
    } else {
      std::string altered = index;
      altered[altered.size() / 2] ^= 1;
      testing::write_text(state / "index.fb", altered);
    }

    EXPECT_THAT([&] { save.finalize(); }, AnyOf(Fails(Errc::not_found, HasSubstr("part-00001")),
                                                Fails(Errc::checksum_mismatch, HasSubstr("part-00001")),
                                                Fails(Errc::malformed_metadata, HasSubstr("part-00001"))));

    EXPECT_THAT(left(), Not(Contains("checkpoint")));
    std::filesystem::remove(data);
    testing::write_text(data, saved);
    testing::write_text(state / "index.fb", index);
    save.finalize();
    expect_layers(2);
    remove_checkpoint(target(), {}, *context_);
  }
}

}  // namespace
}  // namespace cairn
