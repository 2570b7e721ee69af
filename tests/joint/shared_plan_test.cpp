// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/shared_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn::joint {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t bytes_of(const SharedPlan& plan) {
  return std::accumulate(
      plan.reads.begin(), plan.reads.end(), std::uint64_t{0},
      [](std::uint64_t sum, const SharedPlan::Read& read) { return sum + read.run.bytes; });
}

TEST(SharedPlan, LeavesWhatOneRankWantsToIt) {
  const std::vector<Wants> wants = {{{"a", {{0, kMiB}}}}, {{"a", {{kMiB, kMiB}}}}, {}};

  const std::vector<SharedPlan> plans = plan_shared_reads(wants);

  ASSERT_EQ(plans.size(), 3U);
  EXPECT_EQ(bytes_of(plans[0]), kMiB);
  EXPECT_EQ(bytes_of(plans[1]), kMiB);
  EXPECT_THAT(plans[0].groups, ElementsAre(IsEmpty()));
  EXPECT_THAT(plans[2].reads, IsEmpty());
  for (const SharedPlan& plan : plans) {
    EXPECT_EQ(plan.to_receive, 0U);
  }
}

TEST(SharedPlan, DividesWhatAllWantEqually) {
  const std::vector<Wants> wants(4, {{"a", {{0, 64 * kMiB}}}, {"b", {{4 * kMiB, 12345}}}});

  const std::vector<SharedPlan> plans = plan_shared_reads(wants);

  for (const SharedPlan& plan : plans) {
    EXPECT_NEAR(static_cast<double>(bytes_of(plan)), 16.0 * kMiB, 12345);
    EXPECT_EQ(plan.to_receive + plan.reads.size(), 17U);
    EXPECT_THAT(plan.files, ElementsAre("a", "b"));
    EXPECT_THAT(plan.groups, ElementsAre(::testing::SizeIs(3)));
  }
}

TEST(SharedPlan, IsWhatWasSent) {
  const std::vector<Wants> wants(3, {{"a", {{0, 9 * kMiB}, {16 * kMiB, 77}}}, {"", {}}});
  const SharedPlan plan = plan_shared_reads(wants)[1];

  const SharedPlan heard = decode_plan(encode_plan(plan));

  EXPECT_EQ(encode_plan(heard), encode_plan(plan));
  EXPECT_EQ(heard.files, plan.files);
  EXPECT_EQ(heard.groups, plan.groups);
  EXPECT_EQ(bytes_of(heard), bytes_of(plan));
  EXPECT_EQ(encode_wants(decode_wants(encode_wants(wants[0]))), encode_wants(wants[0]));
  const std::string text = encode_plan(plan);
  EXPECT_THAT([&] { static_cast<void>(decode_plan(std::string_view(text).substr(0, text.size() - 3))); },
              Fails(Errc::malformed_metadata, _));
}

/// Which ranks hold each chunk at the end, and how often it was read.
struct Outcome {
  std::map<std::pair<std::string, std::uint64_t>, std::multiset<std::size_t>> holders;
  std::map<std::pair<std::string, std::uint64_t>, int> reads;
};

Outcome carry_out(const std::vector<SharedPlan>& plans) {
  Outcome outcome;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    for (const SharedPlan::Read& read : plans[rank].reads) {
      for (std::uint64_t at = read.run.offset_bytes; at < read.run.offset_bytes + read.run.bytes;
           at += kMiB) {
        const std::pair chunk(plans[rank].files.at(read.file), at);
        ++outcome.reads[chunk];
        outcome.holders[chunk].insert(rank);
        for (const std::size_t other : plans[rank].groups.at(read.receivers)) {
          outcome.holders[chunk].insert(other);
        }
      }
    }
  }
  return outcome;
}

TEST(SharedPlan, ReadsOnceInEachGroup) {
  const std::vector<Wants> wants(4, {{"a", {{0, 64 * kMiB}}}});
  const std::vector<std::uint32_t> groups = {0, 1, 1, 1};

  const std::vector<SharedPlan> plans = plan_shared_reads(wants, groups);

  EXPECT_EQ(bytes_of(plans[0]), 64 * kMiB);
  EXPECT_EQ(plans[0].to_receive, 0U);
  EXPECT_EQ(bytes_of(plans[1]) + bytes_of(plans[2]) + bytes_of(plans[3]), 64 * kMiB);
  EXPECT_NEAR(static_cast<double>(bytes_of(plans[2])), 64.0 / 3 * kMiB, 4.0 * kMiB);
  for (const SharedPlan& plan : plans) {
    for (const std::vector<std::size_t>& receivers : plan.groups) {
      EXPECT_THAT(receivers, ::testing::Not(::testing::Contains(0)));
    }
  }
}

TEST(SharedPlan, GivesEveryRankWhatItWantsAndReadsNothingTwice) {
  std::mt19937 dice(1);
  for (int round = 0; round < 300; ++round) {
    const std::size_t ranks = 1 + dice() % 9;
    std::vector<std::uint32_t> groups;
    while (round % 2 == 0 && groups.size() < ranks) {
      groups.push_back(static_cast<std::uint32_t>(dice() % 3));
    }
    std::vector<Wants> wants(ranks);
    std::map<std::pair<std::string, std::uint64_t>, std::multiset<std::size_t>> wanted;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const char* file : {"a", "b"}) {
        auto& runs = wants[rank][file];
        for (std::uint64_t at = 0; at < 24; ++at) {
          const std::uint64_t chunks = std::min<std::uint64_t>(1 + dice() % 4, 4 - at % 4);  // Of one window.
          if (dice() % 3 == 0) {
            runs.push_back({at * kMiB, static_cast<std::size_t>(chunks * kMiB)});
            for (std::uint64_t i = 0; i < chunks; ++i) {
              wanted[{file, (at + i) * kMiB}].insert(rank);
            }
          }
          at += chunks - 1;
        }
      }
    }

    const std::vector<SharedPlan> plans = plan_shared_reads(wants, groups);

    const Outcome outcome = carry_out(plans);
    EXPECT_EQ(outcome.holders, wanted);
    for (const auto& [chunk, reads] : outcome.reads) {
      std::set<std::uint32_t> wanting;  // Groups.
      for (const std::size_t rank : wanted.at(chunk)) {
        wanting.insert(groups.empty() ? 0 : groups[rank]);
      }
      EXPECT_EQ(static_cast<std::size_t>(reads), wanting.size());
    }
    std::vector<std::uint64_t> heard(ranks);
    for (const SharedPlan& plan : plans) {
      for (const SharedPlan::Read& read : plan.reads) {
        for (const std::size_t other : plan.groups.at(read.receivers)) {
          ++heard[other];
        }
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(plans[rank].to_receive, heard[rank]);
    }
  }
}

}  // namespace
}  // namespace cairn::joint
