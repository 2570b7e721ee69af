// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handlers around a handler, for the suite that tests it.

#include <system_error>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/async/awaitable.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/contract/value_traits.hpp"

namespace cairn::testing {

/// A folder for the files of a test, removed with all that is in it.
///
/// Errors: OS errors of mkdtemp.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cairn-conformance-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) {
      throw std::system_error(errno, std::system_category(), pattern);
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// A handler under another id: what a later version of it writes.
template <class H>
class LaterVersion final : public CheckpointableHandler<typename H::Value, typename H::Abstract> {
 public:
  using Value = typename H::Value;
  using Abstract = typename H::Abstract;

  [[nodiscard]] std::string_view id() const noexcept override { return id_; }
  [[nodiscard]] std::span<const std::string_view> other_ids() const noexcept override {
    return handler_.other_ids();
  }
  [[nodiscard]] Participation participation() const noexcept override { return handler_.participation(); }
  // outlives: passed on to a handler that is given the same promise.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Value& value) const override {
    return save_as(id_, context, handler_.save(context, value));
  }
  [[nodiscard]] Awaitable<Background<Value>> load(LoadContext context,
                                                  std::optional<Abstract> wanted) const override {
    return handler_.load(std::move(context), std::move(wanted));
  }
  [[nodiscard]] Awaitable<Abstract> metadata(LoadContext context) const override {
    return handler_.metadata(std::move(context));
  }
  [[nodiscard]] Description describe(const Abstract& stored) const override {
    return handler_.describe(stored);
  }
  [[nodiscard]] bool is_handleable(const Value& value) const override {
    return handler_.is_handleable(value);
  }

 private:
  static Awaitable<Background<>> save_as(std::string id, SaveContext context,
                                         Awaitable<Background<>> saving) {
    async::require_coroutine(saving, "'save'");
    Background<> rest = co_await std::move(saving);
    context.record_id(id);  // In place of that of another form.
    co_return rest;
  }

  H handler_;
  std::string id_ = std::string(handler_.id()) + "999";
};

/// A handler whose background phases wait until the gate is opened: whatever they read of the caller's value, they
/// read after the caller has changed it.
template <class H>
class HeldBack final : public CheckpointableHandler<typename H::Value, typename H::Abstract> {
 public:
  using Value = typename H::Value;
  using Abstract = typename H::Abstract;

  explicit HeldBack(std::shared_future<void> gate) : gate_(std::move(gate)) {}

  [[nodiscard]] std::string_view id() const noexcept override { return handler_->id(); }
  [[nodiscard]] std::span<const std::string_view> other_ids() const noexcept override {
    return handler_->other_ids();
  }
  [[nodiscard]] Participation participation() const noexcept override { return handler_->participation(); }
  // outlives: passed on to a handler that is given the same promise.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Value& value) const override {
    return hold(handler_, std::move(context), &value, gate_);
  }
  [[nodiscard]] Awaitable<Background<Value>> load(LoadContext context,
                                                  std::optional<Abstract> wanted) const override {
    return handler_->load(std::move(context), std::move(wanted));
  }
  [[nodiscard]] Awaitable<Abstract> metadata(LoadContext context) const override {
    return handler_->metadata(std::move(context));
  }
  [[nodiscard]] Description describe(const Abstract& stored) const override {
    return handler_->describe(stored);
  }
  [[nodiscard]] bool is_handleable(const Value& value) const override {
    return handler_->is_handleable(value);
  }

 private:
  static Awaitable<Background<>> hold(std::shared_ptr<const H> handler, SaveContext context,
                                      const Value* value, std::shared_future<void> gate) {
    Awaitable<Background<>> blocking = handler->save(context, *value);
    async::require_coroutine(blocking, "'save'");
    Background<> background = co_await std::move(blocking);
    if (!background.valid()) {
      co_return background;
    }
    co_return finish(std::move(context), std::move(gate), std::move(background));
  }

  static Background<> finish(SaveContext context, std::shared_future<void> gate, Background<> background) {
    std::function<void()> wait = [gate = std::move(gate)] { gate.wait(); };
    co_await context.run(std::move(wait));
    co_await std::move(background);
  }

  std::shared_ptr<const H> handler_ = std::make_shared<const H>();
  std::shared_future<void> gate_;
};

/// Returns whether a value can be copied, so that it shows whether its handler uses it after the blocking phase.
template <class H, class Value>
bool can_be_copied(const Value& value) {
  const Checkpointable item("item", value);
  const auto memory = std::make_shared<WatchedMemory>();
  const bool is_copied = erase_handler(std::make_shared<const H>())->copy(item.value(), memory) != nullptr;
  memory->end();
  return is_copied;
}

}  // namespace cairn::testing
