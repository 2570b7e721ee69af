// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

#include "base/internal/mutex.hpp"

namespace cairn::contract {

/// Keeps what handlers leave for the next save: a value for each checkpointable and type. When there are too
/// many, the one that was not asked for the longest is forgotten.
///
/// Threads: every method may be called from any thread.
class KeptValues {
 public:
  using Key = std::pair<std::string, std::type_index>;

  static constexpr std::size_t kMost = 256;

  /// Null when there is none.
  [[nodiscard]] std::shared_ptr<const void> find(const Key& key);
  void keep(Key key, std::shared_ptr<const void> value);

 private:
  struct Entry {
    std::shared_ptr<const void> value;
    std::uint64_t last_use = 0;
  };

  Mutex mutex_;
  std::map<Key, Entry> entries_ CAIRN_GUARDED_BY(mutex_);
  std::uint64_t uses_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn::contract
