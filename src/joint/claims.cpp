// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/claims.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/hash.hpp"

#include "base/internal/opinions.hpp"
#include "base/internal/packed.hpp"

namespace cairn::joint {
namespace {

constexpr std::size_t kMostShownBytes = 200;  // Of a claim in which ranks differ.

using OpinionClaims = std::vector<std::pair<std::string_view, std::string_view>>;

OpinionClaims claims_of(const Opinion& opinion) {
  OpinionClaims claims;
  for (std::string_view text = opinion.says; !text.empty();) {
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
  std::vector<std::string> texts;
  texts.reserve(opinions.size());  // They stay where they are.
  std::vector<Opinion> holders;
  for (std::size_t i = 0; i < opinions.size(); ++i) {
    const std::optional<std::string_view> has = find(claims[i], what);
    texts.push_back(has ? fmt::format("'{}'", *has) : "none");
    holders.push_back({opinions[i].ranks, texts.back()});
  }
  const std::vector<Opinion> different = merge_opinions(holders);
  return different.size() < 2 ? std::string() : fmt::format("{}: {}", what, to_string(different));
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
  Opinion own;
  own.ranks.add(rank);
  own.says = text;
  return encode_opinions({&own, 1});
}

std::string merge_claims(const std::vector<std::string>& texts) {
  return merge_encoded_opinions(texts);
}

std::optional<ClaimDifference> difference_in(std::string_view merged) {
  const std::vector<Opinion> opinions = decode_opinions(merged);
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
