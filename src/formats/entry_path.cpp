// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/utf8.hpp"
#include "formats/internal/index.hpp"

namespace cairn::formats {
namespace {

bool is_escaped_key(std::string_view key) noexcept {
  if (key == "~2") {
    return true;
  }
  for (std::size_t at = key.find('~'); at != std::string_view::npos; at = key.find('~', at + 2)) {
    if (at + 1 == key.size() || (key[at + 1] != '0' && key[at + 1] != '1')) {
      return false;
    }
  }
  return !key.empty();
}

std::string unescape(std::string_view key) {
  std::string out;
  if (key == "~2") {
    return out;
  }
  for (std::size_t at = 0; at < key.size(); ++at) {
    if (key[at] == '~') {
      ++at;
      out.push_back(key[at] == '0' ? '~' : '/');
    } else {
      out.push_back(key[at]);
    }
  }
  return out;
}

/// Returns whether no key is empty or escaped, as nearly all are: one look at each character.
bool has_plain_keys(std::string_view path) noexcept {
  char previous = '/';
  for (const char c : path) {
    if (c == '~' || (c == '/' && previous == '/')) {
      return false;
    }
    previous = c;
  }
  return previous != '/';
}

/// Takes the first key off `rest`; false when it was the last.
bool next_key(std::string_view& rest, std::string_view& key) noexcept {
  const std::size_t slash = rest.find('/');
  key = rest.substr(0, slash);
  if (slash == std::string_view::npos) {
    return false;
  }
  rest.remove_prefix(slash + 1);
  return true;
}

}  // namespace

void append_key(std::string& path, std::string_view key) {
  if (!path.empty()) {
    path.push_back('/');
  }
  if (key.empty()) {
    path += "~2";
    return;
  }
  const auto is_special = [](char c) { return c == '~' || c == '/'; };
  if (std::none_of(key.begin(), key.end(), is_special)) {
    path.append(key);
    return;
  }
  for (const char c : key) {
    if (c == '~') {
      path += "~0";
    } else if (c == '/') {
      path += "~1";
    } else {
      path.push_back(c);
    }
  }
}

bool is_entry_path(std::string_view path) noexcept {
  if (path.empty()) {
    return true;
  }
  if (has_plain_keys(path)) {
    return is_valid_utf8(path);
  }
  std::string_view key;
  std::string_view rest = path;
  bool has_more = true;
  while (has_more) {
    has_more = next_key(rest, key);
    if (!is_escaped_key(key)) {
      return false;
    }
  }
  return is_valid_utf8(path);
}

std::vector<std::string> split_path(std::string_view path) {
  if (!is_entry_path(path)) {
    throw Error(Errc::malformed_metadata, fmt::format("'{}' is not a path of a tree", path));
  }
  std::vector<std::string> keys;
  std::string_view key;
  std::string_view rest = path;
  bool has_more = !path.empty();
  while (has_more) {
    has_more = next_key(rest, key);
    keys.push_back(unescape(key));
  }
  return keys;
}

std::string shown(std::string_view path) {
  return path.empty() ? "the root" : fmt::format("'{}'", path);
}

}  // namespace cairn::formats
