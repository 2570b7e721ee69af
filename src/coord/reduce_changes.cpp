// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/reduce_changes.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"

namespace cairn {
namespace {

/// What a text that goes up, or down, has in front of its last byte.
enum class Kind : char {
  known = 'k',  ///< Up: the hash of all that was said before. Down: nothing.
  news = 'n',   ///< Up: what is said. Down: the hash of all of it.
  again = 'a',  ///< Nothing. Up: ranks differ in whether they have something new. Down: all say it.
};

void put_hash(std::string& text, const Hash128& hash) {
  put(text, hash.high);
  put(text, hash.low);
}

Hash128 take_hash(std::string_view text) {
  Hash128 hash;
  hash.high = take<std::uint64_t>(text);
  hash.low = take<std::uint64_t>(text);
  return hash;
}

std::string sealed(std::string text, Kind kind) {
  text += static_cast<char>(kind);  // At the end: texts are large, and nothing of them is moved.
  return text;
}

Kind take_kind(std::string& text) {
  const char last = text.empty() ? '\0' : text.back();
  if (last != 'k' && last != 'n' && last != 'a') {
    throw Error(Errc::malformed_metadata, "message of unknown kind");
  }
  text.pop_back();
  return static_cast<Kind>(last);
}

std::string merge_sealed(std::vector<std::string> texts, const Subject::Merge& merge) {
  const Kind kind = take_kind(texts.front());
  bool is_alike = kind != Kind::again;
  for (std::size_t i = 1; i < texts.size(); ++i) {
    is_alike = take_kind(texts[i]) == kind && is_alike;
    is_alike = is_alike && (kind != Kind::known || texts[i] == texts.front());
  }
  if (!is_alike) {
    return sealed({}, Kind::again);
  }
  return kind == Kind::known ? sealed(std::move(texts.front()), kind) : sealed(merge(std::move(texts)), kind);
}

/// At rank 0: what the others are answered.
std::string answer_to(Reduced& reduced, std::string gathered) {
  const Kind kind = take_kind(gathered);
  reduced.is_known = kind == Kind::known;
  std::string answer;
  if (kind == Kind::news) {
    reduced.all = std::move(gathered);
    reduced.said.all = hash_text(reduced.all);
    put_hash(answer, reduced.said.all);
  }
  return sealed(std::move(answer), kind);
}

}  // namespace

// outlives: the caller keeps the subject until this has ended.
Awaitable<Reduced> reduce_changes(Subject& subject, std::string mine, Subject::Merge merge,
                                  std::optional<SaidBefore> before) {
  Reduced reduced;
  reduced.said.mine = hash_text(mine);
  Subject::Merge merge_all = [merge = std::move(merge)](std::vector<std::string> texts) {
    return merge_sealed(std::move(texts), merge);
  };
  bool says_all = !before || before->mine != reduced.said.mine;
  for (;;) {
    std::string up;
    if (says_all) {
      up = sealed(mine, Kind::news);
    } else {
      put_hash(up, before->all);
      up = sealed(std::move(up), Kind::known);
    }
    Subject::Merge merge_up = merge_all;
    Awaitable<std::string> gathering = subject.reduce(std::move(up), std::move(merge_up));
    std::string gathered = co_await std::move(gathering);
    std::string answer;
    if (subject.rank() == 0) {
      answer = answer_to(reduced, std::move(gathered));
    }
    answer = co_await subject.broadcast(std::move(answer));
    const Kind kind = take_kind(answer);
    if (kind == Kind::known && !says_all) {
      reduced.is_known = true;
      reduced.said = *before;
      co_return reduced;
    }
    if (kind == Kind::news) {
      reduced.said.all = take_hash(answer);
      co_return reduced;
    }
    says_all = true;
  }
}

}  // namespace cairn
