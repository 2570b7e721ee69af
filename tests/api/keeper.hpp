// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/contract/handler.hpp"

namespace cairn::testing {

/// The abstract value of types that are only saved.
struct NothingAsked {};

/// A handler that keeps what it is told to in its blocking phase, and uses it in the background.
template <class T>
class Keeper final : public CheckpointableHandler<T, NothingAsked> {
 public:
  /// Runs in the blocking phase; what it returns runs in the background and gives the text to write.
  using Keep = std::function<std::function<std::string()>(const T& value)>;

  explicit Keeper(Keep keep) : keep_(std::move(keep)) {}

  std::string_view id() const noexcept override { return "test.keeper/1"; }

  // outlives: used before the first suspension; what is kept of it, tests are about.
  Awaitable<Background<>> save(SaveContext context, const T& value) const override {
    co_return write(std::move(context), keep_(value));
  }

  Awaitable<Background<T>> load(LoadContext /*context*/,
                                std::optional<NothingAsked> /*wanted*/) const override {
    co_return Background<T>();
  }

  Awaitable<NothingAsked> metadata(LoadContext /*context*/) const override { co_return NothingAsked(); }

 private:
  static Background<> write(SaveContext context, std::function<std::string()> late) {
    co_await context.directory_created();
    co_await context.write_file("late.txt", late());
  }

  Keep keep_;
};

}  // namespace cairn::testing
