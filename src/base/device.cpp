// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/device.hpp"

#include <fmt/format.h>

namespace cairn {

std::string to_string(Device device) {
  return device.is_host() ? "cpu" : fmt::format("cuda:{}", device.index);
}

}  // namespace cairn
