// SPDX-License-Identifier: Apache-2.0
// Removals that fail half way: the step is gone, its bytes are not.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <iterator>
#include <utility>

#include <gmock/gmock.h>

#include "training/disks.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::Fails;
using testing::FailsWithErrno;
using testing::FaultyCheckpointers;
using ::testing::HasSubstr;
using testing::HeldCheckpointers;
using testing::latest_after;

/// Removals of which the first call that removes a file fails, so often.
class FailingRemovals : public FaultyCheckpointers {
 protected:
  [[nodiscard]] KeepPolicy failing(int times) {
    return latest_after([this, times, calls = 0]() mutable {
      io::Fault fault;
      fault.call = io::Call::unlink;
      fault.count = times;
      fault.result = -EIO;
      if (++calls == 2) {
        disk_->plan(fault);
      }
    });
  }
  [[nodiscard]] std::ptrdiff_t trash() const {
    return std::count_if(fs::directory_iterator(root()), fs::directory_iterator(),
                         [](const fs::directory_entry& each) {
                           return each.path().filename().string().starts_with(".trash-");
                         });
  }
};

TEST_F(FailingRemovals, OfWhatWasRenamedAwayAreToldAndMadeGoodAfterTheNextSave) {
  const auto run = make(keeping(failing(1)));
  save(*run, 0).wait();
  run->wait();
  save(*run, 1).wait();
  EXPECT_THAT([&] { run->wait(); }, FailsWithErrno(EIO, HasSubstr("step 0 was not removed")));
  EXPECT_EQ(trash(), 1);

  save(*run, 2);
  run->wait();
  EXPECT_EQ(trash(), 0);
  run->close();
}

TEST_F(FailingRemovals, OfWhatWasRenamedAwayAreMadeGoodByClose) {
  const auto run = make(keeping(failing(1)));
  save(*run, 0).wait();
  run->wait();
  save(*run, 1).wait();

  run->close();
  EXPECT_EQ(trash(), 0);
}

TEST_F(FailingRemovals, OfWhatWasRenamedAwayAreToldByCloseWhereTheyGoOnFailing) {
  const auto run = make(keeping(failing(io::kForEver)));
  save(*run, 0).wait();
  run->wait();
  save(*run, 1).wait();
  EXPECT_THAT([&] { run->wait(); }, FailsWithErrno(EIO, HasSubstr("step 0")));

  EXPECT_THAT([&] { run->close(); }, FailsWithErrno(EIO, HasSubstr(".trash-0-")));
  EXPECT_EQ(trash(), 1);
  disk_->clear();
}

TEST_F(FailingRemovals, ThatSomebodyHasAskedForAreMadeGoodToo) {
  const auto run = make();
  save(*run, 0).wait();
  save(*run, 1).wait();
  run->wait();
  io::Fault fault;
  fault.call = io::Call::unlink;
  fault.result = -EIO;
  disk_->plan(fault);
  EXPECT_THAT([&] { run->remove(0); }, FailsWithErrno(EIO, HasSubstr("step 0")));
  EXPECT_EQ(trash(), 1);

  run->close();
  EXPECT_EQ(trash(), 0);
}

TEST_F(HeldCheckpointers, ARemovalThatHasPassedItsDeadlineIsToldUntilItHasEnded) {
  CheckpointerOptions options = keeping(latest_after([this, calls = 0]() mutable {
    if (++calls == 2) {
      disk_->hold(testing::Held::unlink, 1);
    }
  }));
  options.close_timeout = seconds(1);
  const auto run = make(std::move(options));
  save(*run, 0).wait();
  run->wait();
  save(*run, 1).wait();
  ASSERT_TRUE(disk_->holds());
  std::future<void> idle = std::async(std::launch::async, [&] { run->wait(); });
  while (idle.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    clock_->advance(std::chrono::milliseconds(100));
  }
  EXPECT_THAT([&] { idle.get(); }, Fails(Errc::timed_out, HasSubstr("step 0 was not removed")));
  save(*run, 2).wait();
  EXPECT_THAT([&] { run->wait(); }, Fails(Errc::timed_out, HasSubstr(".trash-0-")));

  disk_->let_go();
  for (std::uint64_t step = 3; step < 10'000; ++step) {
    try {
      save(*run, step).wait();
      run->wait();
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::timed_out) << error.what();
    }
  }
  run->close();
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace cairn
