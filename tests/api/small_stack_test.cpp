// SPDX-License-Identifier: Apache-2.0
// What a thread needs that calls the library: the guide says how much stack.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <pthread.h>

#include "cairn/api/maintain.hpp"

#include "api/fixture.hpp"
#include "support/sanitizer.hpp"

namespace cairn {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

/// Runs `work` on a thread with a small stack; returns what it throws, in words.
std::string on_small_stack(std::size_t stack_bytes, std::function<void()> work) {
  struct Job {
    std::function<void()> work;
    std::string failure;
  } job{std::move(work), {}};
  const auto run = [](void* argument) -> void* {
    Job& here = *static_cast<Job*>(argument);
    try {
      here.work();
    } catch (const std::exception& error) {
      here.failure = error.what();
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread{};
  const int started = ::pthread_create(&thread, &attributes, run, &job);
  ::pthread_attr_destroy(&attributes);
  if (started != 0) {
    return "no thread";
  }
  ::pthread_join(thread, nullptr);
  return job.failure;
}

class SmallStack : public testing::ApiTest {};

TEST_F(SmallStack, OfTheFloorIsEnoughToSaveLoadListAndRemove) {
  if (testing::kHasSanitizer) {
    GTEST_SKIP() << "a sanitizer makes frames larger";
  }
  const auto work = [this] {
    const Tree tree = {{"weights", Array::zeros({1 << 20}, DType::float32)}, {"step", 7}};
    SaveOptions options;
    options.overwrite = true;
    save(target(), tree, options, *context_);
    save(target(), tree, options, *context_);
    Tree loaded = load(target(), LoadOptions(), *context_);
    static_cast<void>(metadata(target(), LoadOptions(), *context_));
    static_cast<void>(list_checkpoints(directory_.path(), {}, *context_));
    static_cast<void>(latest_checkpoint(directory_.path(), {}, *context_));
    static_cast<void>(recover(directory_.path(), {}, *context_));
    static_cast<void>(verify(target(), {}, *context_));
    static_cast<void>(remove_checkpoint(target(), {}, *context_));
  };

  EXPECT_EQ(on_small_stack(kStackBytes, work), "");
}

}  // namespace
}  // namespace cairn
