// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/claims.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/base/some_ranks.hpp"

#include "base/internal/packed.hpp"
#include "coord/internal/some_ranks.hpp"

namespace cairn::joint {
namespace {

constexpr std::size_t kMostShownBytes = 200;  // Of a claim in which ranks differ.
constexpr std::size_t kMostOpinions = 4;      // Of ranks that differ.

/// Ranks that claim the same, and what.
struct Opinion {
  SomeRanks ranks;
  std::string_view claims;
};

using OpinionClaims = std::vector<std::pair<std::string_view, std::string_view>>;

std::string encode(const std::vector<Opinion>& opinions) {
  std::string text;
  for (const Opinion& opinion : opinions) {
    coord::put_ranks(text, opinion.ranks);
    put_text(text, opinion.claims);
  }
  return text;
}

std::vector<Opinion> decode(std::string_view text) {
  std::vector<Opinion> opinions;
  while (!text.empty()) {
    Opinion& opinion = opinions.emplace_back();
    opinion.ranks = coord::take_ranks(text);
    if (opinion.ranks.lowest.empty()) {
      throw Error(Errc::malformed_metadata, "claims of no rank");
    }
    opinion.claims = take_text(text);
  }
  return opinions;
}

OpinionClaims claims_of(const Opinion& opinion) {
  OpinionClaims claims;
  for (std::string_view text = opinion.claims; !text.empty();) {
    const std::string_view what = take_text(text);
    claims.emplace_back(what, take_text(text));
  }
  return claims;
}

/// What an opinion has of something; nothing where it is silent.
std::optional<std::string_view> find(const OpinionClaims& claims, std::string_view what) {
  const auto found =
      std::find_if(claims.begin(), claims.end(), [what](const auto& claim) { return claim.first == what; });
  return found == claims.end() ? std::nullopt : std::optional(found->second);
}

/// Who has what of something, the lowest ranks first; empty where all have the same.
std::string difference_of(std::string_view what, const std::vector<Opinion>& opinions,
                          const std::vector<OpinionClaims>& claims) {
  std::vector<std::pair<std::optional<std::string_view>, SomeRanks>> holders;
  for (std::size_t i = 0; i < opinions.size(); ++i) {
    const std::optional<std::string_view> has = find(claims[i], what);
    const auto same = std::find_if(holders.begin(), holders.end(),
                                   [&has](const auto& holder) { return holder.first == has; });
    if (same == holders.end()) {
      holders.emplace_back(has, opinions[i].ranks);
    } else {
      same->second.add(opinions[i].ranks);
    }
  }
  std::string text;
  for (const auto& [has, ranks] : holders) {
    text += fmt::format("{} {} {} {}", text.empty() ? ":" : ",", to_string(ranks),
                        ranks.count == 1 ? "has" : "have", has ? fmt::format("'{}'", *has) : "none");
  }
  return holders.size() < 2 ? std::string() : std::string(what) + text;
}

}  // namespace

std::string encode_claims(std::uint32_t rank, std::string_view what_is_done, const Claims& claims) {
  std::string text;
  put_text(text, "what is done");
  put_text(text, what_is_done);
  for (const auto& [what, mine] : claims) {
    put_text(text, what);
    const bool is_long = mine.size() > kMostShownBytes;
    put_text(text, is_long
                       ? fmt::format("{}… ({})", mine.substr(0, kMostShownBytes / 2), to_hex(hash_text(mine)))
                       : mine);
  }
  SomeRanks self;
  self.add(rank);
  return encode({{self, text}});
}

std::string merge_claims(const std::vector<std::string>& texts) {
  std::vector<Opinion> merged;
  for (const std::string& text : texts) {
    for (const Opinion& opinion : decode(text)) {
      const auto same = std::find_if(merged.begin(), merged.end(), [&opinion](const Opinion& other) {
        return other.claims == opinion.claims;
      });
      if (same == merged.end()) {
        merged.push_back(opinion);
      } else {
        same->ranks.add(opinion.ranks);
      }
    }
  }
  std::sort(merged.begin(), merged.end(), [](const Opinion& a, const Opinion& b) {
    return a.ranks.lowest.front() < b.ranks.lowest.front();
  });
  merged.resize(std::min(merged.size(), kMostOpinions));
  return encode(merged);
}

std::optional<ClaimDifference> difference_in(std::string_view merged) {
  const std::vector<Opinion> opinions = decode(merged);
  std::vector<OpinionClaims> claims;
  for (const Opinion& opinion : opinions) {
    claims.push_back(claims_of(opinion));
  }
  for (const OpinionClaims& of_one : claims) {
    for (const auto& [what, has] : of_one) {
      std::string text = difference_of(what, opinions, claims);
      if (!text.empty()) {
        return ClaimDifference{std::string(what), std::move(text)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace cairn::joint
