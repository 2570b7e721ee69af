// SPDX-License-Identifier: Apache-2.0
// Ranks tell each other their keys on a simulated network.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "coord/simulated_job.hpp"
#include "megatron/memory_checkpoint.hpp"
#include "megatron/rank_keys.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::Job;
using testing::Shared;

constexpr std::uint32_t kManyRanks = 200;
constexpr std::uint32_t kStages = 4;

/// A stage's tensors, an object of the rank's own, and one of the grid of stages of which copies are many.
StateDict of_rank(std::uint32_t rank) {
  const std::uint32_t stage = rank % kStages;
  StateDict dict = {{"own", ShardedObject{"rng", 1, {kManyRanks}, {rank}}},
                    {"copied", ShardedObject{"schedule", 2, {kStages}, {stage}, rank / kStages}}};
  for (int i = 0; i < 5; ++i) {
    const std::string key = fmt::format("layers.{}.w", kStages * i + stage);
    dict[key] = ShardedTensor::from_rank_offsets(key, counted({1}), {}, {rank / kStages});
  }
  return dict;
}

/// Two rounds; `wrong` changes the dict of rank 37 in the second.
template <class Wrong>
Awaitable<std::string> agree_twice(Shared session, std::size_t number, Wrong wrong) {
  const auto rank = static_cast<std::uint32_t>(number);
  std::optional<coord::SaidBefore> before;
  std::string story;
  for (const bool is_second : {false, true}) {
    coord::Channel channel = session->channel(is_second ? "second" : "first");
    StateDict dict = of_rank(rank);
    if (is_second && rank == 37) {
      wrong(dict);
    }
    std::string keys = detail::encode_keys(detail::prepare(dict, detail::Purpose::save), rank);
    Awaitable<coord::Reduced> agreeing =
        detail::agree_on_keys(channel, std::move(keys), before, Hash128(), "state");
    const coord::Reduced reduced = co_await std::move(agreeing);
    before = reduced.said;
    story += reduced.is_known ? "known " : "news ";
    std::string nothing;  // What rank 0 refuses is known to others in the round that follows.
    static_cast<void>(co_await channel.broadcast(std::move(nothing)));
  }
  co_return story;
}

Awaitable<std::string> agree_alike(Shared session, std::size_t rank) {
  return agree_twice(std::move(session), rank, [](StateDict&) {});
}

Awaitable<std::string> agree_with_a_second_main(Shared session, std::size_t rank) {
  return agree_twice(std::move(session), rank, [](StateDict& dict) {
    dict["copied"] = ShardedObject{"schedule", 2, {kStages}, {0}};
  });
}

Awaitable<std::string> agree_with_another_role(Shared session, std::size_t rank) {
  return agree_twice(std::move(session), rank, [](StateDict& dict) {
    dict["copied"] = ShardedTensor::from_rank_offsets("schedule", counted({1}));
  });
}

TEST(KeysOfRanks, AreSaidOnce) {
  Job job(kManyRanks, 16);
  EXPECT_THAT(Job::texts(job.run(agree_alike)), Each("news known "));
}

TEST(KeysOfRanks, OfAGridThatIsTooLargeAreCounted) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 32;
  const StateDict dict = {{"o", ShardedObject{"rng", 1, {kHalf, kHalf}, {0, 0}}}};
  const std::string keys = detail::encode_keys(detail::prepare(dict, detail::Purpose::save), 0);

  EXPECT_THAT(
      [&] { detail::check_keys(keys); },
      testing::Fails(Errc::incomplete_shards, HasSubstr("'rng': 1 of its more than 2^64 objects are there")));
}

TEST(KeysOfRanks, AreCheckedForAll) {
  Job job(kManyRanks, 16);
  EXPECT_THAT(Job::texts(job.run(agree_with_a_second_main)),
              Each(HasSubstr("'state': 'schedule/shard_0_4': ranks 0 and 37 both have it as main replica")));
  Job other(kManyRanks, 16);
  EXPECT_THAT(Job::texts(other.run(agree_with_another_role)),
              Each(HasSubstr("'state': 'schedule' is a tensor on rank 37 and an object on rank 0")));
}

}  // namespace
}  // namespace cairn::megatron
