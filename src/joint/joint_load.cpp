// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/joint_load.hpp"

#include <system_error>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::joint {
namespace {

/// Returns whether a failure says something of the checkpoint, whichever rank has met it, and nothing of that rank.
bool is_of_checkpoint(const std::error_code& code) {
  return code == Errc::checksum_mismatch || code == Errc::malformed_metadata || code == Errc::not_committed ||
         code == Errc::unsupported_version;
}

}  // namespace

std::unique_ptr<JointLoad> JointLoad::join(coord::Coordinator& coordinator, std::string path,
                                           Timeout join_timeout) {
  return coordinator.size() == 1 ? nullptr
                                 : std::make_unique<JointLoad>(coordinator, std::move(path), join_timeout);
}

JointLoad::JointLoad(coord::Coordinator& coordinator, std::string path, Timeout join_timeout)
    : rank_(static_cast<std::uint32_t>(coordinator.rank())),
      work_(coordinator.join({"loads", std::move(path)}, join_timeout)) {}

JointLoad::~JointLoad() {
  if (!has_ended_) {
    CAIRN_PROBE("joint.load_dropped");
    fail(std::make_exception_ptr(Error(Errc::closed, "the load was dropped")));
  }
  work_.leave_later();
}

Awaitable<> JointLoad::agree(RankValues rank_values) {
  coord::Channel channel = work_.channel("claims");
  Awaitable<std::string> reducing = channel.reduce(encode_rank_values(rank_, rank_values), merge_rank_values);
  const std::string merged = co_await std::move(reducing);
  if (const std::optional<Disagreement> difference = difference_in(merged)) {
    CAIRN_PROBE("joint.ranks_load_different_things");
    const Error error(Errc::invalid_argument,
                      fmt::format("the ranks do not load the same: {}", difference->text));
    listener_.note_own_failure();
    work_.fail_together(error);
    throw error;
  }
}

Awaitable<std::string> JointLoad::share(std::string text) const {
  return work_.channel("checkpoint").broadcast(std::move(text));
}

Awaitable<> JointLoad::end() {
  CAIRN_ASSERT(!has_ended_, "a load ends once");
  coord::Channel channel = work_.channel("end");
  Awaitable<std::vector<std::string>> all = channel.gather("");
  static_cast<void>(co_await std::move(all));
  Awaitable<std::string> told = channel.broadcast("");
  static_cast<void>(co_await std::move(told));
  has_ended_ = true;
}

void JointLoad::fail(const std::exception_ptr& why) noexcept {
  listener_.note_own_failure();
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (is_of_checkpoint(error.code())) {
      fail_together(error);
      return;
    }
  } catch (...) {
  }
  work_.fail(why);
}

void JointLoad::fail_together(const Error& why) noexcept {
  listener_.note_own_failure();
  work_.fail_together(Error(why.code(), fmt::format("rank {}: {}", rank_, why.detail())));
}

}  // namespace cairn::joint
