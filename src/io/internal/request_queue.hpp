// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/internal/assert.hpp"
#include "io/internal/engine.hpp"

namespace cairn::io {

/// A first-in-first-out queue through `Request::next`; allocates nothing.
/// Threads: not safe.
class RequestQueue {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return first_ == nullptr; }

  void push(Request& request) noexcept {
    request.next = nullptr;
    *(last_ == nullptr ? &first_ : &last_->next) = &request;
    last_ = &request;
  }

  /// Removes the oldest request; the queue must not be empty.
  Request& pop() noexcept {
    CAIRN_ASSERT(first_ != nullptr, "a queue has a request where one is taken");
    Request& request = *first_;
    first_ = std::exchange(request.next, nullptr);
    if (first_ == nullptr) {
      last_ = nullptr;
    }
    return request;
  }

  /// Moves all requests of `other` behind those here.
  void take(RequestQueue& other) noexcept {
    if (other.is_empty()) {
      return;
    }
    CAIRN_ASSERT(&other != this, "a queue is not put behind itself");
    *(last_ == nullptr ? &first_ : &last_->next) = other.first_;
    last_ = other.last_;
    other.first_ = other.last_ = nullptr;
  }

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

}  // namespace cairn::io
