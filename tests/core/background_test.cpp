// SPDX-License-Identifier: Apache-2.0
// Which threads do what of a save: those of the blocking phase run as the program's own, those of the rest yield.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using testing::Blob;
using testing::BlobHandler;
using testing::Fails;
using ::testing::HasSubstr;
using testing::make_blob;

constexpr int kUnknown = -100;

/// Of the calling thread.
int niceness() {
  return ::getpriority(PRIO_PROCESS, 0);
}

struct Seen {
  std::atomic<int> reading{kUnknown};  ///< The caller's memory.
  std::atomic<int> beside{kUnknown};
  std::atomic<int> loading{kUnknown};
};

/// Zeros that must be read while the caller waits.
class WatchedSource final : public ByteSource {
 public:
  explicit WatchedSource(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

  void read(std::uint64_t, std::span<std::byte> out) const override {
    seen_->reading = niceness();
    std::fill(out.begin(), out.end(), std::byte{});
  }

 private:
  std::shared_ptr<Seen> seen_;
};

/// Notes the niceness of the threads on which its parts run.
class WatchedHandler final : public BlobHandler {
 public:
  explicit WatchedHandler(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    std::vector<SourcePiece> pieces(1);
    pieces[0].size_bytes = blob.bytes.size();
    pieces[0].source = std::make_shared<WatchedSource>(seen_);
    Background<> write = co_await context.write_pieces("blob.bin", std::move(pieces), blob.bytes.size());
    co_return finish(std::move(context), std::move(write), seen_);
  }

  Awaitable<Background<Blob>> load(LoadContext context, std::optional<AbstractBlob> wanted) const override {
    std::function<void()> look = [seen = seen_] { seen->loading = niceness(); };
    co_await context.run(std::move(look));
    co_return co_await BlobHandler::load(std::move(context), std::move(wanted));
  }

 private:
  static Background<> finish(SaveContext context, Background<> write, std::shared_ptr<Seen> seen) {
    std::function<void()> look = [seen] { seen->beside = niceness(); };
    co_await context.run(std::move(look));
    co_await std::move(write);
  }

  std::shared_ptr<Seen> seen_;
};

std::shared_ptr<Seen> save_and_load(int background_niceness,
                                    const SaveOptions& save_options = SaveOptions()) {
  const testing::TempDir directory;
  const auto seen = std::make_shared<Seen>();
  HandlerRegistry registry;
  registry.add(std::make_shared<const WatchedHandler>(seen));
  ContextOptions options;
  options.background_niceness = background_niceness;
  const Context context(std::move(options));
  const Blob blob = make_blob(100);
  core::start_save(directory / "step", {{"blob", blob}}, registry.snapshot(), save_options, context).wait();
  static_cast<void>(
      core::start_load(directory / "step", {}, registry.snapshot(), LoadOptions(), context).wait());
  return seen;
}

TEST(Background, YieldsToTheProgram) {
  const int own = niceness();
  const auto seen = save_and_load(3);

  EXPECT_EQ(seen->reading, own);
  EXPECT_EQ(seen->beside, std::min(own + 3, 19));
  EXPECT_EQ(seen->loading, own);
}

TEST(Background, SoDoCopiesWhenTheProgramHasGoneOnBesideThem) {
  SaveOptions accepted;
  accepted.return_when_accepted = true;
  const int own = niceness();
  const auto seen = save_and_load(3, accepted);

  EXPECT_EQ(seen->reading, std::min(own + 3, 19));
  EXPECT_EQ(seen->loading, own);
}

TEST(Background, RunsAsTheProgramWhenAsked) {
  const int own = niceness();
  const auto seen = save_and_load(0);

  EXPECT_EQ(seen->reading, own);
  EXPECT_EQ(seen->beside, own);
  EXPECT_EQ(seen->loading, own);
}

TEST(Background, RefusesANicenessThatNobodyHas) {
  for (const int niceness : {-1, 20}) {
    ContextOptions options;
    options.background_niceness = niceness;

    EXPECT_THAT([&] { const Context context(options); },
                Fails(Errc::invalid_argument, HasSubstr("background_niceness")));
  }
}

}  // namespace
}  // namespace cairn
