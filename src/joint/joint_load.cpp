// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/joint_load.hpp"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "joint/internal/conversations.hpp"

namespace cairn::joint {
namespace {

/// A load needs only the first: no rank has a last word in it.
Conversation join_first_of_two(Coordinator& coordinator) {
  std::vector<Conversation> conversations = join_next(coordinator);
  conversations[1].leave();
  return std::move(conversations[0]);
}

}  // namespace

std::unique_ptr<JointLoad> JointLoad::join(Coordinator& coordinator) {
  return coordinator.size() == 1 ? nullptr : std::make_unique<JointLoad>(coordinator);
}

JointLoad::JointLoad(Coordinator& coordinator)
    : rank_(static_cast<std::uint32_t>(coordinator.rank())), work_(join_first_of_two(coordinator)) {}

JointLoad::~JointLoad() {
  if (!has_ended_) {
    fail(std::make_exception_ptr(Error(Errc::closed, "the load was dropped")));
  }
  work_.leave_later();
}

Awaitable<> JointLoad::agree(Claims claims) {
  Subject subject = work_.about("claims");
  Awaitable<std::string> reducing = subject.reduce(encode_claims(rank_, "load", claims), merge_claims);
  const std::string merged = co_await std::move(reducing);
  if (const std::optional<ClaimDifference> difference = difference_in(merged)) {
    const Error error(Errc::invalid_argument,
                      fmt::format("the ranks do not load the same: {}", difference->text));
    listener_.note_own_failure();
    work_.fail_together(error);
    throw error;
  }
}

Awaitable<std::string> JointLoad::share(std::string text) const {
  return work_.about("checkpoint").broadcast(std::move(text));
}

Awaitable<> JointLoad::end() {
  Subject subject = work_.about("end");
  Awaitable<std::vector<std::string>> all = subject.gather("");
  static_cast<void>(co_await std::move(all));
  Awaitable<std::string> told = subject.broadcast("");
  static_cast<void>(co_await std::move(told));
  has_ended_ = true;
}

void JointLoad::fail(const std::exception_ptr& why) noexcept {
  listener_.note_own_failure();
  work_.fail(why);
}

}  // namespace cairn::joint
