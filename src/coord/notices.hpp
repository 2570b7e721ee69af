// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/transport.hpp"

#include "base/internal/mutex.hpp"
#include "coord/tree.hpp"

namespace cairn::coord {

/// Carries what ranks tell each other outside of sessions: to rank 0, and from there to all.
///
/// Threads: every method may be called from any thread; handlers are called on the transport's.
class Notices {
 public:
  Notices(Transport& transport, const CoordinatorOptions& options)
      : transport_(&transport), rank_(transport.rank()), tree_{transport.size(), options.fan_out} {}

  /// Returns whether a packet is a notice, and not part of a session.
  [[nodiscard]] static bool is_notice(std::string_view packet) noexcept;

  void send(std::string_view topic, std::string_view text);
  void receive(std::size_t from, const Packet& packet) noexcept;
  /// Nothing is sent any more.
  void close() noexcept;

  /// Hears those of a topic until what it returns goes. Then the handler does not run, and will not.
  [[nodiscard]] static std::shared_ptr<void> listen(const std::shared_ptr<Notices>& notices,
                                                    std::string topic, NoticeHandler handler);

 private:
  struct Listener {
    Listener(std::string topic_in, NoticeHandler handler_in)
        : topic(std::move(topic_in)), handler(std::move(handler_in)) {}

    const std::string topic;
    Mutex mutex;  // Also while the handler runs.
    NoticeHandler handler CAIRN_GUARDED_BY(mutex);
  };

  void send_below(const Packet& packet);
  [[nodiscard]] std::vector<std::shared_ptr<Listener>> listeners_of(std::string_view topic) const;
  void forget(const Listener* listener) noexcept;

  mutable Mutex mutex_;
  Transport* transport_ CAIRN_GUARDED_BY(mutex_);  // Null once closed.
  const std::size_t rank_;
  const Tree tree_;
  std::vector<std::shared_ptr<Listener>> listeners_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::coord
