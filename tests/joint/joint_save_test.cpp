// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/joint_save.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "joint/joint_ranks.hpp"
#include "support/fails.hpp"

namespace cairn::joint {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::End;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;
using ::testing::Not;
using ::testing::SizeIs;

using Save = std::shared_ptr<JointSave>;
using SavePart = Part<JointSave>;

std::vector<End> play_all(SavePart part) {
  Job job(3);
  return play<JointSave>(job, {part});
}

std::vector<std::string> texts_of(SavePart part) {
  return Job::texts(play_all(part));
}

/// What rank 0 does, and what the others do.
std::vector<End> play_others(SavePart primary, SavePart others) {
  Job job(3);
  return play<JointSave>(job, {primary, others, others});
}

TEST(JointSave, SaysNothingWhereThereIsOneRank) {
  Job job(1);

  EXPECT_EQ(JointSave::join(job.coordinator(0)), nullptr);
}

Awaitable<std::string> tell_uuid(Save save, std::size_t) {
  co_return store::to_string(save->uuid());
}

TEST(JointSave, HasOneUuidOnAllRanksAndAnotherInTheNextSave) {
  Job job(3);

  const std::vector<std::string> first = Job::texts(play<JointSave>(job, {tell_uuid}));
  const std::vector<std::string> second = Job::texts(play<JointSave>(job, {tell_uuid}));

  EXPECT_THAT(first, Each(first.front()));
  EXPECT_THAT(second, Each(Not(first.front())));
}

Awaitable<std::string> agree_on(Save save, RankValues rank_values, RankValues options) {
  Awaitable<> agreeing = save->agree(std::move(rank_values), options);
  co_await std::move(agreeing);
  co_return "agreed";
}

Awaitable<std::string> agree_on_all(Save save, std::size_t) {
  RankValues rank_values = {{"the path", "a"}};
  RankValues options = {{"dtype", "bfloat16"}};
  return agree_on(std::move(save), std::move(rank_values), std::move(options));
}

TEST(JointSaveAgreement, IsReachedWhereAllRanksSayTheSame) {
  EXPECT_THAT(texts_of(agree_on_all), Each("agreed"));
}

Awaitable<std::string> agree_on_paths(Save save, std::size_t rank) {
  RankValues rank_values = {{"the path", rank == 2 ? "b" : "a"}};
  return agree_on(std::move(save), std::move(rank_values), {});
}

TEST(JointSaveAgreement, FailsOnEveryRankForOneClaimAndNamesIt) {
  for (const End& end : play_all(agree_on_paths)) {
    EXPECT_THAT([&] { end.rethrow(); },
                Fails(Errc::invalid_argument, HasSubstr("the ranks do not save the same: the path: "
                                                        "ranks 0 and 1 have 'a', rank 2 has 'b'")));
  }
}

Awaitable<std::string> agree_on_dtypes(Save save, std::size_t rank) {
  RankValues rank_values = {{"the path", "a"}};
  RankValues options = {{"rules", "none"}, {"dtype", rank == 1 ? "bfloat16" : "float32"}};
  return agree_on(std::move(save), std::move(rank_values), std::move(options));
}

TEST(JointSaveAgreement, NamesAnOptionInWordsThoughOnlyHashesAreSaidAtFirst) {
  for (const End& end : play_all(agree_on_dtypes)) {
    EXPECT_THAT([&] { end.rethrow(); },
                Fails(Errc::invalid_argument,
                      AllOf(HasSubstr("dtype: ranks 0 and 2 have 'float32', rank 1 has 'bfloat16'"),
                            Not(HasSubstr("rules")))));
  }
}

std::string words_of(const Verdict& verdict) {
  constexpr std::string_view kKinds[] = {"committed", "aborted", "unknown"};
  return fmt::format("{}{} {} {} '{}'", kKinds[static_cast<int>(verdict.kind)],
                     verdict.is_superseded ? " (superseded)" : "", verdict.files, verdict.bytes,
                     verdict.words);
}

Awaitable<std::string> receive_verdict(Save save, std::size_t) {
  Awaitable<Verdict> receiving = save->receive_verdict();
  const Verdict verdict = co_await std::move(receiving);
  co_return words_of(verdict);
}

Verdict committed() {
  Verdict verdict(Verdict::Kind::committed, "");
  verdict.files = 3;
  verdict.bytes = 100;
  return verdict;
}

Awaitable<std::string> vote_for_one_file(Save save, std::size_t rank) {
  Awaitable<> created = save->receive_created();
  co_await std::move(created);
  store::FileEntry file;
  file.path = fmt::format("of-{}", rank);
  file.size_bytes = 10 * rank;
  file.root.low = rank;
  save->vote({&file, 1});
  Awaitable<std::string> receiving = receive_verdict(save, rank);
  co_return co_await std::move(receiving);
}

Awaitable<std::string> commit_what_was_voted_for(Save save, std::size_t) {
  save->send_created();
  Awaitable<std::vector<store::FileEntry>> voting = save->collect_votes();
  const std::vector<store::FileEntry> files = co_await std::move(voting);
  save->send_verdict(committed());
  std::string text;
  for (const store::FileEntry& file : files) {
    text += fmt::format("{}:{}:{}:{} ", file.rank, file.path, file.size_bytes, file.root.low);
  }
  co_return text;
}

TEST(JointSaveVotes, BringRankZeroTheFilesOfAllOthersWhoThenHearItsVerdict) {
  EXPECT_THAT(Job::texts(play_others(commit_what_was_voted_for, vote_for_one_file)),
              ElementsAre("1:of-1:10:1 2:of-2:20:2 ", "committed 3 100 ''", "committed 3 100 ''"));
}

/// What ranks 1 and 2 hear.
std::vector<std::string> verdicts_after(SavePart primary) {
  std::vector<std::string> texts = Job::texts(play_others(primary, receive_verdict));
  texts.erase(texts.begin());
  return texts;
}

Awaitable<std::string> commit_and_fail(Save save, std::size_t) {
  save->send_verdict(committed());
  save->fail(std::make_exception_ptr(Error(Errc::io_failure, "too late")));
  co_return "";
}

TEST(JointSaveVerdict, IsTheFirstThatRankZeroTells) {
  EXPECT_THAT(verdicts_after(commit_and_fail), AllOf(SizeIs(2), Each("committed 3 100 ''")));
}

Awaitable<std::string> fail_to_write(Save save, std::size_t) {
  save->fail(std::make_exception_ptr(Error(Errc::io_failure, "the disk is broken")));
  co_return "";
}

TEST(JointSaveVerdict, IsThatOfAFailureOfRankZero) {
  EXPECT_THAT(verdicts_after(fail_to_write),
              Each(AllOf(HasSubstr("aborted 0 0 'rank 0: "), HasSubstr("the disk is broken"))));
}

Awaitable<std::string> fail_without_an_answer(Save save, std::size_t) {
  save->fail(std::make_exception_ptr(Error(Errc::commit_unknown, "no answer")));
  co_return "";
}

TEST(JointSaveVerdict, IsUnknownWhereRankZeroDoesNotKnow) {
  EXPECT_THAT(verdicts_after(fail_without_an_answer), Each(HasSubstr("unknown 0 0 'rank 0: ")));
}

Awaitable<std::string> yield_to_newer(Save save, std::size_t) {
  save->fail(std::make_exception_ptr(Error(Errc::superseded, "a newer save")));
  co_return "";
}

TEST(JointSaveVerdict, SaysThatRankZeroHasGivenWay) {
  EXPECT_THAT(verdicts_after(yield_to_newer), Each(HasSubstr("aborted (superseded)")));
}

Awaitable<std::string> pass_on_failure(Save save, std::size_t) {
  std::exception_ptr failure;
  try {
    Awaitable<std::vector<store::FileEntry>> voting = save->collect_votes();
    static_cast<void>(co_await std::move(voting));
  } catch (...) {
    failure = std::current_exception();
  }
  save->fail(failure);
  co_return "";
}

Awaitable<std::string> fail_and_receive_verdict(Save save, std::size_t rank) {
  if (rank == 2) {
    save->fail(std::make_exception_ptr(Error(Errc::io_failure, "the disk is broken")));
  }
  return receive_verdict(std::move(save), rank);
}

TEST(JointSaveVerdict, ReachesTheRankThatHasFailedAndNamesItAlone) {
  std::vector<std::string> texts = Job::texts(play_others(pass_on_failure, fail_and_receive_verdict));

  texts.erase(texts.begin());
  EXPECT_THAT(texts, Each(HasSubstr("aborted 0 0 'rank 2: the disk is broken")));
}

Awaitable<std::string> drop(Save save, std::size_t) {
  save.reset();
  co_return "";
}

TEST(JointSave, FailsOnAllRanksWhereOneHasDroppedIt) {
  Job job(3);

  const std::vector<End> ends = play<JointSave>(job, {pass_on_failure, receive_verdict, drop});

  EXPECT_THAT(Job::texts(ends)[1], HasSubstr("rank 2: the save was dropped"));
}

Awaitable<std::string> listen(Save save, std::size_t rank) {
  const auto heard = std::make_shared<std::string>("nothing");
  save->on_failure([heard](const std::exception_ptr& why) { *heard = describe(why); });
  if (rank == 1) {
    save->fail(std::make_exception_ptr(Error(Errc::io_failure, "the disk is broken")));
  }
  coord::Channel channel = save->channel("what never comes");
  try {
    if (rank == 0) {
      Awaitable<std::vector<std::string>> gathering = channel.gather("");
      static_cast<void>(co_await std::move(gathering));
    } else {
      Awaitable<std::string> receiving = channel.broadcast("");
      static_cast<void>(co_await std::move(receiving));
    }
  } catch (const Error&) {  // This rank has heard of the failure.
  }
  save->stop_listening();
  co_return *heard;
}

TEST(JointSaveFailure, IsHeardByAllButTheRankThatHasFailed) {
  EXPECT_THAT(texts_of(listen), ElementsAre(HasSubstr("rank 1: the disk is broken"), "nothing",
                                            HasSubstr("rank 1: the disk is broken")));
}

Awaitable<std::string> call_off(Save save, std::size_t) {
  save->call_off(Error(Errc::cancelled, "not needed"));
  co_return "";
}

Awaitable<std::string> wait_for_directory(Save save, std::size_t) {
  Awaitable<> created = save->receive_created();
  co_await std::move(created);
  co_return "created";
}

TEST(JointSaveFailure, IsNobodysWhereItIsCalledOff) {
  const std::vector<End> ends = play_others(call_off, wait_for_directory);

  EXPECT_THAT([&] { ends[1].rethrow(); },
              Fails(Errc::cancelled, AllOf(HasSubstr("not needed"), Not(HasSubstr("rank")))));
}

}  // namespace
}  // namespace cairn::joint
