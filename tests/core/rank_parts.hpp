// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/contract/handler.hpp"
#include "cairn/coord/coordinator.hpp"

#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// A value of which each rank has a part.
struct Part {
  Part() = default;
  explicit Part(std::string content) : text(std::move(content)) {}

  std::string text;
};

/// What goes wrong, or is waited for, on the way of a part. Called with the rank; may throw.
struct PartHooks {
  std::function<void(std::size_t rank)> blocking = [](std::size_t) {};
  std::function<void(std::size_t rank)> background = [](std::size_t) {};
  std::function<void(std::size_t rank)> loading = [](std::size_t) {};
};

/// Saves on all ranks: each writes a file of its own, unless it has nothing. Loads all of them, one after the other.
class PartHandler final : public CheckpointableHandler<Part> {
 public:
  explicit PartHandler(std::shared_ptr<const PartHooks> hooks = std::make_shared<const PartHooks>())
      : hooks_(std::move(hooks)) {}

  std::string_view id() const noexcept override { return "test.part/1"; }
  Participation participation() const noexcept override { return Participation::all; }

  // outlives: the caller keeps the part during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Part& part) const override {
    const std::size_t rank = context.coordinator().rank();
    hooks_->blocking(rank);
    co_return write(hooks_, std::move(context), rank, part.text);
  }

  Awaitable<Background<Part>> load(LoadContext context, std::optional<Part>) const override {
    co_return read(hooks_, std::move(context));
  }

  Awaitable<Part> metadata(LoadContext) const override { co_return Part(); }

 private:
  static Background<> write(std::shared_ptr<const PartHooks> hooks, SaveContext context, std::size_t rank,
                            std::string text) {
    std::function<void()> hook = [&] { hooks->background(rank); };
    co_await context.run(std::move(hook));
    if (!text.empty()) {
      std::string name = fmt::format("part-{}", rank);
      co_await context.write_file(std::move(name), std::move(text));
    }
  }

  static Background<Part> read(std::shared_ptr<const PartHooks> hooks, LoadContext context) {
    std::function<void()> hook = [&] { hooks->loading(context.coordinator().rank()); };
    co_await context.run(std::move(hook));
    Part all;
    for (const std::string& file : context.files()) {
      all.text += co_await context.read_file(file);
    }
    co_return all;
  }

  std::shared_ptr<const PartHooks> hooks_;
};

/// The operating system as one rank has it.
class RankSyscalls final : public ForwardingSyscalls {
 public:
  /// Called before and after a rename to a name that is no reserved one.
  std::function<void()> before_publication = [] {};
  std::function<void()> after_publication = [] {};
  /// Called before a read of more than a few pages.
  std::function<void()> before_large_read = [] {};
  /// Renames to reserved names fail, as where a file system cannot swap or move what it should.
  std::atomic<bool> moves_nothing_away{false};

  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    if (moves_nothing_away && new_name[0] == '.') {
      errno = EINVAL;
      return -1;
    }
    if (old_name[0] != '.' || new_name[0] == '.') {
      return ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
    }
    before_publication();
    const int result = ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
    after_publication();
    return result;
  }

 private:
  std::int64_t pass(const PassingCall& call) noexcept override {
    if (call.kind == CallKind::read && call.bytes > (std::size_t{64} << 10)) {
      before_large_read();
    }
    return call.make();
  }
};

}  // namespace cairn::testing
