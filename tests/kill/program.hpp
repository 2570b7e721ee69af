// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/cairn.hpp"

#include "io/internal/syscalls.hpp"
#include "support/lying_renames.hpp"
#include "support/slow_calls.hpp"

namespace cairn::kill {

/// The world says what the calls of a program are like: "quick"; a number, the milliseconds that the slowest take;
/// "forgotten" or "undead", a library that lies (see testing::RenameLie).
class World {
 public:
  World(const char* words, std::uint64_t seed)
      : words_(words), seed_(seed), slowest_(std::strtol(words, nullptr, 10)) {}

  [[nodiscard]] bool lies() const { return words_ == "forgotten" || words_ == "undead"; }
  [[nodiscard]] bool is_slow() const { return slowest_.count() > 0; }
  /// The longest that a call takes, or about as long as a save does.
  [[nodiscard]] std::chrono::milliseconds slowest() const {
    constexpr std::chrono::milliseconds kSave(10);
    return std::max(slowest_, kSave);
  }

  /// Null: the system's own.
  [[nodiscard]] std::shared_ptr<io::Syscalls> calls() const {
    if (words_ == "forgotten") {
      return std::make_shared<testing::LyingRenames>(testing::RenameLie::forgotten);
    }
    if (words_ == "undead") {
      return std::make_shared<testing::LyingRenames>(testing::RenameLie::undead);
    }
    return is_slow() ? slow_calls() : nullptr;
  }

 private:
  [[nodiscard]] std::shared_ptr<io::Syscalls> slow_calls() const {
    constexpr std::size_t kLeast = 40;
    testing::Disturbances some;
    some.longest = slowest_;
    some.slow = kLeast + static_cast<std::size_t>(slowest_.count()) / 3;
    auto calls = std::make_shared<testing::SlowCalls>(seed_, some);
    calls->stir_up();
    return calls;
  }

  std::string_view words_;
  std::uint64_t seed_;
  std::chrono::milliseconds slowest_;
};

inline Context make_context(std::string_view engine, const World& world) {
  ContextOptions options;
  options.engine = engine == "threads" ? io::EngineKind::threads : io::EngineKind::automatic;
  options.staging_bytes = std::size_t{64} << 20;
  options.syscalls = world.calls();
  if (world.is_slow()) {
    options.stop_grace =
        world.slowest() / 8;  // So that saves are given up while a call of theirs is still slow.
  }
  return Context(std::move(options));
}

inline Context make_context(std::string_view engine) {
  return make_context(engine, World("quick", 0));
}

/// One write for each line, and no buffer: what has been said has been said.
inline void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::_Exit(3);
  }
}

}  // namespace cairn::kill
