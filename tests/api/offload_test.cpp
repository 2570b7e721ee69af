// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/offload.hpp"

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "api/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;

class Offload : public testing::ApiTest {};

TEST_F(Offload, RemovesACheckpointForWhoAwaitsIt) {
  save_items({{"state", tree_}});
  const auto remove = [&] { return remove_checkpoint(target(), {}, *context_); };

  const store::RemovalReport report = run(offload(remove, *context_));

  EXPECT_THAT(report.kept, IsEmpty());
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Offload, MaySaveAndLoadInItsContext) {
  const auto work = [&] {
    save_items({{"state", tree_}});
    return load_items().take<Tree>("state");
  };

  EXPECT_EQ(run(offload(work, *context_)), tree_);
}

TEST_F(Offload, RunsElsewhereAndThrowsWhatTheWorkThrows) {
  std::thread::id thread;
  const auto work = [&] {
    thread = std::this_thread::get_id();
    throw Error(Errc::not_found, "nothing of that kind");
  };

  EXPECT_THAT([&] { run(offload(work, *context_)); },
              Fails(Errc::not_found, HasSubstr("nothing of that kind")));
  EXPECT_NE(thread, std::thread::id());
  EXPECT_NE(thread, std::this_thread::get_id());
}

/// Removes a checkpoint in its background phase.
struct RemovesWhileItIsSaved {
  Awaitable<Background<>> save(SaveContext /*context*/) const { co_return remove(path, context); }

  static Background<> remove(fs::path path, const Context* where) {  // outlives: the context, of the test.
    const auto work = [path] { remove_checkpoint(path); };
    co_await offload(work, *where);
  }

  Awaitable<Background<>> load(LoadContext /*context*/) { co_return Background<>(); }

  fs::path path;
  const Context* context = nullptr;
};

TEST_F(Offload, IsRefusedOnTheContextsOwnThreads) {
  EXPECT_THAT(
      [&] {
        save_items({{"object", RemovesWhileItIsSaved{target(), &*context_}}});
      },
      Fails(Errc::invalid_argument, HasSubstr("offload: would deadlock")));
  EXPECT_THAT(left(), IsEmpty());
}

}  // namespace
}  // namespace cairn
