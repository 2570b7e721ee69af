// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "io/internal/engine.hpp"

namespace cairn::io {

/// An engine whose completions a test invents: `answer` gets each request and returns its result, at once.
class FaultyEngine final : public Engine {
 public:
  using Answer = std::function<std::int64_t(const Request&)>;

  explicit FaultyEngine(Answer answer) : answer_(std::move(answer)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "faulty"; }
  [[nodiscard]] Syscalls& syscalls() noexcept override { return posix_syscalls(); }
  void submit(Request& request) noexcept override { request.done(request, answer_(request)); }

 private:
  Answer answer_;
};

}  // namespace cairn::io
