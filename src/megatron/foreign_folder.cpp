// SPDX-License-Identifier: Apache-2.0
#include "megatron/foreign_folder.hpp"

#include <system_error>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cairn/base/error.hpp"

#include "base/internal/natural_order.hpp"

namespace cairn::megatron::detail {
namespace {

constexpr std::size_t kMostNamed = 20;

bool has_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The names in a folder; none where it cannot be listed.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator at(folder, failed);
  while (!failed && at != std::filesystem::directory_iterator()) {
    names.push_back(at->path().filename().string());
    at.increment(failed);
  }
  return names;
}

bool is_foreign_checkpoint(const std::filesystem::path& folder) {
  return has_file(folder / kForeignConfigFile) && has_file(folder / ".metadata");
}

}  // namespace

std::optional<Backend> backend_in(const nlohmann::json& object, const char* name_key,
                                  const char* version_key) {
  if (!object.is_object() || !object.contains(name_key) || !object[name_key].is_string()) {
    return std::nullopt;
  }
  Backend backend{object[name_key].get<std::string>(), 1};
  if (object.contains(version_key) && object[version_key].is_number_unsigned()) {
    backend.version = object[version_key].get<std::uint32_t>();
  }
  return backend;
}

std::optional<ForeignConfig> parse_config(std::string_view text, std::string_view path) {
  const nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: it is not a JSON object: Megatron-Core writes it last, so that the save did "
                            "not end, or it was changed later; load another checkpoint",
                            path));
  }
  const std::optional<Backend> backend = backend_in(config, "sharded_backend", "sharded_backend_version");
  if (!backend) {
    return std::nullopt;
  }
  const auto common = config.find("common_backend");
  return ForeignConfig{*backend, common != config.end() && !common->is_null()};
}

std::string why_not_a_checkpoint(const std::filesystem::path& path) {
  std::vector<std::string> names = names_in(path);
  const auto is_chunks = [](const std::string& name) { return name.ends_with(".distcp"); };
  const bool has_chunks = std::any_of(names.begin(), names.end(), is_chunks);
  const auto describes = [](const std::string& name) { return name.ends_with(".metadata"); };
  if (std::any_of(names.begin(), names.end(), describes)) {
    return {};
  }
  if (has_chunks || (has_file(path / kForeignCommonFile) && !has_file(path / kForeignConfigFile))) {
    return fmt::format(
        "{}: .metadata is missing, which says what the .distcp files hold and is written behind them: the "
        "save did not end; load another checkpoint",
        path.string());
  }
  std::erase_if(names, [&](const std::string& name) { return !is_foreign_checkpoint(path / name); });
  if (names.empty()) {
    return {};
  }
  std::sort(names.begin(), names.end(), is_naturally_less);
  const std::size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(more));  // The newest are named.
  return fmt::format("{} is not a checkpoint, but a folder of some: load one of {}{}", path.string(),
                     fmt::join(names, ", "), more > 0 ? fmt::format(" or {} older ones", more) : "");
}

}  // namespace cairn::megatron::detail
