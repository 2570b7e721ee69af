// SPDX-License-Identifier: Apache-2.0
#include "support/slow_calls.hpp"

#include <cerrno>
#include <thread>

#include <fmt/format.h>

namespace cairn::testing {
namespace {

/// What a call of this kind may fail with.
int error_of(CallKind kind, Dice& dice) {
  switch (kind) {
    case CallKind::allocate:
    case CallKind::write:
    case CallKind::make_directory:
      return dice.one_in(2) ? ENOSPC : EIO;
    case CallKind::lock:
      return ENOLCK;
    default:
      return EIO;
  }
}

bool may_be_interrupted(CallKind kind) {
  return kind == CallKind::read || kind == CallKind::write || kind == CallKind::open;
}

bool is_renaming(CallKind kind) {
  return kind == CallKind::rename || kind == CallKind::link;
}

}  // namespace

std::size_t SlowCalls::slowness(const PassingCall& call) const {
  constexpr std::size_t kLarge = 100'000;
  const bool is_transfer =
      (call.kind == CallKind::read || call.kind == CallKind::write) && call.bytes >= kLarge;
  const bool is_commit = is_renaming(call.kind) || call.kind == CallKind::sync;
  // Where others are quick, these may be slow more often.
  constexpr std::size_t kMoreOften = 5;
  switch (disturbances_.focus) {
    case Focus::all:
      return disturbances_.slow;
    case Focus::transfers:
      return is_transfer ? (disturbances_.slow + kMoreOften - 1) / kMoreOften : 0;
    case Focus::commit:
      return is_commit                       ? (disturbances_.slow + kMoreOften - 1) / kMoreOften
             : call.kind == CallKind::unlink ? disturbances_.slow
                                             : 0;
  }
  return 0;
}

SlowCalls::Fate SlowCalls::decide(const PassingCall& call) {
  Fate fate;
  if (is_calm_ || is_spared(call)) {
    return fate;
  }
  const auto at = static_cast<std::size_t>(call.kind);
  // Of each kind the n-th call has the same fate in every run, whichever thread makes it.
  Dice dice(seed_, (at + 1) * 1'000'003 + seen_[at].fetch_add(1));
  const auto happens = [&dice](std::size_t one_in) { return one_in != 0 && dice.one_in(one_in); };
  if (happens(disturbances_.failing)) {
    fate.trouble = Trouble::failure;
  }
  if (is_renaming(call.kind) && happens(disturbances_.lost_answers)) {
    fate.trouble = Trouble::lost_answer;
  }
  if (may_be_interrupted(call.kind) && happens(disturbances_.odd)) {
    fate.trouble = Trouble::oddity;
  }
  fate.error = error_of(call.kind, dice);
  if (happens(slowness(call))) {
    (dice.one_in(2) ? fate.before : fate.after) = dice.up_to(disturbances_.longest);
  }
  return fate;
}

void SlowCalls::spend(CallKind /*kind*/, Duration time) noexcept {
  std::this_thread::sleep_for(time);
}

bool SlowCalls::is_spared(const PassingCall& /*call*/) const noexcept {
  return false;
}

void SlowCalls::tell(CallKind /*kind*/, const std::string& /*what*/) noexcept {}

void SlowCalls::dawdle(CallKind kind, Duration duration) {
  if (duration == duration.zero()) {
    return;
  }
  if (++slow_now_ <= disturbances_.most_slow) {
    ++slow_calls_;
    tell(kind, fmt::format("takes {} ms", duration.count() / 1'000'000));
    spend(kind, duration);
  }
  --slow_now_;
}

std::int64_t SlowCalls::make(const PassingCall& call, const Fate& fate) {
  switch (fate.trouble) {
    case Trouble::none:
      break;
    case Trouble::failure:
      if (call.kind == CallKind::close) {
        call.make();  // A failing close closes, as the kernel's does.
      }
      ++failures_;
      tell(call.kind, "fails");
      return -fate.error;
    case Trouble::lost_answer:
      if (const std::int64_t done = call.make(); done < 0) {
        return done;
      }
      ++lost_answers_;
      tell(call.kind, "is done, and reported as failed");
      return -fate.error;
    case Trouble::oddity:
      return -EINTR;
  }
  return call.make();
}

std::int64_t SlowCalls::pass(const PassingCall& call) noexcept {
  const Fate fate = decide(call);
  dawdle(call.kind, fate.before);
  const std::int64_t result = make(call, fate);
  dawdle(call.kind, fate.after);
  return result;
}

}  // namespace cairn::testing
