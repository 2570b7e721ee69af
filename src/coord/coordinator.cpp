// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/coordinator.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/require_timeout.hpp"
#include "coord/notices.hpp"
#include "coord/sessions.hpp"

namespace cairn::coord {
namespace {

void check(const Transport& transport, const CoordinatorOptions& options) {
  const auto refuse = [](const std::string& why) { throw Error(Errc::invalid_argument, why); };
  if (transport.rank() >= transport.size()) {
    refuse(fmt::format("rank {} of a job of {} ranks", transport.rank(), transport.size()));
  }
  if (transport.hosts().size() != transport.size()) {
    refuse(fmt::format("{} hosts for {} ranks", transport.hosts().size(), transport.size()));
  }
  if (options.fan_out == 0) {
    refuse("CoordinatorOptions::fan_out is 0");
  }
  if (options.heartbeat.count() <= 0 || options.lost_after < options.heartbeat) {
    refuse("CoordinatorOptions::lost_after is shorter than heartbeat, or heartbeat is not positive");
  }
  require_not_negative(options.join_timeout, "CoordinatorOptions::join_timeout");
}

}  // namespace

Coordinator::Coordinator(std::unique_ptr<Transport> transport, CoordinatorOptions options)
    : lost_after_(options.lost_after), transport_(std::move(transport)) {
  check(*transport_, options);
  sessions_ = std::make_shared<Sessions>(*transport_, options);
  notices_ = std::make_shared<Notices>(*transport_, options);
  transport_->look_within(options.lost_after / 4);  // Who is asked answers in time.
  transport_->listen(
      [sessions = sessions_, notices = notices_](std::size_t from, const Packet& packet) {
        if (Notices::is_notice(*packet)) {
          notices->receive(from, packet);
        } else {
          sessions->receive(from, packet);
        }
      },
      [sessions = sessions_, notices = notices_] {
        notices->close();
        sessions->close();
      });
}

Coordinator::~Coordinator() {
  notices_->close();
  sessions_->close();
}

std::size_t Coordinator::rank() const noexcept {
  return transport_->rank();
}

std::size_t Coordinator::size() const noexcept {
  return transport_->size();
}

std::uint32_t Coordinator::host() const noexcept {
  return hosts()[rank()];
}

std::span<const std::uint32_t> Coordinator::hosts() const noexcept {
  return transport_->hosts();
}

std::size_t Coordinator::ranks_on_host() const noexcept {
  return static_cast<std::size_t>(std::count(hosts().begin(), hosts().end(), host()));
}

Session Coordinator::join(SessionPurpose purpose, Timeout join_timeout) {
  return std::move(join_several(std::vector{FailureScope::job}, std::move(purpose), join_timeout).front());
}

std::vector<Session> Coordinator::join_several(const std::vector<FailureScope>& scopes,
                                               SessionPurpose purpose, Timeout join_timeout) {
  require_not_negative(join_timeout, "join_timeout");
  std::vector<Session> sessions;
  for (std::shared_ptr<SessionState>& state : sessions_->join(scopes, purpose, join_timeout)) {
    sessions.push_back(Session(std::move(state), sessions_));
  }
  return sessions;
}

Hash128 Coordinator::job() const noexcept {
  return transport_->job();
}

std::exception_ptr Coordinator::loss() const {
  return sessions_->loss();
}

bool Coordinator::ask(std::size_t other) {
  return sessions_->ask(other);
}

void Coordinator::notify(std::string_view topic, std::string_view text) {
  notices_->send(topic, text);
}

std::shared_ptr<void> Coordinator::listen(std::string topic, NoticeHandler handler) {
  return Notices::listen(notices_, std::move(topic), std::move(handler));
}

bool Coordinator::progress() {
  const bool needs_threads = turn();
  if (needs_threads && sessions_->rest()) {
    turn();  // Sends that, before the thread is gone.
  }
  return needs_threads;
}

bool Coordinator::turn() {
  return transport_->progress();
}

}  // namespace cairn::coord
