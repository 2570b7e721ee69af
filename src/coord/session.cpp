// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/session.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/value_groups.hpp"
#include "coord/sessions.hpp"

namespace cairn::coord {
namespace {

constexpr std::size_t kMostShownBytes = 100;  // Of a text on which ranks do not agree.

Awaitable<std::vector<std::string>> texts_of(std::shared_ptr<Round> round) {
  co_await round->done.wait();
  std::vector<std::string> texts;
  for (RankedText& each : round->texts) {
    texts.push_back(std::move(each.second));
  }
  co_return texts;
}

Awaitable<std::string> text_of(std::shared_ptr<Round> round) {
  co_await round->done.wait();
  co_return std::move(round->text);
}

Awaitable<std::string> merged_text_of(std::shared_ptr<Round> round, bool is_root) {
  co_await round->done.wait();
  co_return is_root ? std::move(round->text) : std::string();
}

/// Returns which ranks say what; empty when all say the same.
std::string difference_in(std::string_view merged) {
  std::vector<ValueGroup> groups = decode_value_groups(merged);
  if (groups.size() < 2) {
    return {};
  }
  std::vector<std::string> shown;
  shown.reserve(groups.size());  // They stay where they are.
  for (ValueGroup& group : groups) {
    const bool is_long = group.value.size() > kMostShownBytes;
    shown.push_back(fmt::format("'{}{}'", group.value.substr(0, kMostShownBytes), is_long ? "…" : ""));
    group.value = shown.back();
  }
  return to_string(groups);
}

Awaitable<Message> message_of(std::shared_ptr<PendingReceive> pending) {
  co_await pending->done.wait();
  co_return std::move(pending->message);
}

/// As the failure of the session it is heard by all, also by those that are slower than a rank that ends because of it.
[[noreturn]] void refuse(SessionState& state, const Error& why) {
  state.fail_together(why);
  if (const std::exception_ptr failure = state.failure()) {
    std::rethrow_exception(failure);
  }
  CAIRN_PROBE("coord.refused_after_leaving");
  throw why;  // This rank has left.
}

Awaitable<> agree_on(std::shared_ptr<SessionState> state, std::string channel, std::uint32_t next,
                     std::string what, std::shared_ptr<Round> up) {
  co_await up->done.wait();
  if (state->rank() == 0) {
    const std::string difference = difference_in(up->text);
    if (!difference.empty()) {
      refuse(*state, Error(Errc::invalid_argument, fmt::format("{}: {}", what, difference)));
    }
  }
  const std::shared_ptr<Round> down = state->begin_down(channel, next, "");
  co_await down->done.wait();
}

void leave_and_forget(SessionState& state, const std::weak_ptr<Sessions>& sessions) noexcept {
  if (state.leave()) {
    if (const auto all = sessions.lock()) {
      all->forget(state.number());
    }
  }
}

}  // namespace

Channel::Channel(std::shared_ptr<SessionState> state, std::string name)
    : state_(std::move(state)), name_(std::move(name)) {}

std::size_t Channel::rank() const noexcept {
  return state_->rank();
}

Awaitable<std::vector<std::string>> Channel::gather(std::string mine) {
  return texts_of(state_->begin_up(name_, next_round_++, std::move(mine), {}));
}

Awaitable<std::string> Channel::reduce(std::string mine, Merge merge) {
  return merged_text_of(state_->begin_up(name_, next_round_++, std::move(mine), std::move(merge)),
                        state_->rank() == 0);
}

Awaitable<std::string> Channel::broadcast(std::string text) {
  return text_of(state_->begin_down(name_, next_round_++, std::move(text)));
}

Awaitable<std::string> Channel::scatter(std::vector<std::string> by_rank) {
  if (state_->rank() == 0 && by_rank.size() != state_->size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} texts for the {} ranks of '{}'", by_rank.size(), state_->size(), name_));
  }
  return text_of(state_->begin_scatter(name_, next_round_++, std::move(by_rank)));
}

Awaitable<> Channel::agree(std::string what, std::string mine) {
  ValueGroup own;
  own.ranks.add(state_->rank());
  own.value = mine;
  std::shared_ptr<Round> up =
      state_->begin_up(name_, next_round_++, encode_value_groups({&own, 1}), merge_encoded_value_groups);
  return agree_on(state_, name_, next_round_++, std::move(what), std::move(up));
}

void Channel::refuse_together(const Error& why) const {
  refuse(*state_, why);
}

void Channel::send(std::span<const std::size_t> ranks, std::string_view text,
                   std::span<const std::byte> data) const {
  state_->send_direct(name_, ranks, text, data);
}

Awaitable<Message> Channel::receive() const {
  return message_of(state_->receive_direct(name_));
}

Session::Session(std::shared_ptr<SessionState> state, std::weak_ptr<Sessions> sessions)
    : state_(std::move(state)), sessions_(std::move(sessions)) {}

Session::~Session() {
  if (state_ && !leaves_later_) {
    CAIRN_PROBE("coord.session_dropped");
    fail(std::make_exception_ptr(Error(Errc::closed, "the conversation was dropped")));
    leave();
  }
}

std::uint64_t Session::number() const noexcept {
  return state_->number();
}

Channel Session::channel(std::string_view name) const {
  CAIRN_ASSERT(state_ != nullptr, "a session that was moved from has no channels");
  return {state_, std::string(name)};
}

void Session::fail(const std::exception_ptr& why) const noexcept {
  state_->fail(why);
}

void Session::fail_together(const Error& why) const noexcept {
  state_->fail_together(why);
}

Awaitable<> Session::failed() const {
  return state_->failed().wait();
}

std::exception_ptr Session::failure() const {
  return state_->failure();
}

void Session::on_failure(std::function<void(const std::exception_ptr& why)> work) const {
  state_->failed().on_complete(std::move(work));
}

SomeRanks Session::missing() const {
  return state_->missing();
}

void Session::leave_later() noexcept {
  CAIRN_ASSERT(state_ != nullptr, "a session leaves while it is there");
  try {
    // The last round that ends leaves: until then each shares `last`.
    const auto end = [state = state_, sessions = sessions_](std::nullptr_t) {
      leave_and_forget(*state, sessions);
    };
    const std::shared_ptr<void> last(nullptr, end);
    leaves_later_ = true;
    for (const auto& round : state_->open_rounds()) {
      round->done.on_complete([last](const std::exception_ptr&) {});
    }
  } catch (...) {  // No memory: what this rank would have passed on is lost, and nobody waits for it.
    CAIRN_PROBE("coord.no_memory_to_leave_later");
    leave();
  }
}

void Session::leave() noexcept {
  leave_and_forget(*state_, sessions_);
}

}  // namespace cairn::coord
