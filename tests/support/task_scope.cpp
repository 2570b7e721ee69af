// SPDX-License-Identifier: Apache-2.0
#include "support/task_scope.hpp"

#include <utility>

#include "cairn/async/awaitable.hpp"

namespace cairn::testing {
namespace {

Awaitable<> join_group(std::shared_ptr<async::TaskGroup> group) {
  const std::vector<std::exception_ptr> failures = co_await async::TaskGroup::settle(std::move(group));
  async::rethrow_first(failures);
}

}  // namespace

TaskScope::TaskScope(Executor executor) : group_(std::make_shared<async::TaskGroup>(std::move(executor))) {}

TaskScope::~TaskScope() {
  if (group_->is_running()) {
    std::terminate();
  }
}

void TaskScope::spawn(Awaitable<> task) {
  group_->spawn(std::move(task));
}

void TaskScope::cancel() {
  group_->cancel();
}

Awaitable<> TaskScope::join() {
  return join_group(group_);
}

void TaskScope::wait() {
  group_->wait();
}

}  // namespace cairn::testing
