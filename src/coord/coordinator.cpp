// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/coordinator.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/exchanges.hpp"
#include "coord/notices.hpp"

namespace cairn {
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
}

}  // namespace

Coordinator::Coordinator(std::unique_ptr<Transport> transport, CoordinatorOptions options)
    : lost_after_(options.lost_after), transport_(std::move(transport)) {
  check(*transport_, options);
  exchanges_ = std::make_shared<coord::Exchanges>(*transport_, options);
  notices_ = std::make_shared<coord::Notices>(*transport_, options);
  transport_->look_within(options.lost_after / 4);  // Who is asked answers in time.
  transport_->listen(
      [exchanges = exchanges_, notices = notices_](std::size_t from, const Packet& packet) {
        if (coord::Notices::is_notice(*packet)) {
          notices->receive(from, packet);
        } else {
          exchanges->receive(from, packet);
        }
      },
      [exchanges = exchanges_, notices = notices_] {
        notices->close();
        exchanges->close();
      });
}

Coordinator::~Coordinator() {
  notices_->close();
  exchanges_->close();
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

Conversation Coordinator::join() {
  return Conversation(exchanges_->join({Bond::all}).front(), exchanges_);
}

std::vector<Conversation> Coordinator::join(const std::vector<Bond>& bonds) {
  std::vector<Conversation> conversations;
  for (std::shared_ptr<coord::Exchange>& exchange : exchanges_->join(bonds)) {
    conversations.push_back(Conversation(std::move(exchange), exchanges_));
  }
  return conversations;
}

Hash128 Coordinator::job() const noexcept {
  return transport_->job();
}

void Coordinator::notify(std::string_view topic, std::string_view text) {
  notices_->send(topic, text);
}

std::shared_ptr<void> Coordinator::listen(std::string topic, NoticeHandler handler) {
  return coord::Notices::listen(notices_, std::move(topic), std::move(handler));
}

bool Coordinator::progress() {
  const bool needs_threads = turn();
  if (needs_threads && exchanges_->rest()) {
    turn();  // Sends that, before the thread is gone.
  }
  return needs_threads;
}

bool Coordinator::turn() {
  return transport_->progress();
}

}  // namespace cairn
