// SPDX-License-Identifier: Apache-2.0
// The response of a load in flight.
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "api/fixture.hpp"
#include "support/held_syscalls.hpp"

namespace cairn {
namespace {

using testing::Fails;
using testing::Held;

class ALoadInFlight : public testing::ApiTest {
 protected:
  ALoadInFlight() : ApiTest(small()) {
    save(target(), {{"weights", weights_}}, {}, *context_);
    ContextOptions options = small();
    options.syscalls = calls_;
    context_.emplace(std::move(options));
    wanted_ = metadata(target(), *context_);
    wanted_["weights"].place_into(weights_);
    calls_->hold(Held::read, 1 << 20, std::size_t{1} << 20);
  }

  ~ALoadInFlight() override {
    calls_->let_go();
    context_.reset();
  }

  [[nodiscard]] TreeResponse start() const { return load_async(target(), wanted_, {}, *context_); }

  /// Changes a byte in the middle of the elements.
  void damage() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(target())) {
      if (entry.path().extension() == ".safetensors") {
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
        file.put('?');
      }
    }
  }

  /// Runs `task` as far as it comes without waiting; `has_ended` says whether that was to its end.
  void follow(Awaitable<> task, bool* has_ended) {
    boost::asio::co_spawn(io_, std::move(task), [has_ended](const std::exception_ptr& failure) {
      *has_ended = true;
      if (failure) {
        std::rethrow_exception(failure);
      }
    });
    io_.poll();
  }

  boost::asio::io_context io_;
  const std::shared_ptr<testing::HeldSyscalls> calls_ = std::make_shared<testing::HeldSyscalls>();
  std::vector<float> weights_ = std::vector<float>(1 << 22, 1.0F);
  AbstractTree wanted_;
};

TEST_F(ALoadInFlight, ReleasesTheCallersMemoryAtItsEndAndNotBefore) {
  const TreeResponse response = start();
  EXPECT_TRUE(calls_->holds());
  bool is_released = false;

  follow(response.released(), &is_released);
  EXPECT_FALSE(is_released);
  EXPECT_FALSE(response.is_released());
  calls_->let_go();
  io_.restart();
  io_.run();

  EXPECT_TRUE(is_released);
  EXPECT_TRUE(response.is_released());
  static_cast<void>(response.wait());
}

TEST_F(ALoadInFlight, IsReleasedAtOnceWhenItHasEnded) {
  calls_->let_go();
  const TreeResponse response = start();
  response.wait_done();
  bool is_released = false;
  bool is_done = false;

  follow(response.released(), &is_released);
  follow(response.done(), &is_done);
  io_.restart();
  io_.run();

  EXPECT_TRUE(is_released);
  EXPECT_TRUE(is_done);
}

TEST_F(ALoadInFlight, IsNotDoneBeforeItsEnd) {
  const TreeResponse response = start();
  EXPECT_TRUE(calls_->holds());
  bool is_done = false;

  follow(response.done(), &is_done);
  EXPECT_FALSE(is_done);
  calls_->let_go();
  io_.restart();
  io_.run();

  EXPECT_TRUE(is_done);
}

TEST_F(ALoadInFlight, HasLoadedWhatWasVerified) {
  const TreeResponse response = start();
  EXPECT_TRUE(calls_->holds());

  EXPECT_GE(response.progress().total_bytes, weights_.size() * sizeof(float));
  EXPECT_LT(response.progress().loaded_bytes, response.progress().total_bytes);
  calls_->let_go();  // The response waits for its memory.
}

TEST_F(ALoadInFlight, HasLoadedAllAtItsEnd) {
  calls_->let_go();
  const TreeResponse response = start();

  static_cast<void>(response.wait());

  EXPECT_GE(response.progress().total_bytes, weights_.size() * sizeof(float));
  EXPECT_EQ(response.progress().loaded_bytes, response.progress().total_bytes);
}

TEST_F(ALoadInFlight, HasNotLoadedWhatIsDamaged) {
  calls_->let_go();
  damage();
  const TreeResponse response = start();

  EXPECT_THAT([&] { static_cast<void>(response.wait()); }, Fails(Errc::checksum_mismatch));

  EXPECT_LT(response.progress().loaded_bytes, response.progress().total_bytes);
}

}  // namespace
}  // namespace cairn
