// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/joint_load.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "joint/internal/joint_save.hpp"
#include "joint/joint_ranks.hpp"
#include "support/fails.hpp"

namespace cairn::joint {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::End;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;

using Load = std::shared_ptr<JointLoad>;
using LoadPart = Part<JointLoad>;

std::vector<End> play_all(LoadPart part) {
  Job job(3);
  return play<JointLoad>(job, {part});
}

TEST(JointLoad, SaysNothingWhereThereIsOneRank) {
  Job job(1);

  EXPECT_EQ(JointLoad::join(job.coordinator(0)), nullptr);
}

Awaitable<std::string> agree_on(Load load, std::string path) {
  RankValues rank_values = {{"the path", std::move(path)}};
  Awaitable<> agreeing = load->agree(std::move(rank_values));
  co_await std::move(agreeing);
  Awaitable<> ending = load->end();
  co_await std::move(ending);
  co_return "loaded";
}

Awaitable<std::string> load_one(Load load, std::size_t) {
  return agree_on(std::move(load), "a");
}

TEST(JointLoad, SucceedsWhereAllRanksSayTheSame) {
  EXPECT_THAT(Job::texts(play_all(load_one)), Each("loaded"));
}

Awaitable<std::string> load_several(Load load, std::size_t rank) {
  return agree_on(std::move(load), rank == 1 ? "b" : "a");
}

TEST(JointLoad, FailsOnEveryRankForOneClaimAndNamesIt) {
  for (const End& end : play_all(load_several)) {
    EXPECT_THAT([&] { end.rethrow(); },
                Fails(Errc::invalid_argument, HasSubstr("the ranks do not load the same: the path: "
                                                        "ranks 0 and 2 have 'a', rank 1 has 'b'")));
  }
}

Awaitable<std::string> hear_metadata(Load load, std::size_t rank) {
  Awaitable<std::string> sharing = load->share(rank == 0 ? "what rank 0 has read" : "");
  std::string metadata = co_await std::move(sharing);
  Awaitable<> ending = load->end();
  co_await std::move(ending);
  co_return metadata;
}

TEST(JointLoad, BringsAllRanksTheMetadataThatRankZeroHasRead) {
  EXPECT_THAT(Job::texts(play_all(hear_metadata)), Each("what rank 0 has read"));
}

Awaitable<std::string> fail_at_the_end(Load load, std::size_t rank) {
  if (rank == 2) {
    load->fail(std::make_exception_ptr(Error(Errc::io_failure, "no memory")));
    co_return "has failed";
  }
  Awaitable<> ending = load->end();
  co_await std::move(ending);
  co_return "loaded";
}

TEST(JointLoad, SucceedsOnNoRankWhereOneHasFailed) {
  const std::vector<End> ends = play_all(fail_at_the_end);

  for (const std::size_t rank : {0, 1}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 2: no memory")));
  }
}

Awaitable<std::string> find_damage(Load load, std::size_t rank) {
  if (rank == 2) {
    load->fail(std::make_exception_ptr(Error(Errc::checksum_mismatch, "chunk 7")));
    co_return "has failed";
  }
  Awaitable<> ending = load->end();
  co_await std::move(ending);
  co_return "loaded";
}

TEST(JointLoad, OfADamagedCheckpointFailsAlikeOnAllRanks) {
  const std::vector<End> ends = play_all(find_damage);

  for (const std::size_t rank : {0, 1}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::checksum_mismatch, HasSubstr("rank 2: chunk 7")));
  }
}

Awaitable<std::string> drop_before_the_end(Load load, std::size_t rank) {
  if (rank == 1) {
    load.reset();
    co_return "has dropped it";
  }
  Awaitable<> ending = load->end();
  co_await std::move(ending);
  co_return "loaded";
}

TEST(JointLoad, FailsOnAllRanksWhereOneHasDroppedIt) {
  const std::vector<End> ends = play_all(drop_before_the_end);

  EXPECT_THAT([&] { ends[0].rethrow(); },
              Fails(Errc::peer_failed, HasSubstr("rank 1: the load was dropped")));
  EXPECT_THAT([&] { ends[2].rethrow(); },
              Fails(Errc::peer_failed, HasSubstr("rank 1: the load was dropped")));
}

Awaitable<> load_here(coord::Coordinator* coordinator, std::shared_ptr<std::exception_ptr> failure) {
  try {
    Awaitable<std::string> loading = agree_on(JointLoad::join(*coordinator, "a"), "a");
    static_cast<void>(co_await std::move(loading));
  } catch (...) {
    *failure = std::current_exception();
  }
}

Awaitable<> save_here(coord::Coordinator* coordinator, std::shared_ptr<std::exception_ptr> failure) {
  try {
    const std::unique_ptr<JointSave> save = JointSave::join(*coordinator, "b");
    RankValues rank_values = {{"the path", "b"}};
    const RankValues none;
    Awaitable<> agreeing = save->agree(std::move(rank_values), none);
    co_await std::move(agreeing);
  } catch (...) {
    *failure = std::current_exception();
  }
}

TEST(JointLoad, ThatMeetsASaveSaysSo) {
  Job job(2);
  const auto of_load = std::make_shared<std::exception_ptr>();
  const auto of_save = std::make_shared<std::exception_ptr>();

  job.network().spawn(0, std::chrono::nanoseconds(0), load_here(&job.coordinator(0), of_load));
  job.network().spawn(1, std::chrono::nanoseconds(0), save_here(&job.coordinator(1), of_save));
  job.network().run();

  for (const auto& failure : {of_load, of_save}) {
    ASSERT_NE(*failure, nullptr);
    EXPECT_THAT([&] { std::rethrow_exception(*failure); },
                Fails(Errc::invalid_argument, HasSubstr("rank 1 saves b, while rank 0 loads a")));
  }
}

}  // namespace
}  // namespace cairn::joint
