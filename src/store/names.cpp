// SPDX-License-Identifier: Apache-2.0
#include "store/names.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "io/internal/check.hpp"

namespace cairn::store {
namespace {

constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::size_t kUuidChars = 36;

}  // namespace

std::string temporary_name(std::string_view name, const Uuid& uuid) {
  return fmt::format("{}{}-{}", kTemporaryPrefix, name, to_string(uuid));
}

std::string trash_name(std::string_view name, const Uuid& uuid) {
  return fmt::format("{}{}-{}", kTrashPrefix, name, to_string(uuid));
}

std::optional<ReservedName> parse_reserved(std::string_view name) {
  const bool is_temporary = name.starts_with(kTemporaryPrefix);
  if (!is_temporary && !name.starts_with(kTrashPrefix)) {
    return std::nullopt;
  }
  const std::size_t prefix = is_temporary ? kTemporaryPrefix.size() : kTrashPrefix.size();
  if (name.size() < prefix + 1 + 1 + kUuidChars || name[name.size() - kUuidChars - 1] != '-') {
    return std::nullopt;
  }
  const std::optional<Uuid> uuid = parse_uuid(name.substr(name.size() - kUuidChars));
  if (!uuid) {
    return std::nullopt;
  }
  const std::string_view base = name.substr(prefix, name.size() - prefix - kUuidChars - 1);
  return ReservedName{is_temporary ? ReservedKind::temporary : ReservedKind::trash, base, *uuid};
}

bool has_reserved_prefix(std::string_view name) noexcept {
  return name.starts_with(kTemporaryPrefix) || name.starts_with(kTrashPrefix);
}

std::optional<ReservedKind> reserved_kind(std::string_view name) {
  const std::optional<ReservedName> parsed = parse_reserved(name);
  return parsed ? std::optional(parsed->kind) : std::nullopt;
}

std::string generation_name(std::string_view name, std::uint32_t generation) {
  CAIRN_ASSERT(generation >= 1, "generations are counted from 1");
  return generation == 1 ? std::string(name) : fmt::format("{}.g{}", name, generation);
}

GenerationName parse_generation(std::string_view name) noexcept {
  const std::size_t dot = name.rfind(".g");
  if (dot == std::string_view::npos || dot == 0) {
    return {name, 1};
  }
  const std::string_view digits = name.substr(dot + 2);
  std::uint32_t generation = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), generation);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.front() == '0' ||
      generation < 2) {
    return {name, 1};
  }
  return {name.substr(0, dot), generation};
}

std::optional<std::vector<io::DirectoryEntry>> list_if_allowed(const io::Directory& directory) {
  std::vector<io::DirectoryEntry> entries;
  const int result = io::uninterrupted([&] {
    entries.clear();
    return directory.syscalls().list(directory.fd(), entries);
  });
  if (result == -EACCES) {
    return std::nullopt;
  }
  io::require(result, "list", directory.path());
  return entries;
}

std::vector<std::uint32_t> list_generations(const io::Directory& parent, std::string_view name) {
  std::optional<std::vector<io::DirectoryEntry>> entries = list_if_allowed(parent);
  if (!entries) {
    entries.emplace();
    if (const auto status = parent.status(name)) {
      entries->push_back({std::string(name), status->kind});
    }
  }
  std::vector<std::uint32_t> generations;
  for (const io::DirectoryEntry& entry : *entries) {
    if (entry.kind != io::FileKind::directory) {
      continue;
    }
    if (entry.name == name) {  // First: the name itself may end in ".g2".
      generations.push_back(1);
    } else if (const GenerationName parsed = parse_generation(entry.name); parsed.base == name) {
      generations.push_back(parsed.generation);
    }
  }
  std::sort(generations.begin(), generations.end(), std::greater<>());
  CAIRN_ASSERT(std::adjacent_find(generations.begin(), generations.end()) == generations.end(),
               "a directory has one entry for each generation");
  return generations;
}

}  // namespace cairn::store
