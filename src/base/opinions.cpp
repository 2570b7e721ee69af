// SPDX-License-Identifier: Apache-2.0
#include "base/internal/opinions.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostOpinions = 4;

}  // namespace

std::vector<Opinion> merge_opinions(std::span<const Opinion> opinions) {
  std::vector<Opinion> merged;
  for (const Opinion& opinion : opinions) {
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&opinion](const Opinion& other) { return other.says == opinion.says; });
    if (same == merged.end()) {
      merged.push_back(opinion);
    } else {
      same->ranks.add(opinion.ranks);
    }
  }
  std::sort(merged.begin(), merged.end(), [](const Opinion& a, const Opinion& b) {
    return a.ranks.lowest.front() < b.ranks.lowest.front();
  });
  merged.resize(std::min(merged.size(), kMostOpinions));
  return merged;
}

std::string to_string(std::span<const Opinion> opinions) {
  std::string text;
  for (const Opinion& opinion : opinions) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", to_string(opinion.ranks),
                        opinion.ranks.count == 1 ? "has" : "have", opinion.says);
  }
  return text;
}

std::string encode_opinions(std::span<const Opinion> opinions) {
  std::string text;
  for (const Opinion& opinion : opinions) {
    put_ranks(text, opinion.ranks);
    put_text(text, opinion.says);
  }
  return text;
}

std::vector<Opinion> decode_opinions(std::string_view text) {
  std::vector<Opinion> opinions;
  while (!text.empty()) {
    Opinion& opinion = opinions.emplace_back();
    opinion.ranks = take_ranks(text);
    if (opinion.ranks.lowest.empty()) {
      throw Error(Errc::malformed_metadata, "message does not name its rank");
    }
    opinion.says = take_text(text);
  }
  return opinions;
}

std::string merge_encoded_opinions(const std::vector<std::string>& texts) {
  std::vector<Opinion> opinions;
  for (const std::string& text : texts) {
    const std::vector<Opinion> some = decode_opinions(text);
    opinions.insert(opinions.end(), some.begin(), some.end());
  }
  return encode_opinions(merge_opinions(opinions));
}

}  // namespace cairn
