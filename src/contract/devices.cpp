// SPDX-License-Identifier: Apache-2.0
#include "contract/internal/devices.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::contract {
namespace {

using Pins = std::vector<std::shared_ptr<void>>;  // Null where a device refuses.

std::shared_ptr<Pins> pin_on(const std::vector<std::shared_ptr<DeviceCopier>>& copiers,
                             std::span<std::byte> memory) {
  auto pins = std::make_shared<Pins>();
  for (const auto& copier : copiers) {
    pins->push_back(copier->pin(memory));
  }
  return pins;
}

bool is_refused(const Pins& pins) {
  return std::find(pins.begin(), pins.end(), nullptr) != pins.end();
}

}  // namespace

Devices::Devices(std::vector<std::shared_ptr<DeviceCopier>> copiers) : copiers_(std::move(copiers)) {
  for (auto copier = copiers_.begin(); copier != copiers_.end(); ++copier) {
    if (*copier == nullptr) {
      throw Error(Errc::invalid_argument, "ContextOptions::copiers holds a null pointer");
    }
    const Device device = (*copier)->device();
    if (std::any_of(copiers_.begin(), copier, [&](const auto& other) { return other->device() == device; })) {
      throw Error(Errc::already_exists, fmt::format("{} has two copiers", to_string(device)));
    }
  }
}

DeviceCopier* Devices::copier(Device device) const noexcept {
  const auto found = std::find_if(copiers_.begin(), copiers_.end(),
                                  [device](const auto& copier) { return copier->device() == device; });
  return found == copiers_.end() ? nullptr : found->get();
}

staging::MemoryHook Devices::pin() const {
  if (copiers_.empty()) {
    return {};
  }
  return [copiers = copiers_, has_unpinned = has_unpinned_](std::span<std::byte> memory) {
    auto pins = pin_on(copiers, memory);
    if (is_refused(*pins)) {
      *has_unpinned = true;
    }
    return pins;
  };
}

staging::MemoryHook Devices::pin_for_all() const {
  if (copiers_.empty()) {
    return {};
  }
  return [copiers = copiers_](std::span<std::byte> memory) {
    const auto pins = pin_on(copiers, memory);
    return is_refused(*pins) ? std::shared_ptr<void>() : std::shared_ptr<void>(pins);
  };
}

}  // namespace cairn::contract
