// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cairn::faults {

/// Ends the program when a case does not end, and says which it was; likewise when a case ends the program.
class Watchdog {
 public:
  /// Watches a case for as long as it lives. One at a time.
  class Watch {
   public:
    explicit Watch(std::string title);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
  };
};

}  // namespace cairn::faults
