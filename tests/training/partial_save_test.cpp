// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are put together part by part.
#include "cairn/training/partial_save.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cairn/api/find.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/api/save.hpp"
#include "cairn/handlers/json.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "api/scripted.hpp"
#include "support/fails.hpp"
#include "training/parts_fixture.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::PartialSaves;
using ::testing::StartsWith;

TEST_F(PartialSaves, ArePutTogether) {
  const nlohmann::json config = {{"layers", 3}};
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  save.add({{"state", layer(1)}, {"config", config}});
  save.add({{"state", layer(2)}});
  EXPECT_EQ(save.parts(), 3u);

  save.finalize();

  expect_layers(3);
  EXPECT_EQ(load_items().take<nlohmann::json>("config"), config);
  EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  EXPECT_THAT(left(), Not(Contains(HasSubstr("partial"))));
}

TEST_F(PartialSaves, AreNobodysCheckpointBeforeTheEnd) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});

  EXPECT_THAT(list_checkpoints(directory_.path(), {}, *context_), IsEmpty());
  EXPECT_THAT([&] { static_cast<void>(load_items()); }, Fails(Errc::not_found));
  EXPECT_FALSE(load_latest(directory_.path(), {}, {}, *context_).has_value());
}

TEST_F(PartialSaves, AreNamedByRecovery) {
  partial().add({{"state", layer(0)}});

  const store::RecoveryReport report = recover(directory_.path(), {}, *context_);

  ASSERT_EQ(report.entries.size(), 1u);
  EXPECT_EQ(report.entries[0].name, ".partial-checkpoint");
  EXPECT_EQ(report.entries[0].action, store::RecoveryAction::keep);
  EXPECT_THAT(report.entries[0].note, HasSubstr("parts of a checkpoint that was not finalized"));
  partial().finalize();
  expect_layers(1);
}

TEST_F(PartialSaves, GoOnInAnotherProgram) {
  partial().add({{"state", layer(0)}});
  PartialSave first = partial();
  PartialSave second = partial();
  EXPECT_EQ(second.parts(), 1u);
  second.add({{"state", layer(1)}});

  first.add({{"state", layer(2)}});

  EXPECT_EQ(first.parts(), 3u);
  first.finalize();
  expect_layers(3);
}

TEST_F(PartialSaves, MayHaveLeavesOfOneListInOnePart) {
  PartialSave save = partial();
  save.add({{"state", Tree{{"losses", Tree::list({1.0, 2.0})}}}});
  EXPECT_THAT(
      [&] {
        save.add({{"state", Tree{{"losses", Tree::list({3.0})}}}});
      },
      Fails(Errc::already_exists, HasSubstr("'losses' of part 1 is also 'losses' of part 0")));
  save.add({{"state", layer(0)}});
  save.finalize();

  EXPECT_EQ(load_items().take<Tree>("state").at("losses").size(), 2u);
}

TEST_F(PartialSaves, NameTheCheckpointAndThePartWhereAHandlerFails) {
  using testing::Act;
  using testing::Script;
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  SaveOptions options;
  options.registry.add<testing::ScriptedHandler>();

  for (const Script& script :
       {Script(Act::throw_standard, Act::pass), Script(Act::pass, Act::throw_standard)}) {
    EXPECT_THAT(
        [&] {
          save.add({{"broken", script}}, options);
        },
        Fails(Errc::handler_failed, StartsWith("part 1 of " + target().string() +
                                               ": 'broken' (handler test.scripted/1): out of luck")));
  }
}

TEST_F(PartialSaves, RefuseWhatAnotherPartHas) {
  PartialSave save = partial();
  save.add({{"state", Tree{{"a", {{"b", 1}}}, {"c", values(1)}}}, {"config", nlohmann::json(1)}});
  save.add({{"state", Tree{{"d", 1}}}});
  const auto refused = [&](Tree tree, const char* why) {
    EXPECT_THAT(
        [&] {
          save.add({{"state", tree}, {"other", tree}});
        },
        Fails(Errc::already_exists, HasSubstr(why)));
  };

  refused({{"a", {{"b", 2}}}}, "'state': 'a/b' of part 2 is also 'a/b' of part 0");
  refused({{"a", 2}}, "'state': 'a' of part 2 lies above or below 'a/b' of part 0");
  refused({{"d", {{"e", {{"f", 2}}}}}}, "'state': 'd/e/f' of part 2 lies above or below 'd' of part 1");
  refused({{"e", 1}, {"c", values(2)}}, "'state': 'c' of part 2 is also 'c' of part 0");
  refused(2, "'state': the root of part 2 lies above or below");
  EXPECT_THAT(
      [&] {
        save.add({{"config", nlohmann::json(2)}});
      },
      Fails(Errc::already_exists,
            AllOf(HasSubstr("'config' of part 2 (cairn.json/1)"), HasSubstr("in part 0 (cairn.json/1)"))));
  EXPECT_THAT(
      [&] {
        save.add({{"config", layer(0)}});
      },
      Fails(Errc::already_exists, HasSubstr("'config' of part 2 (cairn.tree/1)")));

  EXPECT_EQ(save.parts(), 2u);
  EXPECT_FALSE(std::filesystem::exists(target().parent_path() / ".partial-checkpoint/part-00002"));
  save.add({{"state", layer(0)}, {"other", layer(1)}});
  save.finalize();
  const Tree state = load_items().take<Tree>("state");
  EXPECT_EQ(state.at("a/b").as<int>(), 1);
  EXPECT_EQ(state.at("d").as<int>(), 1);
  EXPECT_EQ(state.at("c").as<std::vector<float>>(), values(1));
}

TEST_F(PartialSaves, KeepTheMetadataOfAll) {
  PartialSave save = partial();
  const auto with = [](const char* metadata, const char* annotations = "{}") {
    SaveOptions options;
    options.custom_metadata = metadata;
    options.annotations = annotations;
    return options;
  };
  save.add({{"state", layer(0)}}, with(R"({"seed": 1, "who": "a"})", R"({"mine": {"x": 1}})"));
  save.add({{"state", layer(1)}}, with("null"));
  save.add({{"state", layer(2)}}, with(R"({"who": "b", "list": [1, {"k": null}]})", R"({"yours": {}})"));
  EXPECT_THAT(
      [&] {
        save.add({{"state", layer(3)}}, with("[1]"));
      },
      Fails(Errc::invalid_argument, HasSubstr("custom_metadata")));
  EXPECT_THAT([&] { save.add({{"state", layer(3)}}, with("{", "{}")); }, Fails(Errc::invalid_argument));
  EXPECT_THAT(
      [&] {
        save.add({{"state", layer(3)}}, with("{}", R"({"cairn.partial": {}})"));
      },
      Fails(Errc::invalid_argument, HasSubstr("'cairn.partial'")));

  save.finalize();

  const CheckpointMetadata metadata = checkpointables_metadata(target(), {}, *context_);
  EXPECT_EQ(nlohmann::json::parse(metadata.custom_metadata),
            nlohmann::json::parse(R"({"seed": 1, "who": "b", "list": [1, {"k": null}]})"));
  const nlohmann::json annotations = nlohmann::json::parse(metadata.annotations);
  EXPECT_EQ(annotations.at("mine"), nlohmann::json::parse(R"({"x": 1})"));
  EXPECT_TRUE(annotations.at("yours").is_object());
  EXPECT_EQ(annotations.at("cairn.partial").at("run"), "");
}

TEST_F(PartialSaves, WriteNoArrayAgain) {
  PartialSave save = partial();
  constexpr int kParts = 20;
  for (int number = 0; number < kParts; ++number) {
    const Tree part = {{"layer" + std::to_string(number), std::vector<float>(100'000, 1.0F)}};
    save.add({{"state", part}});
  }
  const std::uint64_t before = files_->written_bytes;

  save.finalize();

  EXPECT_GT(before, kParts * 400'000u);
  EXPECT_LT(files_->written_bytes - before, 40'000u);
  EXPECT_EQ(load_items().take<Tree>("state").size(), static_cast<std::size_t>(kParts));
}

TEST_F(PartialSaves, AreOver) {
  PartialSave save = partial();
  EXPECT_THAT([&] { save.finalize(); }, Fails(Errc::not_found, HasSubstr("checkpoint")));
  save.add({{"state", layer(0)}});
  save.finalize();

  EXPECT_THAT([&] { save.add({{"state", layer(1)}}); }, Fails(Errc::closed, HasSubstr("checkpoint")));
  EXPECT_THAT([&] { save.finalize(); }, Fails(Errc::closed));
  EXPECT_THAT([&] { save.abandon(); }, Fails(Errc::closed));
  EXPECT_THAT([&] { static_cast<void>(partial()); }, Fails(Errc::already_exists));
  expect_layers(1);
}

TEST_F(PartialSaves, AreAbandoned) {
  PartialSave save = partial();
  save.abandon();  // There is nothing.
  PartialSave other = partial();
  other.add({{"state", layer(0)}});

  other.abandon();

  EXPECT_EQ(other.parts(), 0u);
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_THAT([&] { other.add({{"state", layer(1)}}); }, Fails(Errc::closed));
}

TEST_F(PartialSaves, AreClosedOnceTheirPartsWereAbandoned) {
  PartialSaveOptions options;
  options.overwrite = true;
  PartialSave one = partial(options);
  one.add({{"state", layer(0)}});
  one.add({{"state", layer(1)}});
  PartialSave::abandon(target(), *context_);
  const auto is_told =
      Fails(Errc::closed, AllOf(HasSubstr("2 parts that this PartialSave had found or added are gone"),
                                HasSubstr("they were abandoned, or removed by hand")));
  EXPECT_THAT([&] { one.add({{"state", layer(2)}}); }, is_told);
  EXPECT_THAT(left(), IsEmpty());
  PartialSave other = partial(options);
  other.add({{"state", layer(3)}});

  EXPECT_THAT([&] { one.add({{"state", layer(2)}}); }, is_told);
  EXPECT_THAT([&] { one.finalize(); }, is_told);

  EXPECT_EQ(other.parts(), 1u);
  other.finalize();
  EXPECT_THAT([&] { one.finalize(); }, is_told);
}

TEST_F(PartialSaves, AreClosedOnceOthersStandInThePlaceOfTheirParts) {
  PartialSave one = partial();
  one.add({{"state", layer(0)}});
  PartialSave::abandon(target(), *context_);
  partial().add({{"state", layer(1)}});

  EXPECT_THAT([&] { one.finalize(); }, Fails(Errc::closed, HasSubstr("the last to work there was process " +
                                                                     std::to_string(::getpid()))));

  EXPECT_THAT(left(), Not(Contains("checkpoint")));
  partial().finalize();
}

TEST_F(PartialSaves, AreClosedOnceAnotherHasFinalizedTheirParts) {
  PartialSaveOptions options;
  options.overwrite = true;
  PartialSave one = partial(options);
  one.add({{"state", layer(0)}});
  one.add({{"state", layer(1)}});
  partial(options).finalize();
  const auto is_told = Fails(Errc::closed, HasSubstr("they were finalized: the checkpoint is made of them"));

  EXPECT_THAT([&] { one.add({{"state", layer(2)}}); }, is_told);
  EXPECT_THAT([&] { one.finalize(); }, is_told);

  expect_layers(2);
  EXPECT_THAT(left(), Not(Contains(HasSubstr("partial"))));
}

TEST_F(PartialSaves, AreClosedOnceTheirLastPartIsGone) {
  PartialSave one = partial();
  one.add({{"state", layer(0)}});
  one.add({{"state", layer(1)}});
  remove_checkpoint(parts() / "part-00001", {}, *context_);

  EXPECT_THAT([&] { one.finalize(); }, Fails(Errc::closed, HasSubstr("2 parts")));
}

TEST_F(PartialSaves, FinishWhenTheRemovalOfTheirPartsIsCalledAgain) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  files_->refused = testing::CallKind::unlink;
  EXPECT_THAT([&] { save.finalize(); }, FailsWithErrno(EIO, HasSubstr("checkpoint")));
  files_->refused = std::nullopt;

  save.finalize();

  expect_layers(1);
  EXPECT_THAT([&] { save.finalize(); }, Fails(Errc::closed));
}

TEST_F(PartialSaves, RefuseMetadataThatTheCheckpointCouldNotHold) {
  const auto with = [](char key, std::size_t mib) {
    SaveOptions options;
    options.custom_metadata = std::string("{\"") + key + "\": \"" + std::string(mib << 20, 'x') + "\"}";
    return options;
  };
  PartialSave save = partial();
  save.add({{"state", layer(0)}}, with('a', 9));

  EXPECT_THAT(
      [&] {
        save.add({{"state", layer(1)}}, with('b', 9));
      },
      Fails(Errc::invalid_argument, HasSubstr("the custom metadata of all parts together: 188")));

  EXPECT_EQ(save.parts(), 1u);
  save.add({{"state", layer(1)}}, with('a', 8));  // In place of the other.
  save.add({{"state", layer(2)}}, with('b', 7));
  save.finalize();
  expect_layers(3);
}

TEST_F(PartialSaves, LookAtThemOnceMoreThanASaveDoesToAddOne) {
  constexpr int kMany = 30;
  constexpr std::uint64_t kFew = 20;
  PartialSave save = partial();
  for (int number = 0; number < kMany; ++number) {
    save.add({{"state", layer(number)}});
    cairn::save(directory_ / "flat" / std::to_string(number), layer(number), {}, *context_);
  }
  const auto listed_by = [&](const auto& work) {
    const std::uint64_t before = files_->listed_names;
    work();
    return files_->listed_names - before;
  };

  const std::uint64_t of_add = listed_by([&] { save.add({{"state", layer(kMany)}}); });

  EXPECT_LE(of_add,
            listed_by([&] { cairn::save(directory_ / "flat" / "last", layer(kMany), {}, *context_); }) +
                kMany + kFew);
}

TEST_F(PartialSaves, ReplaceOnlyWhenTheyAreToldTo) {
  cairn::save(target(), tree_, {}, *context_);
  EXPECT_THAT([&] { static_cast<void>(partial()); }, Fails(Errc::already_exists));
  PartialSaveOptions options;
  options.overwrite = true;
  PartialSave save = partial(options);
  save.add({{"state", layer(0)}});
  EXPECT_EQ(load_items().take<Tree>("state").at("step").as<int>(), 7);

  save.finalize();

  expect_layers(1);
  EXPECT_THAT(left(), Not(Contains(HasSubstr("tmp"))));
}

TEST_F(PartialSaves, LeaveWhatCameBetween) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  cairn::save(target(), tree_, {}, *context_);

  EXPECT_THAT([&] { save.finalize(); }, Fails(Errc::already_exists));

  EXPECT_EQ(load_items().take<Tree>("state").at("step").as<int>(), 7);
  EXPECT_EQ(save.parts(), 1u);
  remove_checkpoint(target(), {}, *context_);
  save.finalize();
  expect_layers(1);
}

TEST_F(PartialSaves, AreOfOneRun) {
  PartialSaveOptions one;
  one.run = "one";
  partial(one).add({{"state", layer(0)}});

  EXPECT_THAT([&] { static_cast<void>(partial()); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'one'"), HasSubstr("not ''"))));
  PartialSaveOptions text;
  text.run = "\xff";
  EXPECT_THAT([&] { static_cast<void>(partial(text)); }, Fails(Errc::invalid_argument, HasSubstr("UTF-8")));
  partial(one).finalize();
}

TEST_F(PartialSaves, AreOfOneRank) {
  partial().add({{"state", layer(0)}});
  const std::string part = checkpointables_metadata(parts() / "part-00000", {}, *context_).annotations;
  std::filesystem::remove_all(parts() / "part-00000");
  const std::string failures = testing::failures_on_ranks(2, [&](const auto& coordinator) {
    ContextOptions options = small();
    options.coordinator = coordinator;
    const Context context(options);
    EXPECT_THAT([&] { PartialSave(target(), {}, context); },
                Fails(Errc::invalid_argument, HasSubstr("is of one rank")));
    SaveOptions as_part;
    as_part.annotations = part;
    const Tree same = layer(0);
    save_checkpointables(directory_ / "made", {{"state", same}}, as_part, context);
  });
  ASSERT_EQ(failures, "");
  std::filesystem::rename(directory_ / "made", parts() / "part-00000");

  EXPECT_THAT([&] { static_cast<void>(partial()); },
              Fails(Errc::invalid_argument, HasSubstr("part-00000 was saved by 2 ranks, not by one")));
}

TEST_F(PartialSaves, AreCopiedWhereHardLinksAreNotPermitted) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  files_->refused = testing::CallKind::link;
  files_->error = EPERM;

  save.finalize();

  expect_layers(1);
}

TEST_F(PartialSaves, LeaveNothingOfAFirstPartThatIsNotSaved) {
  PartialSave save = partial();
  EXPECT_THAT([&] { save.add({}); }, Fails(Errc::invalid_argument));
  EXPECT_THAT(left(), IsEmpty());
  save.add({{"state", layer(0)}});
  EXPECT_THAT([&] { save.add({}); }, Fails(Errc::invalid_argument));
  save.finalize();
  expect_layers(1);
}

TEST_F(PartialSaves, AreNotSavedIntoACheckpoint) {
  cairn::save(target(), tree_, {}, *context_);
  const std::vector<std::string> before = left();
  PartialSave save(target() / "inner", {}, *context_);

  EXPECT_THAT(
      [&] {
        save.add({{"state", layer(0)}});
      },
      Fails(Errc::invalid_argument, HasSubstr("lies in the checkpoint")));

  EXPECT_EQ(left(), before);
}

TEST_F(PartialSaves, HaveADirectoryThatNoCheckpointIsCalledAs) {
  EXPECT_THAT([&] { cairn::save(parts(), tree_, {}, *context_); },
              Fails(Errc::invalid_argument, HasSubstr("a name that Cairn reserves")));
}

TEST_F(PartialSaves, HaveADirectoryInWhichNothingElseIsSaved) {
  partial().add({{"state", layer(0)}});
  for (const char* below : {"mine", "part-00001", "deep/mine"}) {
    EXPECT_THAT(
        [&] { cairn::save(parts() / below, tree_, {}, *context_); },
        Fails(Errc::invalid_argument, HasSubstr("lies in a directory of parts (.partial-checkpoint)")));
    EXPECT_THAT([&] { PartialSave(parts() / below, {}, *context_); }, Fails(Errc::invalid_argument));
  }
  partial().finalize();
  expect_layers(1);
}

TEST_F(PartialSaves, AreLockedWhileSomebodyWorks) {
  partial().add({{"state", layer(0)}});
  files_->refused = testing::CallKind::lock;  // As if another had it.
  files_->error = EAGAIN;

  EXPECT_THAT([&] { static_cast<void>(partial()); },
              FailsWithErrno(EBUSY, HasSubstr(".partial-checkpoint: another program is at work")));
  files_->error = ENOLCK;  // A file system without locks.
  partial().finalize();
  expect_layers(1);
}

TEST_F(PartialSaves, AreAddedWhereTheProgramIsForkedMeanwhile) {
  PartialSave save = partial();
  files_->after_mark = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  };

  save.add({{"state", layer(0)}});

  EXPECT_FALSE(files_->after_mark);  // It was.
  const std::filesystem::directory_iterator in_parts(parts());
  EXPECT_EQ(std::distance(begin(in_parts), end(in_parts)), 2) << "more than the mark and a part";
  save.finalize();
  expect_layers(1);
}

TEST_F(PartialSaves, AreSavedIntoADirectoryThatIsMade) {
  PartialSave save(directory_ / "run" / "7", {}, *context_);
  save.add({{"state", layer(0)}});
  save.finalize();
  PartialSave deep(directory_ / "no" / "such" / "7", {}, *context_);
  EXPECT_THAT([&] { deep.add({{"state", layer(0)}}); }, Fails(Errc::not_found, HasSubstr("/no is missing")));
  SaveOptions two_levels;
  two_levels.create_parents = 2;
  deep.add({{"state", layer(0)}}, two_levels);
  deep.finalize();
  EXPECT_EQ(load(directory_ / "no" / "such" / "7", {}, *context_).at("layers").size(), 1u);
  EXPECT_THAT([&] { PartialSave("", {}, *context_); }, Fails(Errc::invalid_argument));
  EXPECT_EQ(load(directory_ / "run" / "7", {}, *context_).at("layers").size(), 1u);
}

TEST_F(PartialSaves, SayThatTheCurrentDirectoryIsGone) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(directory_ / "gone");
  std::filesystem::current_path(directory_ / "gone");
  std::filesystem::remove(directory_ / "gone");

  EXPECT_THAT([&] { PartialSave("x", {}, *context_); },
              FailsWithErrno(ENOENT, HasSubstr("the current directory")));
  EXPECT_THAT([&] { PartialSave::abandon("x", *context_); }, FailsWithErrno(ENOENT, HasSubstr("current")));

  std::filesystem::current_path(before);
}

TEST_F(PartialSaves, TakeNoPartThatContradictsWhenItsProgramDied) {
  partial().add({{"state", layer(0)}});
  {
    // The second program is killed between the commit of its part and the look at what is in it.
    SaveOptions options;
    options.annotations = R"({"cairn.partial": {"run": "", "part": 1}})";
    cairn::save(directory_ / "made", layer(0), options, *context_);
    std::filesystem::rename(directory_ / "made", parts() / "part-00001");
  }

  PartialSave save = partial();

  EXPECT_EQ(save.parts(), 1u);
  save.finalize();
  expect_layers(1);
}

}  // namespace
}  // namespace cairn
