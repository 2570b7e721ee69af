// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/describe.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

/// The most keys that an error lists.
constexpr std::size_t kMostStrangers = 20;

std::string child_path(std::string_view path, std::string_view key) {
  std::string child(path);
  formats::append_key(child, key);
  return shown(child);
}

void note_keys(const Tree::Map& children, std::span<const std::string_view> keys, const TreeReader& at) {
  const auto path_of = [&at](std::string_view key) {
    std::string path = at.path;
    formats::append_key(path, key);
    return path;
  };
  for (const std::string_view key : keys) {
    if (!children.contains(key)) {
      at.differences->missing.push_back(path_of(key));
    }
  }
  for (const auto& [key, child] : children) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      at.differences->unexpected.push_back(path_of(key));
    }
  }
}

/// Returns whether a key without a member is a name of an array that has others, too.
bool is_further_name(std::string_view key, const TreeReader& at) {
  if (at.array_names == nullptr) {
    return false;
  }
  std::string path = at.path;
  formats::append_key(path, key);
  if (!at.array_names->names.contains(path)) {
    return false;
  }
  at.array_names->left_out.push_back(std::move(path));
  return true;
}

}  // namespace

void check_keys(const Tree& map, std::span<const std::string_view> keys, const TreeReader& at) {
  const std::string_view path = at.path;
  const Tree::Map& children = map_of(map, path);
  if (at.differences != nullptr) {
    return note_keys(children, keys, at);
  }
  const auto is_stored = [&children](std::string_view key) { return children.contains(key); };
  if (children.size() == keys.size() && std::all_of(keys.begin(), keys.end(), is_stored)) {
    return;  // Of a hundred thousand structs each comes here.
  }
  std::string missing;
  std::string unexpected;
  for (const std::string_view key : keys) {
    if (!children.contains(key)) {
      missing += (missing.empty() ? "" : ", ") + child_path(path, key);
    }
  }
  std::size_t strangers = 0;  // There may be a hundred thousand.
  for (const auto& [key, child] : children) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end() && !is_further_name(key, at) &&
        ++strangers <= kMostStrangers) {
      unexpected += (unexpected.empty() ? "" : ", ") + child_path(path, key);
    }
  }
  if (strangers > kMostStrangers) {
    unexpected += fmt::format(" and {} more", strangers - kMostStrangers);
  }
  if (!missing.empty() || !unexpected.empty()) {
    throw Error(Errc::structure_mismatch,
                fmt::format("{}{}{}{}", missing.empty() ? "" : "members that the tree lacks: ", missing,
                            missing.empty() || unexpected.empty() ? "" : "; ",
                            unexpected.empty() ? "" : "keys that are not members: " + unexpected));
  }
}

}  // namespace cairn::detail
