// SPDX-License-Identifier: Apache-2.0
// Several ranks save one checkpoint in one commit.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "core/joint_job.hpp"
#include "core/joint_saving.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/verify.hpp"
#include "support/run.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using testing::Blob;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using testing::JointSaving;
using testing::list_tree;
using testing::load_alone;
using testing::make_blob;
using testing::overwriting_save;
using testing::Part;
using testing::RankEnd;
using ::testing::StartsWith;

void expect_committed(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].text(), "committed") << rank;
  }
}

TEST_F(JointSaving, MakesOneCheckpointThatOneProcessLoads) {
  JointJob job(JointJob::Options(4));
  const Blob blob = make_blob(3'000'000);

  const std::vector<RankEnd> ends = job.save_all(target(), blob);

  expect_committed(ends);
  Loaded loaded = load_alone(target(), job.registry());
  EXPECT_EQ(loaded.take<Part>("part").text, "0;1;2;3;");
  EXPECT_EQ(loaded.take<Blob>("blob"), blob);
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.result->files, 5u);
    EXPECT_EQ(end.result->bytes, 3'000'008u);
  }
  EXPECT_THAT(list_tree(directory_.path()),
              ElementsAre("step", "step/.chunks", "step/.chunks/r00001.xxh3", "step/.chunks/r00002.xxh3",
                          "step/.chunks/r00003.xxh3", "step/COMMIT", "step/blob", "step/blob/blob.bin",
                          "step/checkpoint.json", "step/chunks.xxh3", "step/part", "step/part/part-0",
                          "step/part/part-1", "step/part/part-2", "step/part/part-3"));
  EXPECT_TRUE(store::verify(io::posix_syscalls(), target(), {}).is_sound());
  EXPECT_EQ(store::CommittedDirectory::open(io::posix_syscalls(), target()).manifest().world_size, 4u);
}

TEST_F(JointSaving, HasRankZeroMakeTheDirectoryThatIsMissing) {
  JointJob job(JointJob::Options(4));
  const Blob blob = make_blob(100);

  expect_committed(job.save_all(directory_ / "run/step", blob));

  EXPECT_EQ(load_alone(directory_ / "run/step", job.registry()).take<Blob>("blob"), blob);
}

TEST_F(JointSaving, SaysOnAllRanksThatTooMuchIsMissing) {
  JointJob job;

  for (const RankEnd& end : job.save_all(directory_ / "a/b/step", make_blob(100))) {
    EXPECT_THAT(end.text(), HasSubstr("create_parents"));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JointSaving, OverwritesAndLeavesNothing) {
  JointJob job;
  expect_committed(job.save_all(target(), make_blob(100)));
  const Blob second = make_blob(2'000'000, 2);

  expect_committed(job.save_all(target(), second, overwriting_save()));

  EXPECT_EQ(load_alone(target(), job.registry()).take<Blob>("blob"), second);
  EXPECT_THAT(names(), ElementsAre("step"));
}

TEST_F(JointSaving, HasManySavesUnderWayAtOnce) {
  JointJob job;
  const Blob blob = make_blob(50'000);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    std::vector<AsyncResponse> saves;
    for (int i = 0; i < 6; ++i) {
      saves.push_back(job.start(rank, directory_ / std::to_string(i), blob));
    }
    SaveResult last;
    for (const AsyncResponse& save : saves) {
      last = save.wait();
    }
    return last;
  });

  expect_committed(ends);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(load_alone(directory_ / std::to_string(i), job.registry()).take<Part>("part").text, "0;1;2;");
  }
}

TEST_F(JointSaving, GoesAlongATreeOfRanks) {
  JointJob::Options options(4);
  options.fan_out = 1;
  JointJob job(options);

  expect_committed(job.save_all(target(), make_blob(10)));

  EXPECT_EQ(load_alone(target(), job.registry()).take<Part>("part").text, "0;1;2;3;");
}

TEST_F(JointSaving, NeedsNoFilesOfOtherRanks) {
  JointJob job;

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    return core::start_save(target(), {{"blob", make_blob(10)}}, job.registry(), SaveOptions(),
                            job.context(rank))
        .wait();
  });

  expect_committed(ends);
  EXPECT_THAT(list_tree(target()),
              ElementsAre("COMMIT", "blob", "blob/blob.bin", "checkpoint.json", "chunks.xxh3"));
}

TEST_F(JointSaving, RefusesRanksThatSaveToDifferentPaths) {
  JointJob job;

  const std::vector<RankEnd> ends = job.on_all(
      [&](std::size_t rank) { return job.save(rank, directory_ / (rank == 2 ? "b" : "a"), make_blob(10)); });

  for (const RankEnd& end : ends) {
    EXPECT_THAT([&] { end.rethrow(); },
                Fails(Errc::invalid_argument,
                      AllOf(HasSubstr("the path: ranks 0 and 1 have '"), HasSubstr("/a', rank 2 has '"))));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JointSaving, RefusesRanksThatSaveDifferentThings) {
  JointJob job;

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    return core::start_save(target(), {{rank == 1 ? "other" : "model", make_blob(10)}}, job.registry(),
                            SaveOptions(), job.context(rank))
        .wait();
  });

  for (const RankEnd& end : ends) {
    EXPECT_THAT([&] { end.rethrow(); },
                Fails(Errc::invalid_argument,
                      HasSubstr("checkpointable 1: ranks 0 and 2 have 'model (handler test.blob/1)', "
                                "rank 1 has 'other (handler test.blob/1)'")));
  }
}

TEST_F(JointSaving, RefusesRanksWithDifferentOptions) {
  JointJob job;

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    return job.save(rank, target(), make_blob(10), rank == 0 ? overwriting_save() : SaveOptions());
  });

  for (const RankEnd& end : ends) {
    EXPECT_THAT(
        [&] { end.rethrow(); },
        Fails(Errc::invalid_argument, HasSubstr("overwrite: rank 0 has 'true', ranks 1 and 2 have 'false'")));
  }
}

TEST_F(JointSaving, TellsOthersOfACallThatIsRefusedBeforeItBegins) {
  JointJob job;

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    return rank == 1 ? core::start_save(target(), {}, job.registry(), SaveOptions(), job.context(rank)).wait()
                     : job.save(rank, target(), make_blob(10));
  });

  EXPECT_THAT([&] { ends[1].rethrow(); },
              Fails(Errc::invalid_argument, HasSubstr("there is nothing to save")));
  for (const std::size_t rank : {0, 2}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); },
                Fails(Errc::peer_failed, HasSubstr("rank 1: there is nothing to save")));
  }
  EXPECT_THAT(names(), IsEmpty());
  expect_committed(job.save_all(target(), make_blob(10)));  // And the numbers of saves agree.
}

TEST_F(JointSaving, SaysOnAllRanksThatTheTargetIsTaken) {
  JointJob job;
  expect_committed(job.save_all(target(), make_blob(10)));

  const std::vector<RankEnd> ends = job.save_all(target(), make_blob(11));

  EXPECT_THAT([&] { ends[0].rethrow(); }, Fails(Errc::already_exists));
  for (const std::size_t rank : {1, 2}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 0: ")));
  }
  EXPECT_EQ(load_alone(target(), job.registry()).take<Blob>("blob"), make_blob(10));
  EXPECT_THAT(names(), ElementsAre("step"));
}

TEST_F(JointSaving, FailsAtOnceWithoutARankThatHasEnded) {
  JointJob::Options options(4);
  options.fan_out = 2;
  JointJob job(options);
  expect_committed(job.save_all(target(), make_blob(10)));
  job.close(3);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    return rank == 3 ? SaveResult() : job.save(rank, target(), make_blob(11), overwriting_save());
  });

  for (const std::size_t rank : {0, 1, 2}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 3 has closed its")));
  }
  EXPECT_EQ(load_alone(target(), job.registry()).take<Blob>("blob"), make_blob(10));
}

/// One rank does something else than the others.
class ALoadMeetsASave : public JointSaving, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(ALoadMeetsASave, IsToldSoOnAllRanksAndTheNextCallsMeet) {
  JointJob::Options options(4);
  options.fan_out = 2;
  JointJob job(options);
  expect_committed(job.save_all(target(), make_blob(10)));
  LoadOptions together;
  together.together = true;

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    if (rank != GetParam()) {
      return job.save(rank, directory_ / "next", make_blob(10));
    }
    static_cast<void>(core::start_load(target(), {}, job.registry(), together, job.context(rank)).wait());
    return SaveResult();
  });

  for (const RankEnd& end : ends) {
    EXPECT_THAT([&] { end.rethrow(); },
                Fails(Errc::invalid_argument,
                      AllOf(HasSubstr(fmt::format("saves {}", (directory_ / "next").string())),
                            HasSubstr(fmt::format("rank {} loads {}", GetParam(), target().string())))));
  }
  expect_committed(job.save_all(directory_ / "next", make_blob(10)));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ALoadMeetsASave, ::testing::Values(0, 1, 3));

/// A rank that fails in one of its phases: its own failure there, and its words on all others.
class FailingRank : public JointSaving, public ::testing::WithParamInterface<std::size_t> {
 protected:
  static void fail_on(std::size_t rank) {
    if (rank == GetParam()) {
      throw Error(Errc::io_failure, "no space");
    }
  }

  void expect_told(JointJob& job) {
    const std::vector<RankEnd> ends = job.save_all(target(), make_blob(100'000));
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (rank == GetParam()) {
        EXPECT_THAT(
            [&] { ends[rank].rethrow(); },
            Fails(Errc::io_failure,
                  StartsWith(fmt::format("{}: 'part' (handler test.part/1): no space", target().string()))));
      } else {
        EXPECT_THAT([&] { ends[rank].rethrow(); },
                    Fails(Errc::peer_failed, StartsWith(fmt::format("save of {}: rank {}: 'part' (handler",
                                                                    target().string(), GetParam()))));
      }
    }
    // A rank may have been writing while another removed; the last one takes the rest.
    EXPECT_TRUE(testing::eventually([&] { return names().empty(); }));
  }
};

TEST_P(FailingRank, IsToldInTheBlockingPhase) {
  JointJob::Options options(4);
  options.fan_out = 2;
  options.hooks.blocking = fail_on;
  JointJob job(options);

  expect_told(job);
}

TEST_P(FailingRank, IsToldInTheBackground) {
  JointJob::Options options(4);
  options.fan_out = 2;
  options.hooks.background = fail_on;
  JointJob job(options);

  expect_told(job);
}

INSTANTIATE_TEST_SUITE_P(Ranks, FailingRank, ::testing::Values(0, 1, 3));

/// Ranks whose background phases wait until the test lets them go on.
class HeldJob : public JointSaving {
 protected:
  HeldJob() {
    JointJob::Options options(3);
    options.stop_grace = std::chrono::milliseconds(100);  // One rank does not end in it, however long it is.
    options.hooks.background = [gate = gate_](std::size_t rank) {
      if (rank == 1) {
        gate.get();
      }
    };
    job_.emplace(options);
  }

  ~HeldJob() override { gate_.set(); }

  const async::Event gate_;
  std::optional<JointJob> job_;
};

TEST_F(HeldJob, IsCancelledOnAllRanksByOne) {
  const std::vector<RankEnd> ends = job_->on_all([&](std::size_t rank) {
    const AsyncResponse saving = job_->start(rank, target(), make_blob(10));
    if (rank == 2) {
      saving.cancel();
    }
    return saving.wait();
  });

  EXPECT_THAT([&] { ends[2].rethrow(); }, Fails(Errc::cancelled));
  for (const std::size_t rank : {0, 1}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 2: save of ")));
  }
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(HeldJob, EndsAtTheDeadlineOfOneRank) {
  const std::vector<RankEnd> ends = job_->on_all([&](std::size_t rank) {
    SaveOptions options;
    if (rank == 0) {
      options.deadline = std::chrono::milliseconds(200);
    }
    return job_->save(rank, target(), make_blob(10), options);
  });

  EXPECT_THAT([&] { ends[0].rethrow(); }, Fails(Errc::timed_out));
  for (const std::size_t rank : {1, 2}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 0: save of ")));
  }
  EXPECT_FALSE(fs::exists(target()));
}

/// A rank whose handler does not end until the others have.
class HangingRank : public JointSaving, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void expect_named(bool is_in_background) {
    const async::Event others_have_ended;
    std::atomic<int> left{3};
    const auto hang = [&](std::size_t rank) {
      if (rank == GetParam()) {
        others_have_ended.get();
      }
    };
    JointJob::Options options(4);
    options.fan_out = 2;
    (is_in_background ? options.hooks.background : options.hooks.blocking) = hang;
    JointJob job(options);

    const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
      const std::shared_ptr<void> ended(nullptr, [&, rank](std::nullptr_t) {
        if (rank != GetParam() && --left == 0) {
          others_have_ended.set();
        }
      });
      SaveOptions hasty;
      hasty.deadline = std::chrono::milliseconds(500);
      return job.save(rank, target(), make_blob(10), rank == 2 ? hasty : SaveOptions());
    });

    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (rank != GetParam()) {
        EXPECT_THAT(ends[rank].text(), HasSubstr(fmt::format("still waiting for rank {}:", GetParam())));
      }
    }
    EXPECT_THAT([&] { ends[GetParam()].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("not done after")));
    EXPECT_FALSE(fs::exists(target()));
    expect_committed(job.save_all(target(), make_blob(10)));
  }
};

TEST_P(HangingRank, IsNamedAtTheDeadlineOfAnother) {
  expect_named(false);
}

TEST_P(HangingRank, IsNamedInTheBackgroundToo) {
  expect_named(true);
}

INSTANTIATE_TEST_SUITE_P(Ranks, HangingRank, ::testing::Values(0, 1, 3));

TEST_F(JointSaving, NamesTheRanksThatHaveNotComeAtItsDeadline) {
  JointJob job{JointJob::Options(3)};
  SaveOptions options;
  options.deadline = std::chrono::milliseconds(200);

  EXPECT_THAT([&] { job.save(0, target(), make_blob(10), options); },
              Fails(Errc::timed_out, HasSubstr("not done after 0.200 s; still waiting for ranks 1 and 2")));
}

TEST_F(HeldJob, SavesAgainAfterwards) {
  static_cast<void>(job_->on_all([&](std::size_t rank) {
    const AsyncResponse saving = job_->start(rank, target(), make_blob(10));
    saving.cancel();
    return saving.wait();
  }));
  gate_.set();

  expect_committed(job_->save_all(target(), make_blob(10)));
}

/// Writes past its context, as libraries do that want a path.
class PathHandler final : public CheckpointableHandler<Part> {
 public:
  explicit PathHandler(bool announces) : announces_(announces) {}

  std::string_view id() const noexcept override { return "test.path/1"; }
  Participation participation() const noexcept override { return Participation::all; }
  // outlives: the caller keeps the part during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Part& part) const override {
    co_return write(std::move(context), part.text, announces_);
  }
  Awaitable<Background<Part>> load(LoadContext, std::optional<Part>) const override {
    co_return Background<Part>();
  }
  Awaitable<Part> metadata(LoadContext) const override { co_return Part(); }

 private:
  static Background<> write(SaveContext context, std::string text, bool announces) {
    co_await context.directory_created();
    const std::string name = fmt::format("file-{}", context.coordinator().rank());
    testing::write_text(*context.directory() / name, text);
    if (announces) {
      co_await context.adopt_file(name);
    }
  }

  const bool announces_;
};

std::vector<RankEnd> save_by_path(JointJob& job, const fs::path& target, bool announces) {
  HandlerRegistry registry;
  registry.add(std::make_shared<const PathHandler>(announces));
  return job.on_all([&](std::size_t rank) {
    return core::start_save(target, {{"part", Part("text")}}, registry.snapshot(), SaveOptions(),
                            job.context(rank))
        .wait();
  });
}

TEST_F(JointSaving, TakesFilesThatHandlersAnnounce) {
  JointJob job;

  expect_committed(save_by_path(job, target(), true));

  const auto opened = store::CommittedDirectory::open(io::posix_syscalls(), target());
  EXPECT_THAT(opened.files_below("part"), ElementsAre("file-0", "file-1", "file-2"));
  EXPECT_EQ(opened.read_verified("part/file-2", 100), "text");
  EXPECT_EQ(opened.find("part/file-2")->rank, 2u);
}

TEST_F(JointSaving, RefusesFilesThatNobodyHasAnnounced) {
  JointJob job;

  const std::vector<RankEnd> ends = save_by_path(job, target(), false);

  EXPECT_THAT([&] { ends[0].rethrow(); },
              Fails(Errc::handler_failed,
                    AllOf(StartsWith(target().string() + ": 'part/file-"), HasSubstr("announced on none"))));
  EXPECT_THAT([&] { ends[2].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 0: 'part/file-")));
}

/// Its ranks tell each other how much they have.
class TalkingHandler final : public CheckpointableHandler<Part> {
 public:
  std::string_view id() const noexcept override { return "test.talking/1"; }
  Participation participation() const noexcept override { return Participation::all; }
  // outlives: the caller keeps the part during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Part& part) const override {
    std::optional<coord::Channel> channel = context.channel("sizes");
    std::vector<std::string> all;
    if (channel) {
      std::string mine = part.text;
      all = co_await channel->gather(std::move(mine));
    }
    std::string text;
    for (const std::string& each : all) {
      text += each;
    }
    if (context.coordinator().rank() != 0) {
      co_return Background<>();
    }
    co_return context.write_file("all", std::move(text));
  }
  Awaitable<Background<Part>> load(LoadContext, std::optional<Part>) const override {
    co_return Background<Part>();
  }
  Awaitable<Part> metadata(LoadContext) const override { co_return Part(); }
};

TEST_F(JointSaving, LetsHandlersTalkToThemselves) {
  JointJob job;
  HandlerRegistry registry;
  registry.add<TalkingHandler>();

  expect_committed(job.on_all([&](std::size_t rank) {
    const Part part(fmt::format("{}", rank));
    return core::start_save(target(), {{"a", part}, {"b", part}}, registry.snapshot(), SaveOptions(),
                            job.context(rank))
        .wait();
  }));

  EXPECT_EQ(testing::read_text(target() / "b" / "all"), "012");
}

TEST_F(JointSaving, LetsOldSavesYieldOnAllRanks) {
  JointJob::Options options(3);
  const async::Event gate;
  options.stop_grace = std::chrono::milliseconds(100);
  options.hooks.background = [gate](std::size_t) { gate.get(); };
  JointJob job(options);
  SaveOptions coalescing;
  coalescing.coalesce = true;
  std::atomic<int> passed{0};

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    std::vector<AsyncResponse> saves;
    for (int i = 0; i < 3; ++i) {
      saves.push_back(job.start(rank, directory_ / std::to_string(i), make_blob(10), coalescing));
    }
    try {
      static_cast<void>(saves[1].wait());
    } catch (const Error& error) {
      passed += error.code() == Errc::superseded;
    }
    gate.set();
    static_cast<void>(saves[0].wait());
    return saves[2].wait();
  });

  expect_committed(ends);
  EXPECT_EQ(passed, 3);
}

}  // namespace
}  // namespace cairn
