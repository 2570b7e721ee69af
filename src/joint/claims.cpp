// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/claims.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/hash.hpp"

#include "base/internal/packed.hpp"

namespace cairn::joint {
namespace {

constexpr std::size_t kMostShownBytes = 200;  // Of a claim in which ranks differ.
constexpr char kDiffer = '!';
constexpr char kAgree = '=';

/// How two ranks differ, with what merging says of that; empty when they do not.
std::string difference_between(std::string_view one, std::string_view two) {
  const auto rank = take<std::uint32_t>(one);
  const auto other = take<std::uint32_t>(two);
  while (!one.empty() && !two.empty()) {
    const std::string_view what = take_text(one);
    const std::string_view other_what = take_text(two);
    const std::string_view here = take_text(one);
    const std::string_view there = take_text(two);
    if (what != other_what) {
      return fmt::format("{}rank {} says '{}', rank {} says '{}'", kDiffer, rank, what, other, other_what);
    }
    if (here != there) {
      return fmt::format("{}{}: rank {} has '{}', rank {} has '{}'", kDiffer, what, rank, here, other, there);
    }
  }
  if (one.empty() != two.empty()) {
    return fmt::format("{}ranks {} and {} passed different numbers of arguments", kDiffer, rank, other);
  }
  return {};
}

}  // namespace

std::string encode_claims(std::uint32_t rank, std::string_view what_is_done, const Claims& claims) {
  std::string text(1, kAgree);
  put(text, rank);
  put_text(text, "what is done");
  put_text(text, what_is_done);
  for (const auto& [what, mine] : claims) {
    put_text(text, what);
    const bool is_long = mine.size() > kMostShownBytes;
    put_text(text, is_long
                       ? fmt::format("{}… ({})", mine.substr(0, kMostShownBytes / 2), to_hex(hash_text(mine)))
                       : mine);
  }
  return text;
}

std::string merge_claims(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.front() == kDiffer) {
      return text;
    }
  }
  const std::string_view first = std::string_view(texts.front()).substr(1);
  for (const std::string& text : texts) {
    if (std::string difference = difference_between(first, std::string_view(text).substr(1));
        !difference.empty()) {
      return difference;
    }
  }
  return texts.front();
}

std::optional<std::string_view> difference_in(std::string_view merged) {
  if (!merged.starts_with(kDiffer)) {
    return std::nullopt;
  }
  return merged.substr(1);
}

}  // namespace cairn::joint
