// SPDX-License-Identifier: Apache-2.0
#include "coord/lost_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"

namespace cairn::coord {

Packet LostRanks::encode_finding(PacketKind kind, std::uint64_t session, const Finding& finding) {
  PacketHead head;
  head.session = session;
  head.kind = kind;
  std::string body;
  put(body, static_cast<std::uint32_t>(finding.lost));
  put(body, static_cast<std::uint32_t>(finding.finder));
  put(body, finding.number);
  return std::make_shared<const std::string>(encode(head, body));
}

LostRanks::Finding LostRanks::decode_finding(const DecodedPacket& decoded) {
  std::string_view body = decoded.body;
  Finding finding;
  finding.lost = take<std::uint32_t>(body);
  finding.finder = take<std::uint32_t>(body);
  finding.number = take<std::uint32_t>(body);
  return finding;
}

void LostRanks::find(std::size_t lost, std::uint64_t session) {
  const MutexLock lock(mutex_);
  if (transport_ == nullptr || losses_.contains(lost)) {
    return;  // All have heard of it, or will.
  }
  const Finding finding{lost, rank_, ++found_};
  CAIRN_ASSERT(lost != rank_, "a rank is missed by others");
  CAIRN_PROBE("coord.rank_is_missed");
  note(finding);
  const Packet packet = encode_finding(PacketKind::lost, session, finding);
  pass_on(packet, rank_);
  transport_->send(lost, packet);
}

bool LostRanks::ask(std::size_t rank, std::uint64_t session) {
  {
    const MutexLock lock(mutex_);
    if (transport_ == nullptr || losses_.contains(rank)) {
      return false;
    }
    const Transport::Time now = transport_->now();
    const auto [asked, is_answered] = asked_.try_emplace(rank, Question{now});
    asked->second.silence += silence_of(now - std::exchange(asked->second.last, now), options_);
    if (asked->second.silence <= options_.lost_after) {
      return is_answered;
    }
    asked_.erase(asked);
  }
  CAIRN_PROBE("coord.rank_gives_no_answer");
  find(rank, session);
  return false;
}

void LostRanks::take_answer(std::size_t from) {
  const MutexLock lock(mutex_);
  asked_.erase(from);
}

void LostRanks::take_lost(std::size_t from, const DecodedPacket& decoded, const Packet& packet) {
  const Finding finding = decode_finding(decoded);
  const MutexLock lock(mutex_);
  if (transport_ == nullptr) {
    return;
  }
  if (finding.lost == rank_) {
    CAIRN_PROBE("coord.missed_although_it_lives");
    transport_->send(finding.finder, encode_finding(PacketKind::found, decoded.head.session, finding));
  } else if (note(finding)) {
    pass_on(packet, from);
  }
}

void LostRanks::take_found(std::size_t from, const DecodedPacket& decoded, const Packet& packet) {
  const Finding finding = decode_finding(decoded);
  const MutexLock lock(mutex_);
  std::uint32_t& answered = answered_[{finding.lost, finding.finder}];
  if (transport_ == nullptr || finding.number <= answered) {
    return;
  }
  answered = finding.number;
  pass_on(packet, from);  // Before it is forgotten: along the same ways as the finding.
  const auto loss = losses_.find(finding.lost);
  if (loss != losses_.end()) {
    loss->second.findings.erase({finding.finder, finding.number});
    if (loss->second.findings.empty()) {
      losses_.erase(loss);
      CAIRN_PROBE("coord.missed_rank_is_back");
    }
  }
}

void LostRanks::close() noexcept {
  const MutexLock lock(mutex_);
  transport_ = nullptr;
}

std::exception_ptr LostRanks::failure() const {
  const MutexLock lock(mutex_);
  if (transport_ == nullptr || losses_.empty()) {
    return nullptr;
  }
  std::string words;
  for (const auto& [rank, loss] : losses_) {
    const auto passed = std::chrono::floor<std::chrono::seconds>(transport_->now() - loss.since);
    words += fmt::format("{}rank {} is lost", words.empty() ? "" : ", ", rank);
    words += passed.count() == 0 ? "" : fmt::format(", as was found {} s ago", passed.count());
  }
  return std::make_exception_ptr(Error(Errc::peer_lost, fmt::format("{}: {}", words, kEndAndStartAgain)));
}

bool LostRanks::note(const Finding& finding) {
  CAIRN_ASSERT(transport_ != nullptr, "losses are noted while the coordinator is open");
  const auto answered = answered_.find({finding.lost, finding.finder});
  if (answered != answered_.end() && finding.number <= answered->second) {
    return false;
  }
  const auto loss = losses_.try_emplace(finding.lost, Loss{transport_->now()}).first;
  return loss->second.findings.insert({finding.finder, finding.number}).second;
}

void LostRanks::pass_on(const Packet& packet, std::size_t from) {
  CAIRN_ASSERT(transport_ != nullptr, "findings are passed on while the coordinator is open");
  for (const std::size_t rank : neighbours()) {
    if (rank != from) {
      transport_->send(rank, packet);
    }
  }
}

std::set<std::size_t> LostRanks::neighbours() const {
  std::set<std::size_t> reached;
  std::set<std::size_t> seen = {rank_};
  std::vector<std::size_t> next = tree_.neighbours(rank_);
  while (!next.empty()) {
    const std::size_t rank = next.back();
    next.pop_back();
    if (!seen.insert(rank).second) {
      continue;
    }
    if (losses_.contains(rank)) {
      const std::vector<std::size_t> beyond = tree_.neighbours(rank);
      next.insert(next.end(), beyond.begin(), beyond.end());
    } else {
      reached.insert(rank);
    }
  }
  CAIRN_ASSERT(!reached.contains(rank_), "a rank is not its own neighbour");
  return reached;
}

Error closed_by(std::size_t rank) {
  return Error(Errc::peer_failed,
               fmt::format("rank {} has closed its coordinator: it takes part no more", rank));
}

std::chrono::nanoseconds silence_of(std::chrono::nanoseconds elapsed, const CoordinatorOptions& options) {
  constexpr int kMostTicksAtOnce = 2;
  return std::min(elapsed, kMostTicksAtOnce * options.heartbeat);
}

}  // namespace cairn::coord
