// SPDX-License-Identifier: Apache-2.0
#include "core/handler_checks.hpp"

#include <system_error>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "core/failures.hpp"

namespace cairn::core {
namespace {

constexpr std::string_view kWhen = "after the end of its blocking phase, when it is the caller's again";

}  // namespace

std::unique_ptr<HandlerChecks> HandlerChecks::make(const ContextOptions& options, Snapshot snapshot,
                                                   std::size_t items) {
  return options.check_handlers ? std::make_unique<HandlerChecks>(snapshot, items) : nullptr;
}

HandlerChecks::~HandlerChecks() {
  for (const Copy& copy : copies_) {
    if (copy.memory) {
      // A copy keeps the memory that it lies in: a circle, which ends when `end` destroys the copy. Handlers that
      // still share an array of it keep the memory for longer.
      copy.memory->end();
    }
  }
}

const void* HandlerChecks::hand_over(std::size_t index, const Checkpointable& item,
                                     const ErasedHandler& handler) {
  if (snapshot_ != Snapshot::copy) {
    return item.value();
  }
  Copy& copy = copies_[index];
  CAIRN_ASSERT(copy.memory == nullptr, "a value is handed over once");
  copy.name = item.name();
  copy.memory = std::make_shared<WatchedMemory>(fmt::format("'{}' (handler {})", item.name(), handler.id()));
  WatchedMemory* memory = copy.memory.get();
  const void* copied = nullptr;
  {
    const WatchedMemory::Allocations here(memory);
    copied = handler.copy(item.value(), copy.memory);
  }
  if (copied == nullptr) {
    copy.memory.reset();
    left_out_.push_back(
        fmt::format("'{}' ({}: see cairn::IsCopyable)", item.name(), type_name(item.shown_type())));
    return item.value();
  }
  for (const std::string& part : memory->left_out()) {
    left_out_.push_back(fmt::format("{} of '{}'", part, item.name()));
  }
  if (memory->has_unwatched()) {
    left_out_.push_back(
        fmt::format("what '{}' has allocated (see cairn/testing/watched_new.hpp)", item.name()));
  }
  return copied;
}

void HandlerChecks::watch(std::size_t index) {
  Copy& copy = copies_[index];
  if (!copy.memory) {
    return;
  }
  try {
    copy.memory->watch();
  } catch (const std::system_error& error) {
    CAIRN_PROBE("core.value_not_watched");
    left_out_.push_back(fmt::format("'{}' ({})", copy.name, error.what()));
  }
}

std::exception_ptr HandlerChecks::judge(std::size_t index, std::exception_ptr failure) const {
  const Copy& copy = copies_[index];
  if (!copy.memory) {
    return failure;
  }
  if (const auto touched = copy.memory->touched()) {
    auto found = std::make_exception_ptr(
        Error(Errc::handler_failed, fmt::format("the handler has used {} {}", *touched, kWhen)));
    const bool has_failed =
        failure && !async::is_cancelled(failure);  // Else another handler's failure has stopped it.
    return has_failed ? combine({std::move(found), std::move(failure)}) : found;
  }
  if (failure && code_of(failure) == std::errc::bad_address) {
    return with_context(failure, fmt::format("the handler may have given the system the value, {}", kWhen));
  }
  return failure;
}

std::string HandlerChecks::not_checked() const {
  if (snapshot_ != Snapshot::copy) {
    return "check_handlers: nothing was checked, because values that are borrowed or shared are read to the "
           "end";
  }
  return left_out_.empty() ? "" : fmt::format("check_handlers: not checked: {}", listed(left_out_));
}

}  // namespace cairn::core
