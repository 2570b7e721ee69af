// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/handlers/builtin.hpp"

namespace cairn {
namespace {

Background<StatefulReference> finish(Background<> background, StatefulReference object) {
  if (background.valid()) {  // Else it was all done in the blocking phase, as in a save.
    co_await std::move(background);
  }
  co_return object;
}

}  // namespace

// outlives: the reference is copied; the object that it refers to is the caller's.
Awaitable<Background<>> StatefulHandler::save(SaveContext context, const StatefulReference& value) const {
  return value.save(std::move(context));
}

Awaitable<Background<StatefulReference>> StatefulHandler::load(
    LoadContext context, std::optional<StatefulReference> wanted) const {
  if (!wanted || !wanted->can_load()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("'{}' was saved by an object that loads itself: ask for it with {{\"{}\", into(object)}}",
                    context.name(), context.name()));
  }
  Awaitable<Background<>> blocking = wanted->load(std::move(context));
  async::require_coroutine(blocking, "the object's 'load'");
  Background<> background = co_await std::move(blocking);
  co_return finish(std::move(background), *wanted);
}

Awaitable<StatefulReference> StatefulHandler::metadata(LoadContext /*context*/) const {
  co_return StatefulReference();
}

}  // namespace cairn
