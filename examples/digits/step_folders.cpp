// SPDX-License-Identifier: Apache-2.0
#include "digits/step_folders.hpp"

#include <chrono>
#include <cstdint>

#include <cairn/cairn.hpp>
#include <fmt/format.h>

namespace digits {
namespace {

std::int64_t microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

std::size_t clean(const std::filesystem::path& root, const cairn::Context& context) {
  std::size_t removed = 0;
  for (const auto& entry : cairn::recover(root, {}, context).entries) {
    removed += entry.is_removed ? 1u : 0u;
  }
  return removed;
}

std::string facts_of(const cairn::SaveResult& result) {
  return fmt::format("blocking_us={} durable_us={} bytes={} files={} engine={}",
                     microseconds(result.blocking_time), microseconds(result.durable_time), result.bytes,
                     result.files, result.engine);
}

}  // namespace digits
