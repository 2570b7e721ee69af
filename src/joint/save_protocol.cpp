// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/save_protocol.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::joint {

SaveProtocol::Act SaveProtocol::after(Act done) noexcept {
  switch (done) {
    case Act::write:
      return is_primary_ ? Act::collect_votes : Act::prepare;
    case Act::collect_votes:
      return Act::publish;
    case Act::prepare:
      if (!commit_.begin_commit()) {
        CAIRN_PROBE("joint.stopped_before_its_vote");
        return Act::fail;
      }
      return Act::hand_over;
    case Act::hand_over:
      return Act::vote;
    case Act::vote:
      return Act::hear_verdict;
    case Act::take_back:
      return Act::fail;
    case Act::tell_failure:
      return Act::abandon;
    case Act::hear_verdict:  // `heard` and `silent` say how these go on, and `failed` after `fail`.
    case Act::ask_disk:
    case Act::fail:
    case Act::publish:
    case Act::close:
    case Act::abandon:
    case Act::end:
      break;
  }
  return Act::end;
}

void SaveProtocol::did(Act act) noexcept {
  if (act != act_) {
    return;
  }
  CAIRN_ASSERT(act != Act::hear_verdict && act != Act::ask_disk && act != Act::fail && act != Act::end,
               "what brings a verdict or a failure ends with that");
  CAIRN_ASSERT(act != Act::publish || commit_.state() != CommitState::State::stopped,
               "a save that was stopped is not published");
  act_ = after(act);
}

void SaveProtocol::failed() noexcept {
  if (act_ == Act::tell_failure || act_ == Act::abandon) {  // The rest is done all the same.
    act_ = after(act_);
    return;
  }
  commit_.stop();  // Before others are told: what they hear must stay true.
  act_ = Act::tell_failure;
}

void SaveProtocol::heard(Ending ending) noexcept {
  CAIRN_ASSERT(act_ == Act::hear_verdict || act_ == Act::ask_disk, "a verdict comes to who waits for it");
  CAIRN_ASSERT(
      commit_.state() != CommitState::State::running && commit_.state() != CommitState::State::stopped,
      "a rank that has voted has begun to commit");
  switch (ending) {
    case Ending::committed:
      static_cast<void>(commit_.end_commit());
      act_ = Act::close;
      return;
    case Ending::aborted:
      act_ = Act::take_back;
      return;
    case Ending::unknown:
      CAIRN_PROBE("joint.verdict_is_unknown");
      act_ = Act::fail;
      return;
  }
}

void SaveProtocol::silent() noexcept {
  CAIRN_ASSERT(act_ == Act::vote || act_ == Act::hear_verdict, "rank 0 is waited for once this rank votes");
  CAIRN_PROBE("joint.rank_0_is_silent");
  act_ = Act::ask_disk;
}

}  // namespace cairn::joint
