// SPDX-License-Identifier: Apache-2.0
#include "handlers/internal/path_pattern.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::detail {
namespace {

constexpr std::string_view kAnyKeys = "**";

/// Returns whether a key is one that the pattern of a key stands for; adds what its stars stand for to `stars`.
bool matches_key(std::string_view pattern, std::string_view key,
                 std::vector<std::string_view>* stars = nullptr) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t k = 0;
  std::size_t star = kNone;  // The last '*' that was met; the characters [from, taken) of the key are its.
  std::size_t from = 0;
  std::size_t taken = 0;
  const auto close_star = [&] {
    if (stars != nullptr && star != kNone) {
      stars->push_back(key.substr(from, taken - from));
    }
  };
  while (k < key.size() || (p < pattern.size() && pattern[p] == '*')) {
    if (p < pattern.size() && pattern[p] == '*') {
      close_star();
      star = p++;
      from = taken = k;
    } else if (p < pattern.size() && pattern[p] == key[k]) {
      ++p;
      ++k;
    } else if (star != kNone) {
      p = star + 1;
      k = ++taken;
    } else {
      return false;
    }
  }
  close_star();
  return p == pattern.size();
}

}  // namespace

PathPattern::PathPattern(std::string text, std::string_view whose, KeyJoiners joiners)
    : text_(std::move(text)), parts_(split(text_, joiners_)) {
  const auto refuse = [&](std::string_view why) {
    throw Error(Errc::invalid_argument, fmt::format("the pattern '{}' of {} {}", text_, whose, why));
  };
  const auto is_cut = [this](const Part& part) {
    const std::string_view key = std::string_view(text_).substr(part.begin, part.end - part.begin);
    return key != kAnyKeys && key.find(kAnyKeys) != std::string_view::npos;
  };
  if (joiners == KeyJoiners::slash_or_point && std::any_of(parts_.begin(), parts_.end(), is_cut)) {
    joiners_ = "/.";
    parts_ = split(text_, joiners_);
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (key(i).empty()) {
      refuse("has an empty key");
    }
    if (is_cut(parts_[i])) {
      refuse("has '**' in a key, where it must be all of it");
    }
    any_keys_ += key(i) == kAnyKeys ? 1 : 0;
    stars_ +=
        key(i) == kAnyKeys ? 0 : static_cast<std::size_t>(std::count(key(i).begin(), key(i).end(), '*'));
  }
}

std::vector<PathPattern::Part> PathPattern::split(std::string_view text, std::string_view joiners) {
  std::vector<Part> parts;
  std::size_t begin = 0;
  while (!text.empty() && begin <= text.size()) {
    const std::size_t end = std::min(text.find_first_of(joiners, begin), text.size());
    parts.push_back({begin, end, begin == 0 ? '\0' : text[begin - 1]});
    begin = end + 1;
  }
  return parts;
}

std::string_view PathPattern::key(std::size_t i) const noexcept {
  return std::string_view(text_).substr(parts_[i].begin, parts_[i].end - parts_[i].begin);
}

/// Returns whether a key of a path may be the first one that a part stands for.
bool PathPattern::joins(std::size_t i, const Part& of_path) const noexcept {
  return parts_[i].joiner == 0 || of_path.joiner == 0 || parts_[i].joiner == of_path.joiner;
}

/// Says for each part, and each key of a path, whether the parts from there on stand for all keys from there on.
std::vector<bool> PathPattern::fits(std::string_view path, const std::vector<Part>& keys) const {
  const std::size_t row = keys.size() + 1;
  std::vector<bool> fit(row * (parts_.size() + 1));
  fit.back() = true;
  for (std::size_t p = parts_.size(); p-- > 0;) {
    bool fits_later = false;  // The next part, at a key behind this one.
    for (std::size_t k = row; k-- > 0;) {
      const bool is_end = k == keys.size();
      if (key(p) == kAnyKeys) {
        fit[p * row + k] = fit[(p + 1) * row + k] || (!is_end && fits_later && joins(p, keys[k]));
      } else {
        fit[p * row + k] = !is_end && fit[(p + 1) * row + k + 1] && joins(p, keys[k]) &&
                           matches_key(key(p), path.substr(keys[k].begin, keys[k].end - keys[k].begin));
      }
      fits_later = fits_later || fit[(p + 1) * row + k];
    }
  }
  return fit;
}

bool PathPattern::matches(std::string_view path) const {
  return fits(path, split(path, joiners_)).front();
}

bool PathPattern::can_become(const PathPattern& becomes) const noexcept {
  return becomes.stars_ <= stars_ && becomes.any_keys_ <= any_keys_;
}

std::optional<std::string> PathPattern::replaced(std::string_view path, const PathPattern& becomes) const {
  const std::vector<Part> keys = split(path, joiners_);
  const std::vector<bool> fit = fits(path, keys);
  if (!fit.front()) {
    return std::nullopt;
  }
  std::vector<std::string_view> stars;
  std::vector<std::string_view> any_keys;
  for (std::size_t p = 0, k = 0; p < parts_.size(); ++p) {
    if (key(p) != kAnyKeys) {
      matches_key(key(p), path.substr(keys[k].begin, keys[k].end - keys[k].begin), &stars);
      ++k;
      continue;
    }
    const std::size_t first = k;
    while (!fit[(p + 1) * (keys.size() + 1) + k]) {
      ++k;
    }
    any_keys.push_back(k == first ? std::string_view()
                                  : path.substr(keys[first].begin, keys[k - 1].end - keys[first].begin));
  }
  std::string made;
  auto star = stars.begin();
  auto any = any_keys.begin();
  for (std::size_t p = 0; p < becomes.parts_.size(); ++p) {
    std::string text;
    if (becomes.key(p) == kAnyKeys) {
      text = *any++;
    } else {
      for (const char c : becomes.key(p)) {
        c == '*' ? text.append(*star++) : text.append(1, c);
      }
    }
    if (!made.empty() && !text.empty()) {
      made.push_back(becomes.parts_[p].joiner);
    }
    made += text;
  }
  return made;
}

std::size_t likeness(std::string_view a, std::string_view b) {
  const auto is_same = [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); };
  const auto [front, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), is_same);
  const auto same = static_cast<std::size_t>(front - a.begin());
  a.remove_prefix(same);
  b.remove_prefix(same);
  const auto [back, also_unused] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend(), is_same);
  return same + static_cast<std::size_t>(back - a.rbegin());
}

}  // namespace cairn::detail
