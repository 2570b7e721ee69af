// SPDX-License-Identifier: Apache-2.0
// Several ranks load one checkpoint together, and a handler does not do its part on one of them.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "cairn/contract/handler.hpp"

#include "async/internal/event.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::make_blob;
using testing::RankEnd;

class JointLoading : public ::testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] static JointJob::Options job_whose_loads(std::function<void(std::size_t)> hook) {
    JointJob::Options options(4);
    options.fan_out = 2;
    options.hooks.loading = std::move(hook);
    return options;
  }

  void save(JointJob& job) const {
    for (const RankEnd& end : job.save_all(directory_ / "step", make_blob(100'000))) {
      EXPECT_EQ(end.text(), "committed");
    }
  }

  [[nodiscard]] SaveResult load(JointJob& job, std::size_t rank, LoadOptions options = {}) const {
    options.together = true;
    static_cast<void>(
        core::start_load(directory_ / "step", {}, job.registry(), options, job.context(rank)).wait());
    return SaveResult();
  }

  const testing::TempDir directory_;
};

TEST_P(JointLoading, EndsOnAllRanksWhenAHandlerThrowsOnOne) {
  std::atomic<bool> is_broken{true};
  JointJob job(job_whose_loads([&](std::size_t rank) {
    if (is_broken && rank == GetParam()) {
      throw Error(Errc::io_failure, "cannot read it");
    }
  }));
  save(job);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) { return load(job, rank); });

  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == GetParam()) {
      EXPECT_THAT([&] { ends[rank].rethrow(); },
                  Fails(Errc::io_failure, HasSubstr("'part' (handler test.part/1): cannot read it")));
    } else {
      EXPECT_THAT([&] { ends[rank].rethrow(); },
                  Fails(Errc::peer_failed, HasSubstr(fmt::format("rank {}: ", GetParam()))));
    }
  }
  is_broken = false;
  for (const RankEnd& end : job.on_all([&](std::size_t rank) { return load(job, rank); })) {
    EXPECT_EQ(end.text(), "committed");
  }
}

TEST_P(JointLoading, EndsAtTheDeadlineOfARankWhenAHandlerHangsOnAnother) {
  const async::Event others_have_ended;
  std::atomic<int> left{3};
  JointJob job(job_whose_loads([&](std::size_t rank) {
    if (rank == GetParam()) {
      others_have_ended.get();
    }
  }));
  save(job);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    const std::shared_ptr<void> ended(nullptr, [&, rank](std::nullptr_t) {
      if (rank != GetParam() && --left == 0) {
        others_have_ended.set();
      }
    });
    LoadOptions hasty;
    hasty.deadline = std::chrono::milliseconds(500);
    return load(job, rank, rank == 2 ? hasty : LoadOptions());
  });

  EXPECT_THAT([&] { ends[2].rethrow(); },
              Fails(Errc::timed_out, HasSubstr(fmt::format("still waiting for rank {}:", GetParam()))));
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); },
                Fails(Errc::peer_failed,
                      ::testing::AllOf(HasSubstr("rank 2: load of "),
                                       HasSubstr(fmt::format("still waiting for rank {}:", GetParam())))));
  }
  for (const RankEnd& end : job.on_all([&](std::size_t rank) { return load(job, rank); })) {
    EXPECT_EQ(end.text(), "committed");
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, JointLoading, ::testing::Values(0, 1, 3));

/// What ranks have told each other in a load.
struct Talk {
  std::string heard;
};

/// Its ranks say their numbers in a load, in two channels; rank `odd` says something wrong in the second one.
class LoadTalkHandler final : public CheckpointableHandler<Talk> {
 public:
  explicit LoadTalkHandler(std::size_t odd = SIZE_MAX) : odd_(odd) {}

  std::string_view id() const noexcept override { return "test.talk/1"; }

  // outlives: the value is not used.
  Awaitable<Background<>> save(SaveContext context, const Talk&) const override {
    std::string text = "talk";
    co_return context.write_file("talk", std::move(text));
  }

  Awaitable<Background<Talk>> load(LoadContext context, std::optional<Talk>) const override {
    std::optional<coord::Channel> numbers = context.channel("numbers");
    std::string heard = "alone";
    if (numbers) {
      coord::Channel words = *context.channel("words");
      std::vector<std::string> texts = co_await numbers->gather(std::to_string(numbers->rank()));
      heard = co_await numbers->broadcast(fmt::format("{}", fmt::join(texts, " ")));
      std::string word = numbers->rank() == odd_ ? "odd" : "even";
      co_await words.agree("the word", std::move(word));
    }
    co_return finish(std::move(context), std::move(heard));
  }

  Awaitable<Talk> metadata(LoadContext context) const override {
    Talk talk;
    talk.heard = context.channel("numbers") ? "together" : "alone";
    co_return talk;
  }

 private:
  static Background<Talk> finish(LoadContext context, std::string heard) {
    Talk talk;
    talk.heard = std::move(heard);
    static_cast<void>(co_await context.read_file("talk"));
    co_return talk;
  }

  std::size_t odd_;
};

class TalkingRanks : public ::testing::Test {
 protected:
  /// Saves two values, whose handlers talk in channels of the same names.
  void save(const Context& context) const {
    const Talk talk;
    static_cast<void>(core::start_save(directory_ / "step", {{"a", talk}, {"b", talk}}, registry(SIZE_MAX),
                                       SaveOptions(), context)
                          .wait());
  }

  [[nodiscard]] std::string load(const Context& context, bool is_together, std::size_t odd = SIZE_MAX) const {
    LoadOptions options;
    options.together = is_together;
    Loaded loaded = core::start_load(directory_ / "step", {}, registry(odd), options, context).wait();
    return loaded.take<Talk>("a").heard + ", " + loaded.take<Talk>("b").heard;
  }

  static RegistrySnapshot registry(std::size_t odd) {
    HandlerRegistry handlers;
    handlers.add(std::make_shared<const LoadTalkHandler>(odd));
    return handlers.snapshot();
  }

  const testing::TempDir directory_;
};

TEST_F(TalkingRanks, HearEachOtherInALoadTogether) {
  JointJob job{JointJob::Options(3)};
  const Context alone;
  save(alone);
  std::vector<std::string> heard(3);

  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         heard[rank] = load(job.context(rank), true);
         return SaveResult();
       })) {
    EXPECT_EQ(end.text(), "committed");
  }

  EXPECT_THAT(heard, ::testing::Each("0 1 2, 0 1 2"));
}

TEST_F(TalkingRanks, LoadAloneWithoutTheOthers) {
  JointJob job{JointJob::Options(2)};
  const Context alone;
  save(alone);

  EXPECT_EQ(load(job.context(1), false), "alone, alone");
  EXPECT_EQ(load(alone, true), "alone, alone");
  const CheckpointMetadata stored =
      core::read_metadata(directory_ / "step", {}, registry(SIZE_MAX), LoadOptions(), job.context(1));
  EXPECT_EQ(stored.at("a").as<Talk>().heard, "alone");
}

TEST_F(TalkingRanks, AllFailWhereTheyDisagree) {
  JointJob job{JointJob::Options(3)};
  const Context alone;
  save(alone);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    static_cast<void>(load(job.context(rank), true, 1));
    return SaveResult();
  });
  for (const RankEnd& end : ends) {
    EXPECT_THAT(end.text(), ::testing::AllOf(HasSubstr("the word"), HasSubstr("rank 1 has 'odd'")));
    EXPECT_EQ(end.text(), ends.front().text());
  }
}

}  // namespace
}  // namespace cairn
