// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/training/partial_save.hpp"

#include "api/fixture.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"

namespace cairn::testing {

/// The files, as the operating system keeps them; one call may fail, and what is written is counted.
class WatchedFiles final : public ForwardingSyscalls {
 public:
  std::int64_t pass(const PassingCall& call) noexcept override {
    if (call.kind == CallKind::write) {
      written_bytes += call.bytes;
    }
    if (is_lower_layer && call.kind == CallKind::rename && is_of_parts(call.name)) {
      return -EXDEV;
    }
    if (call.kind == refused.load() || ++calls == failing_call) {
      if (call.kind == CallKind::close) {
        call.make();  // It is closed whatever it says.
      }
      return -error;
    }
    const bool is_sync = call.kind == CallKind::sync || call.kind == CallKind::sync_data;
    const std::int64_t answer = is_sync && !reaches_disk ? 0 : call.make();
    if (call.kind == CallKind::open && std::string_view(call.name).starts_with(".tmp-.owner-")) {
      if (const auto act = std::exchange(after_mark, nullptr)) {
        act();
      }
    }
    return answer;
  }

  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    const int result = ForwardingSyscalls::list(directory, entries);
    listed_names += entries.size();
    return result;
  }

  // A file may be closed on a thread of the context's after the call that has opened it.
  std::atomic<std::optional<CallKind>> refused{};
  std::atomic<int> error{EIO};
  std::atomic<bool> reaches_disk{true};  // Else syncs are answered at once, for tests of hundreds of saves.
  std::atomic<int> calls{0};
  std::atomic<int> failing_call{0};  // The first is 1.
  std::atomic<std::uint64_t> written_bytes{0};
  std::atomic<std::uint64_t> listed_names{0};
  std::function<void()> after_mark;         // What happens right after the mark of a program was made, once.
  std::atomic<bool> is_lower_layer{false};  // Of overlayfs: directories of parts cannot be renamed.

 private:
  static bool is_of_parts(std::string_view name) {
    return name.starts_with(".partial-") || name.starts_with("part-");
  }
};

class PartialSaves : public ApiTest {
 protected:
  static constexpr std::size_t kValues = 1000;

  PartialSaves() : PartialSaves(std::make_shared<WatchedFiles>()) {}
  explicit PartialSaves(std::shared_ptr<WatchedFiles> files)
      : ApiTest(over(files)), files_(std::move(files)) {}

  static ContextOptions over(std::shared_ptr<WatchedFiles> files) {
    ContextOptions options = small();
    options.syscalls = std::move(files);
    return options;
  }

  /// Which call fails first, and how many calls later the next one does, in tests that take them one after the other.
  struct FailingCalls {
    int first;
    int one_in;
  };
  /// Of each four calls one, of sixteen where a sanitizer watches, and CAIRN_SEED says which; each where it is "all".
  static FailingCalls failing_calls() {
    constexpr int kOneIn = testing::kHasSanitizer ? 16 : 4;
    if (testing::takes_all()) {
      return {1, 1};
    }
    return {1 + static_cast<int>(std::hash<std::string>()(testing::seed()) % kOneIn), kOneIn};
  }

  /// Layer `number` of a model.
  static Tree layer(int number) {
    return {{"layers", {{"layer" + std::to_string(number), {{"w", values(number)}, {"number", number}}}}}};
  }

  static std::vector<float> values(int number) {
    return std::vector<float>(kValues, static_cast<float>(number));
  }

  [[nodiscard]] PartialSave partial(PartialSaveOptions options = {}) const {
    return PartialSave(target(), std::move(options), *context_);
  }

  void expect_layers(int count) const {
    Loaded loaded = load_items();
    const Tree state = loaded.take<Tree>("state");
    EXPECT_EQ(state.at("layers").size(), static_cast<std::size_t>(count));
    for (int number = 0; number < count; ++number) {
      const Tree& one = state.at("layers/layer" + std::to_string(number));
      EXPECT_EQ(one.at("number").as<int>(), number);
      EXPECT_EQ(one.at("w").as<std::vector<float>>(), values(number));
    }
  }

  [[nodiscard]] std::filesystem::path parts() const { return directory_ / ".partial-checkpoint"; }

  std::shared_ptr<WatchedFiles> files_;
};

}  // namespace cairn::testing
