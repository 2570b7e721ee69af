// SPDX-License-Identifier: Apache-2.0
#include "core/check_options.hpp"

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::core {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

TEST(CheckOptions, AcceptsThoseThatNobodyHasSet) {
  EXPECT_NO_THROW(check_options(ContextOptions()));
  EXPECT_NO_THROW(check_options(SaveOptions()));
}

TEST(CheckOptions, RefusesAnEngineThatIsNotOne) {
  ContextOptions options;
  options.engine = static_cast<io::EngineKind>(7);

  EXPECT_THAT([&] { check_options(options); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("ContextOptions::engine"), HasSubstr("7"))));
}

TEST(CheckOptions, AllowsSoManyThreadsAndNoMore) {
  ContextOptions options;
  options.worker_threads = 4096;
  EXPECT_NO_THROW(check_options(options));

  ++options.worker_threads;
  EXPECT_THAT([&] { check_options(options); },
              Fails(Errc::invalid_argument, HasSubstr("ContextOptions::worker_threads is 4097")));
}

TEST(CheckOptions, RefusesASnapshotThatIsNotOne) {
  SaveOptions options;
  options.snapshot = static_cast<Snapshot>(9);

  EXPECT_THAT([&] { check_options(options); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("SaveOptions::snapshot"), HasSubstr("9"))));
}

}  // namespace
}  // namespace cairn::core
