// SPDX-License-Identifier: Apache-2.0
#include "digits/step_folders.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

#include <cairn/cairn.hpp>
#include <fmt/format.h>

namespace digits {
namespace {

std::optional<std::int64_t> parse_step(std::string_view name) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool is_step = error == std::errc{} && end == name.data() + name.size() && step >= 0;
  return is_step ? std::optional(step) : std::nullopt;
}

std::int64_t microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

StepFolders recover_step_folders(const std::filesystem::path& root, const cairn::Context& context) {
  std::filesystem::create_directories(root);
  StepFolders found;
  for (const auto& entry : cairn::recover(root, {}, context).entries) {
    found.removed += entry.is_removed ? 1u : 0u;
    if (const auto step = parse_step(entry.name); step && entry.kind == cairn::store::EntryClass::committed) {
      found.committed.push_back(*step);
    }
  }
  std::sort(found.committed.begin(), found.committed.end());
  return found;
}

std::string facts_of(const cairn::SaveResult& result) {
  return fmt::format("blocking_us={} durable_us={} bytes={} files={} engine={}",
                     microseconds(result.blocking_time), microseconds(result.durable_time), result.bytes,
                     result.files, result.engine);
}

}  // namespace digits
