// SPDX-License-Identifier: Apache-2.0
#include "core/services.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

namespace cairn::core {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMebi = std::size_t{1} << 20;

std::size_t staging_bytes(std::size_t ranks, std::size_t asked_for) {
  ContextOptions options;
  options.staging_bytes = asked_for;
  return Memory(options, {}, ranks).buffers.capacity_bytes();
}

TEST(ContextMemory, IsSharedByTheRanksOfAMachine) {
  EXPECT_NEAR(static_cast<double>(staging_bytes(4, 0)), static_cast<double>(staging_bytes(1, 0)) / 4,
              staging::kBufferBytes);
}

TEST(ContextMemory, IsWhatWasAskedForOnEachRank) {
  EXPECT_EQ(staging_bytes(4, 64 * kMebi), 64 * kMebi);
}

TEST(ContextDisk, HasAtLeastOneRequestInFlight) {
  ContextOptions options;
  options.queue_depth = 0;

  EXPECT_EQ(Disk(options).queue_depth, 1U);
}

TEST(ContextDisk, OpensAsManyFilesAsWasAskedFor) {
  ContextOptions options;
  options.open_files = 7;

  EXPECT_EQ(Disk(options).files.capacity(), 7U);
}

ContextOptions on_threads() {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  return options;
}

TEST(Services, AreGoneWithTheirLastOwner) {
  std::shared_ptr<Services> services = Services::create(on_threads());
  const async::Event gone = services->gone;
  std::shared_ptr<Services> other = services;

  services.reset();
  EXPECT_FALSE(gone.has_happened());
  other.reset();

  EXPECT_TRUE(gone.has_happened());
}

TEST(Services, ThatAreDroppedOnTheirOwnThreadEndOnAnother) {
  std::shared_ptr<Services> services = Services::create(on_threads());
  const async::Event gone = services->gone;
  const async::Event may_drop;
  const auto held = std::make_shared<std::shared_ptr<Services>>(services);
  services->threads.calls.submit([held, may_drop] {
    static_cast<void>(may_drop.wait_for(30s));
    held->reset();
  });

  services.reset();
  EXPECT_FALSE(gone.has_happened());
  may_drop.set();

  EXPECT_TRUE(gone.wait_for(30s));
}

}  // namespace
}  // namespace cairn::core
