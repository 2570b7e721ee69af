// SPDX-License-Identifier: Apache-2.0
#include "cairn/observe/report.hpp"

#include <cerrno>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/core/format.hpp"

#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "io/faulty_syscalls.hpp"

namespace cairn {
namespace {

using std::chrono::nanoseconds;
using ::testing::AllOf;
using testing::Blob;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMebi;
using testing::make_blob;
using ::testing::Not;

nanoseconds sum(const Report& report) {
  return std::accumulate(report.steps.begin(), report.steps.end(), nanoseconds{0});
}

class SaveReport : public testing::Observed {};

TEST_F(SaveReport, StepsAddUpToTheWhole) {
  const SaveResult result = save(make_blob(5 * kMebi));

  EXPECT_GT(result.durable_time.count(), 0);
  EXPECT_EQ(sum(result), result.durable_time);
}

TEST_F(SaveReport, TheCallerWaitsForTheFirstTwoSteps) {
  const SaveResult result = save(make_blob(5 * kMebi));

  EXPECT_EQ(result.blocking_time, result.time(Step::resolve) + result.time(Step::stage));
}

TEST_F(SaveReport, EveryStepTakesTime) {
  const SaveResult result = save(make_blob(kMebi));

  std::vector<std::int64_t> ticks;
  for (auto step = Step::resolve; step <= Step::retire;
       step = static_cast<Step>(static_cast<int>(step) + 1)) {
    ticks.push_back(result.time(step).count());
  }
  EXPECT_THAT(ticks, Each(Gt(0)));
}

TEST_F(SaveReport, CountsTheBytesOfEachKindOfWork) {
  const SaveResult result = save(make_blob(9 * kMebi));

  EXPECT_EQ(result.bytes, 9 * kMebi);
  EXPECT_EQ(result.work(Work::copy).bytes, 9 * kMebi);
  EXPECT_EQ(result.work(Work::hash).bytes, 9 * kMebi);
  EXPECT_EQ(result.work(Work::write).bytes, 9 * kMebi);
  EXPECT_EQ(result.work(Work::write).count, 3u);
  EXPECT_EQ(result.work(Work::sync).count, 1u);
}

TEST_F(SaveReport, DepthsFitTogether) {
  const TransferFigures transfers = save(make_blob(32 * kMebi)).transfers;

  EXPECT_GE(transfers.highest_depth, 1u);
  EXPECT_GE(transfers.mean_depth, 1.0);
  EXPECT_LE(transfers.mean_depth, static_cast<double>(transfers.highest_depth));
}

TEST_F(SaveReport, HasNothingToComplainAboutWhenAllIsWell) {
  const SaveResult result = save(make_blob(kMebi));

  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.transfers.retried, 0u);
  EXPECT_EQ(result.transfers.shortened, 0u);
}

TEST_F(SaveReport, IsPrintedInAFewLines) {
  const std::string text = fmt::format("{}", save(make_blob(9 * kMebi)));

  EXPECT_THAT(text, AllOf(HasSubstr("saved " + target().string() + ": 9.4 MB in 1 files"),
                          HasSubstr("steps: resolve "), HasSubstr("copy "), HasSubstr("threads: ")));
}

TEST_F(SaveReport, IsJsonWithTheSameFigures) {
  const SaveResult result = save(make_blob(9 * kMebi));

  const auto json = nlohmann::json::parse(to_json(result));

  EXPECT_EQ(json.at("bytes"), result.bytes);
  EXPECT_EQ(json.at("path"), target().string());
  EXPECT_EQ(json.at("work").at("copy").at("bytes"), 9 * kMebi);
  EXPECT_DOUBLE_EQ(json.at("durable_seconds").get<double>(),
                   std::chrono::duration<double>(result.durable_time).count());
  double steps = 0;
  for (const auto& [step, seconds] : json.at("steps").items()) {
    EXPECT_TRUE(step.ends_with("_seconds"));
    steps += seconds.get<double>();
  }
  EXPECT_NEAR(steps, json.at("durable_seconds").get<double>(), 1e-9);
}

TEST(SaveReportJson, ReplacesBytesOfAPathThatAreNoText) {
  SaveResult result;
  result.path = "run/\xff";

  EXPECT_EQ(nlohmann::json::parse(to_json(result)).at("path"), "run/\xEF\xBF\xBD");
}

TEST(SaveReportText, HasALineForTheEngineOneForTheMemoryAndOneForEachFallbackAndProblem) {
  SaveResult result;
  result.engine = "threads";
  result.transfers.retried = 3;
  result.pool.capacity_bytes = 7;
  result.pool.waits = 5;
  result.fallbacks = {"first", "second"};
  result.problems = {"third"};

  EXPECT_THAT(fmt::format("{}", result),
              AllOf(HasSubstr("\n  threads: "), HasSubstr("3 retried"),
                    HasSubstr("\n  staging memory: 0 bytes of 7 bytes, waited 5 times"),
                    HasSubstr("\n  instead: first"), HasSubstr("\n  instead: second"),
                    HasSubstr("\n  problem: third")));
}

TEST(SaveReportText, HasUnitsThatFit) {
  SaveResult result;
  const auto text_of = [&result](std::uint64_t bytes, nanoseconds time) {
    result.bytes = bytes;
    result.durable_time = time;
    return fmt::format("{}", result);
  };

  EXPECT_THAT(text_of(999'999, nanoseconds(999'900'000)),
              AllOf(HasSubstr(": 999999 bytes in"), HasSubstr("durable after 999.9 ms")));
  EXPECT_THAT(text_of(1'000'000, std::chrono::seconds(1)),
              AllOf(HasSubstr(": 1.0 MB in"), HasSubstr("durable after 1.00 s")));
  EXPECT_THAT(text_of(1'000'000'000, std::chrono::milliseconds(500)),
              AllOf(HasSubstr(": 1.00 GB in"), HasSubstr("2.00 GB/s")));
}

TEST(SaveReportText, NamesTheStepsAndTheWorkThatThereWas) {
  SaveResult result;
  result.steps[static_cast<std::size_t>(Step::stage)] = std::chrono::milliseconds(2);
  result.works[static_cast<std::size_t>(Work::hash)] = {3, 7, std::chrono::milliseconds(4)};

  EXPECT_THAT(fmt::format("{}", result), HasSubstr("\n  steps: stage 2.0 ms \n  work: hash 4.0 ms in 3 \n"));
}

TEST(SaveReportJson, ListsEveryFallbackAndProblem) {
  SaveResult result;
  result.fallbacks = {"", "second"};
  result.problems = {"third"};

  const auto json = nlohmann::json::parse(to_json(result));

  EXPECT_EQ(json.at("fallbacks"), nlohmann::json({"", "second"}));
  EXPECT_EQ(json.at("problems"), nlohmann::json::array({"third"}));
}

TEST(LoadReportText, ListsWhereMembersDiffered) {
  LoadResult result;
  result.missing = {"limit"};
  result.unexpected = {"gone", "old"};

  const auto json = nlohmann::json::parse(to_json(result));

  EXPECT_EQ(json.at("missing"), nlohmann::json::array({"limit"}));
  EXPECT_EQ(json.at("unexpected"), nlohmann::json({"gone", "old"}));
  EXPECT_THAT(to_text(result), HasSubstr("\n  not stored: limit\n  left out: gone\n  left out: old"));
}

TEST(SaveReportRate, OfNoTimeIsZero) {
  SaveResult result;
  result.bytes = 7;

  EXPECT_EQ(result.rate(), 0.0);
}

class SmallBudget : public testing::Observed {
 protected:
  static ContextOptions small() {
    ContextOptions options = ticking();
    options.staging_bytes = 8 * kMebi;
    return options;
  }

  SmallBudget() : Observed(small()) {}
};

TEST_F(SmallBudget, SaysHowOftenASaveWaitedForMemory) {
  const PoolFigures pool = save(make_blob(64 * kMebi)).pool;

  EXPECT_EQ(pool.capacity_bytes, 8 * kMebi);
  EXPECT_EQ(pool.peak_bytes, 8 * kMebi);
  EXPECT_GT(pool.waits, 0u);
  EXPECT_GT(pool.wait_time.count(), 0);
}

/// System calls that fail as planned. Each save has its own: another thread may still close files of the last.
class FaultyReport : public testing::Observed {
 protected:
  SaveResult save_with(io::Fault fault) {
    const auto faulty = std::make_shared<io::FaultySyscalls>();
    faulty->plan(fault);
    ContextOptions options = ticking();
    options.syscalls = faulty;
    context_.emplace(std::move(options));
    return save(make_blob(kMebi));
  }

  /// The number of the write that is the blob's: others are of the checkpoint's own files.
  int number_of_data_write() {
    for (int number = 1; number < 20; ++number) {
      if (save_with({io::Call::write, number, 1, -EINTR}).transfers.retried == 1) {
        return number;
      }
    }
    return 0;
  }
};

TEST_F(FaultyReport, CountsAnInterruptedRequest) {
  EXPECT_GT(number_of_data_write(), 0);
}

TEST_F(FaultyReport, CountsAShortRequest) {
  const int number = number_of_data_write();

  const SaveResult result = save_with({io::Call::write, number, 1, 4096, true});

  EXPECT_EQ(result.transfers.shortened, 1u);
}

TEST_F(FaultyReport, SaysThatTheFileSystemRefusesDirectWrites) {
  for (int number = 1; number < 40; ++number) {
    SaveResult result;
    try {
      result = save_with({io::Call::open, number, 1, -EINVAL});
    } catch (const Error&) {
      continue;  // Another file could not be opened.
    }
    if (result.direct_bytes == 0) {
      EXPECT_THAT(result.fallbacks, ElementsAre(AllOf(HasSubstr("'blob/blob.bin'"), HasSubstr("O_DIRECT"))));
      return;
    }
  }
  FAIL() << "no open was the direct one";
}

TEST_F(FaultyReport, TellsThatTheOldCheckpointCouldNotBeRemoved) {
  static_cast<void>(save(make_blob(kMebi)));

  const SaveResult result = save_with({io::Call::unlink, 1, io::kForEver, -EIO});

  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("unlink")));
}

class LoadReport : public testing::Observed {};

TEST_F(LoadReport, StepsAddUpToTheWhole) {
  static_cast<void>(save(make_blob(9 * kMebi)));

  const LoadResult result = load().result();

  EXPECT_GT(result.load_time.count(), 0);
  EXPECT_EQ(sum(result), result.load_time);
  EXPECT_EQ(result.load_time, result.time(Step::find) + result.time(Step::plan) + result.time(Step::fetch));
}

TEST_F(LoadReport, CountsWhatWasReadAndVerified) {
  static_cast<void>(save(make_blob(9 * kMebi)));

  const LoadResult result = load().result();

  EXPECT_EQ(result.bytes, 9 * kMebi);
  EXPECT_EQ(result.files, 1u);
  EXPECT_EQ(result.work(Work::read).bytes, 9 * kMebi);
  EXPECT_EQ(result.work(Work::verify).bytes, 9 * kMebi);
}

TEST_F(LoadReport, LeavesTheValuesToWhoWaits) {
  const Blob blob = make_blob(kMebi);
  static_cast<void>(save(blob));
  const LoadResponse response = core::start_load(target(), {}, registry_, LoadOptions(), *context_);

  EXPECT_EQ(response.result().bytes, kMebi);
  EXPECT_EQ(response.wait().take<Blob>("blob"), blob);
}

TEST_F(LoadReport, IsPrintedAndIsJson) {
  static_cast<void>(save(make_blob(9 * kMebi)));
  const LoadResult result = load().result();

  EXPECT_THAT(fmt::format("{}", result), AllOf(HasSubstr("loaded " + target().string()), HasSubstr("verify "),
                                               Not(HasSubstr("stage "))));
  EXPECT_EQ(nlohmann::json::parse(to_json(result)).at("files"), 1);
}

}  // namespace
}  // namespace cairn
