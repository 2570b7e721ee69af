// SPDX-License-Identifier: Apache-2.0
#include "coord/notices.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/internal/probe.hpp"
#include "coord/packet.hpp"

namespace cairn::coord {

bool Notices::is_notice(std::string_view packet) noexcept {
  try {
    return decode(packet).head.kind == PacketKind::notice;
  } catch (...) {  // Bytes that no rank of ours sends: sessions tell those who wait.
    return false;
  }
}

void Notices::send(std::string_view topic, std::string_view text) {
  PacketHead head;
  head.kind = PacketKind::notice;
  head.channel = topic;
  const auto packet = std::make_shared<const std::string>(encode(head, text));
  if (rank_ == 0) {
    send_below(packet);
    return;
  }
  const MutexLock lock(mutex_);
  if (transport_ != nullptr) {
    transport_->send(0, packet);
  }
}

void Notices::send_below(const Packet& packet) {
  const MutexLock lock(mutex_);
  for (const std::size_t child : tree_.children(rank_)) {
    if (transport_ != nullptr) {
      transport_->send(child, packet);
    }
  }
}

void Notices::receive(std::size_t from, const Packet& packet) noexcept {
  try {
    if (rank_ != 0) {
      send_below(packet);
    }
    const DecodedPacket decoded = decode(*packet);
    for (const std::shared_ptr<Listener>& each : listeners_of(decoded.head.channel)) {
      const MutexLock lock(each->mutex);
      if (each->handler) {
        each->handler(rank_ == 0 ? from : 0, decoded.body);
      }
    }
  } catch (...) {  // No memory: as if it had been lost on its way.
    CAIRN_PROBE("coord.notice_lost");
  }
}

void Notices::close() noexcept {
  const MutexLock lock(mutex_);
  transport_ = nullptr;
}

std::shared_ptr<void> Notices::listen(const std::shared_ptr<Notices>& notices, std::string topic,
                                      NoticeHandler handler) {
  auto listener = std::make_shared<Listener>(std::move(topic), std::move(handler));
  std::shared_ptr<void> token(listener.get(), [notices, listener](void*) {
    {
      const MutexLock lock(listener->mutex);
      listener->handler = nullptr;
    }
    notices->forget(listener.get());
  });
  const MutexLock lock(notices->mutex_);
  notices->listeners_.push_back(std::move(listener));
  return token;
}

std::vector<std::shared_ptr<Notices::Listener>> Notices::listeners_of(std::string_view topic) const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Listener>> found;
  std::copy_if(listeners_.begin(), listeners_.end(), std::back_inserter(found),
               [topic](const auto& each) { return each->topic == topic; });
  return found;
}

void Notices::forget(const Listener* listener) noexcept {
  const MutexLock lock(mutex_);
  std::erase_if(listeners_, [listener](const auto& each) { return each.get() == listener; });
}

}  // namespace cairn::coord
