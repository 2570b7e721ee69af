// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.hpp"

#include <cstddef>
#include <string_view>

#include "base/internal/printable.hpp"
#include "io/internal/file.hpp"

namespace cairn::cli {
namespace {

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

/// Puts `to` for the path `from` wherever that is a whole path, or one that is followed by what lies below.
void replace_path(std::string& text, const std::string& from, const std::string& to) {
  constexpr std::string_view kAfterPath = "/:;,' ";
  std::size_t at = 0;
  while ((at = text.find(from, at)) != std::string::npos) {
    const std::size_t end = at + from.size();
    const bool is_whole = end == text.size() || kAfterPath.find(text[end]) != std::string_view::npos;
    if (is_whole) {
      text.replace(at, from.size(), to);
    }
    at += is_whole ? to.size() : 1;
  }
}

}  // namespace

std::string path_text(const std::filesystem::path& path) {
  return printable(path.string());
}

std::string as_typed(std::string text, std::span<const std::filesystem::path> typed) {
  for (const std::filesystem::path& path : typed) {
    if (!path.empty() && path.is_relative()) {
      replace_path(text, without_slash(path_text(std::filesystem::absolute(path))),
                   without_slash(path_text(path)));
    }
  }
  return text;
}

std::string name_of(const std::filesystem::path& path) {
  return io::named_path(path).filename().string();
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  const std::filesystem::path named = io::named_path(path);
  return named.has_parent_path() ? named.parent_path() : std::filesystem::absolute(named).parent_path();
}

}  // namespace cairn::cli
