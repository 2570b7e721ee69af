// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "cairn/base/error.hpp"
#include "cairn/contract/checkpointable.hpp"

namespace cairn::testing {

/// An object that saves itself, as a user writes it.
class Counter {
 public:
  std::int64_t value = 0;

  Awaitable<Background<>> save(SaveContext context) const {
    co_return context.write_file("counter.txt", std::to_string(value));
  }

  Awaitable<Background<>> load(LoadContext context) { co_return read(std::move(context)); }

 private:
  Background<> read(LoadContext context) {
    value = std::stoll(co_await context.read_file("counter.txt"));
    if (value < 0) {
      throw Error(Errc::malformed_metadata, "counter.txt: the count is negative");
    }
  }
};

}  // namespace cairn::testing
