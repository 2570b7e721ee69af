// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/reduce_changes.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"

namespace cairn::coord {
namespace {

/// Says what a text that goes up, or down, holds.
enum class Kind : char {
  known = 'k',  ///< Up: the hash of all that was said before. Down: nothing.
  news = 'n',   ///< Up: what is said. Down: the hash of all of it.
  again = 'a',  ///< No text. Up: only some ranks have something new. Down: all say everything again.
};

void put_hash(std::string& text, const Hash128& hash) {
  put(text, hash.high);
  put(text, hash.low);
}

Hash128 take_hash(std::string_view& text) {
  Hash128 hash;
  hash.high = take<std::uint64_t>(text);
  hash.low = take<std::uint64_t>(text);
  return hash;
}

/// Comes behind a text. It is at the end because texts are large, and nothing of them is moved.
struct Seal {
  Kind kind = Kind::again;
  Hash128 aside;
  bool is_alike = true;  ///< All whose texts were merged have that aside.
};

constexpr std::size_t kSealBytes = 18;

std::string sealed(std::string text, const Seal& seal) {
  put_hash(text, seal.aside);
  put(text, static_cast<std::uint8_t>(seal.is_alike));
  text += static_cast<char>(seal.kind);
  CAIRN_ASSERT(text.size() >= kSealBytes, "a seal has its bytes");
  return text;
}

Seal take_seal(std::string& text) {
  const char last = text.empty() ? '\0' : text.back();
  if (text.size() < kSealBytes || (last != 'k' && last != 'n' && last != 'a')) {
    throw Error(Errc::malformed_metadata, "message of unknown kind");
  }
  std::string_view behind = std::string_view(text).substr(text.size() - kSealBytes);
  Seal seal;
  seal.aside = take_hash(behind);
  seal.is_alike = take<std::uint8_t>(behind) != 0;
  seal.kind = static_cast<Kind>(last);
  text.resize(text.size() - kSealBytes);
  return seal;
}

std::string merge_sealed(std::vector<std::string> texts, const Channel::Merge& merge) {
  CAIRN_ASSERT(!texts.empty(), "a rank merges its own text at least");
  Seal seal = take_seal(texts.front());
  const Kind kind = seal.kind;
  bool is_same_kind = kind != Kind::again;
  for (std::size_t i = 1; i < texts.size(); ++i) {
    const Seal other = take_seal(texts[i]);
    seal.is_alike = seal.is_alike && other.is_alike && other.aside == seal.aside;
    is_same_kind = is_same_kind && other.kind == kind;
    is_same_kind = is_same_kind && (kind != Kind::known || texts[i] == texts.front());
  }
  if (!is_same_kind) {
    CAIRN_PROBE("coord.some_ranks_have_news");
    seal.kind = Kind::again;
    return sealed({}, seal);
  }
  return sealed(kind == Kind::known ? std::move(texts.front()) : merge(std::move(texts)), seal);
}

/// At rank 0: what the others are answered.
std::string answer_to(Reduced& reduced, std::string gathered) {
  const Seal seal = take_seal(gathered);
  reduced.is_known = seal.kind == Kind::known;
  std::string answer;
  if (seal.kind == Kind::news) {
    reduced.all = std::move(gathered);
    reduced.said.all = hash_text(reduced.all);
    put_hash(answer, reduced.said.all);
  }
  return sealed(std::move(answer), seal);
}

}  // namespace

// outlives: the caller keeps the channel until this has ended.
Awaitable<Reduced> reduce_changes(Channel& channel, std::string mine, Channel::Merge merge,
                                  std::optional<SaidBefore> before, Hash128 aside) {
  Reduced reduced;
  reduced.said.mine = hash_text(mine);
  Channel::Merge merge_all = [merge = std::move(merge)](std::vector<std::string> texts) {
    return merge_sealed(std::move(texts), merge);
  };
  bool says_all = !before || before->mine != reduced.said.mine;
  for (;;) {
    std::string up;
    Seal seal;
    seal.aside = aside;
    if (says_all) {
      up = mine;
      seal.kind = Kind::news;
    } else {
      put_hash(up, before->all);
      seal.kind = Kind::known;
    }
    up = sealed(std::move(up), seal);
    Channel::Merge merge_up = merge_all;
    Awaitable<std::string> gathering = channel.reduce(std::move(up), std::move(merge_up));
    std::string gathered = co_await std::move(gathering);
    std::string answer;
    if (channel.rank() == 0) {
      answer = answer_to(reduced, std::move(gathered));
    }
    answer = co_await channel.broadcast(std::move(answer));
    const Seal answered = take_seal(answer);
    const Kind kind = answered.kind;
    reduced.is_alike = answered.is_alike;
    if (kind == Kind::known && !says_all) {
      CAIRN_ASSERT(before.has_value(), "what is known was said before");
      reduced.is_known = true;
      reduced.said = *before;
      co_return reduced;
    }
    if (kind == Kind::news) {
      std::string_view all = answer;
      reduced.said.all = take_hash(all);
      co_return reduced;
    }
    CAIRN_PROBE("coord.says_everything_again");
    says_all = true;
  }
}

Awaitable<Reduced> reduce_changes(Channel& channel, std::string mine, Channel::Merge merge,
                                  std::optional<SaidBefore> before) {
  const Hash128 nothing;
  return reduce_changes(channel, std::move(mine), std::move(merge), before, nothing);
}

}  // namespace cairn::coord
