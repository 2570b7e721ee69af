// SPDX-License-Identifier: Apache-2.0
// Saves that fail and cannot remove what they have made.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "io/faulty_syscalls.hpp"
#include "io/internal/syscalls.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/run.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Blob;
using testing::Fails;
using ::testing::HasSubstr;
using testing::make_blob;

class AbandonedSave : public testing::Observed {
 protected:
  static ContextOptions on(std::shared_ptr<io::Syscalls> syscalls) {
    ContextOptions options = ticking();
    options.syscalls = std::move(syscalls);
    return options;
  }

  void save_badly() const {
    const Blob blob = make_blob(1);
    const RegistrySnapshot registry = HandlerRegistry().add<testing::LateFailure>().snapshot();
    core::start_save(target(), {{"blob", blob}}, registry, {}, *context_).wait();
  }
};

TEST_F(AbandonedSave, LeavesNothing) {
  EXPECT_THAT([&] { save_badly(); }, Fails(Errc::shape_mismatch));

  context_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(AbandonedSave, SaysWhatItCouldNotRemove) {
  const auto faulty = std::make_shared<io::FaultySyscalls>();
  faulty->plan({io::Call::unlink, 1, io::kForEver, -EIO});
  context_.emplace(on(faulty));

  EXPECT_THAT([&] { save_badly(); },
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("a blob that nobody likes"), HasSubstr("unlink"))));
}

/// A save that ends only when it is stopped.
class EndlessHandler final : public testing::BlobHandler {
 public:
  // outlives: the caller keeps the blob during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    co_return wait_after(co_await BlobHandler::save(std::move(context), blob));
  }

 private:
  static Background<> wait_after(Background<> written) {
    co_await std::move(written);
    const async::Event never;
    co_await never.wait();
  }
};

/// A disk that removes nothing, and says so when the test allows it.
class KeepingDisk final : public testing::ForwardingSyscalls {
 public:
  const async::Event may_answer;

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    if (call.kind != testing::CallKind::unlink) {
      return call.make();
    }
    may_answer.get();
    return -EIO;
  }
};

/// A save that is cancelled, and whose clean-up ends within the grace or after it.
class StoppedSave : public AbandonedSave, public ::testing::WithParamInterface<bool> {
 protected:
  StoppedSave() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.syscalls = disk_;
    options.stop_grace = std::chrono::seconds(ends_in_time() ? 1000 : 0);
    options.on_lost_failure = [this](const std::string& path, const std::exception_ptr& failure) {
      lost_.emplace_back(path, describe(failure));
    };
    context_.emplace(std::move(options));
  }

  [[nodiscard]] static bool ends_in_time() { return GetParam(); }

  const std::shared_ptr<KeepingDisk> disk_ = std::make_shared<KeepingDisk>();
  std::vector<std::pair<std::string, std::string>> lost_;
};

TEST_P(StoppedSave, TellsWhatItCouldNotRemove) {
  const Blob blob = make_blob(1);
  const RegistrySnapshot registry = HandlerRegistry().add<EndlessHandler>().snapshot();
  const AsyncResponse response = core::start_save(target(), {{"blob", blob}}, registry, {}, *context_);
  ASSERT_TRUE(testing::eventually([&] { return !std::filesystem::is_empty(directory_.path()); }));

  if (ends_in_time()) {
    disk_->may_answer.set();
  }
  response.cancel();
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  if (!ends_in_time()) {
    EXPECT_FALSE(response.is_done());
  }
  disk_->may_answer.set();
  response.wait_done();

  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_EQ(lost_[0].first, target());
  EXPECT_THAT(lost_[0].second, AllOf(HasSubstr("left to recovery"), HasSubstr("Input/output error")));
  EXPECT_NE(prometheus_text(*context_).find("\ncairn_saves_left_to_recovery_total 1\n"), std::string::npos);
  EXPECT_THAT([&] { context_->close(); }, Fails(Errc::io_failure, HasSubstr("left to recovery")));
}

INSTANTIATE_TEST_SUITE_P(Ends, StoppedSave, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "InTime" : "Late"; });

TEST_F(AbandonedSave, CountsWhatItCouldNotRemove) {
  const auto faulty = std::make_shared<io::FaultySyscalls>();
  faulty->plan({io::Call::unlink, 1, io::kForEver, -EIO});
  context_.emplace(on(faulty));
  const Blob blob = make_blob(1);
  const RegistrySnapshot registry = HandlerRegistry().add<testing::LateFailure>().snapshot();

  const AsyncResponse response = core::start_save(target(), {{"blob", blob}}, registry, {}, *context_);
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::shape_mismatch));
  response.wait_done();

  EXPECT_NE(prometheus_text(*context_).find("\ncairn_saves_left_to_recovery_total 1\n"), std::string::npos);
  EXPECT_NO_THROW(context_->close());  // It was told.
}

}  // namespace
}  // namespace cairn
