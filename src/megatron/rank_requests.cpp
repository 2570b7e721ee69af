// SPDX-License-Identifier: Apache-2.0
#include "megatron/rank_requests.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/session.hpp"

#include "base/internal/packed.hpp"
#include "base/internal/value_groups.hpp"
#include "megatron/rank_keys.hpp"
#include "megatron/strict_rules.hpp"
#include "megatron/unique_key.hpp"
#include "sharding/internal/rank_leaves.hpp"

namespace cairn::megatron::detail {
namespace {

/// So many unexpected keys are told.
constexpr std::size_t kMostUnexpected = 1000;

/// Some ranks say this of the keys that they ask for.
struct AskedKeys {
  std::map<std::string, SomeRanks> unexpected;
  std::vector<bool>
      is_asked;  ///< For each key that is stored, in their order; empty where that does not matter.
};

std::string encode_asked(const AskedKeys& asked) {
  std::string text;
  put(text, static_cast<std::uint64_t>(asked.unexpected.size()));
  for (const auto& [key, ranks] : asked.unexpected) {
    put_text(text, key);
    put_ranks(text, ranks);
  }
  std::string bits((asked.is_asked.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < asked.is_asked.size(); ++i) {
    if (asked.is_asked[i]) {
      bits[i / 8] = static_cast<char>(static_cast<unsigned char>(bits[i / 8]) | (1U << (i % 8)));
    }
  }
  put(text, static_cast<std::uint64_t>(asked.is_asked.size()));
  return text + bits;
}

/// Adds what others have encoded.
void add_asked(AskedKeys& asked, std::string_view text) {
  for (auto left = take<std::uint64_t>(text); left > 0; --left) {
    const std::string key(take_text(text));
    const SomeRanks ranks = take_ranks(text);
    if (asked.unexpected.contains(key) || asked.unexpected.size() < kMostUnexpected) {
      asked.unexpected[key].add(ranks);
    }
  }
  const auto count = take<std::uint64_t>(text);
  const std::string_view bits = take_bytes(text, (count + 7) / 8);
  asked.is_asked.resize(std::max(asked.is_asked.size(), static_cast<std::size_t>(count)));
  for (std::size_t i = 0; i < count; ++i) {
    if (((static_cast<unsigned char>(bits[i / 8]) >> (i % 8)) & 1U) != 0) {
      asked.is_asked[i] = true;
    }
  }
}

std::string merge_asked(const std::vector<std::string>& texts) {
  AskedKeys all;
  for (const std::string& text : texts) {
    add_asked(all, text);
  }
  return encode_asked(all);
}

/// The keys of what is stored, those of objects once.
std::vector<std::string_view> keys_of(const StoredDict& stored) {
  std::vector<std::string_view> keys;
  for (const auto& [key, entry] : stored.tensors) {
    keys.push_back(key);
  }
  for (const auto& [unique_key, entry] : stored.objects) {
    keys.push_back(parse_unique_key(unique_key)->key);
  }
  for (const LeftOutKey& one : stored.left_out) {
    keys.push_back(one.key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

/// The keys that a rank asks for.
std::set<std::string_view> keys_of(const PreparedDict& prepared) {
  std::set<std::string_view> keys;
  for (const PreparedTensor& tensor : prepared.tensors) {
    keys.insert(keys.end(), tensor.key);
  }
  for (const PreparedObject& object : prepared.objects) {
    keys.insert(object.key);
  }
  return keys;
}

std::set<std::string> unexpected_of(const PreparedDict& prepared, const StoredDict& stored) {
  std::set<std::string> unexpected;
  for (const PreparedTensor& tensor : prepared.tensors) {
    if (!stored.tensors.contains(tensor.key) && stored.find_left_out(tensor.key) == nullptr) {
      unexpected.insert(tensor.key);
    }
  }
  for (const PreparedObject& object : prepared.objects) {
    const auto near = stored.objects.lower_bound(object.key + "/shard_");
    const auto parts = near != stored.objects.end() ? parse_unique_key(near->first) : std::nullopt;
    if ((!parts || parts->key != object.key) && stored.find_left_out(object.key) == nullptr) {
      unexpected.insert(object.key);
    }
  }
  return unexpected;
}

FoundMismatch found_mismatch(AskedKeys asked, const std::vector<std::string_view>& stored) {
  FoundMismatch found;
  found.unexpected = std::move(asked.unexpected);
  for (std::size_t i = 0; i < asked.is_asked.size() && i < stored.size(); ++i) {
    if (!asked.is_asked[i]) {
      found.missing.emplace(stored[i]);
    }
  }
  return found;
}

/// Returns what all ranks ask for.
// outlives: the caller keeps the channel until this has ended.
Awaitable<std::string> asked_by_all(coord::Channel& ranks, std::string how, std::string mine) {
  co_await ranks.agree("how strict loads are (AbstractStateDict)", std::move(how));
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) { return merge_asked(texts); };
  std::string all = co_await ranks.reduce(std::move(mine), std::move(merge));
  co_return co_await ranks.broadcast(std::move(all));
}

/// The boxes that a rank asks for, each once, as the main replica where one of its tensors is.
sharding::RankBoxes rank_boxes(const PreparedTensor& tensor, const std::string& path, std::uint32_t rank) {
  sharding::RankBoxes boxes{path, tensor.dtype, tensor.shape, {}, std::nullopt};
  for (const PreparedBox& one : tensor.boxes) {  // Equal ones follow each other.
    if (boxes.boxes.empty() || boxes.boxes.back().box != one.box) {
      boxes.boxes.push_back({one.box, rank + 1});
    }
    if (one.is_main) {
      boxes.boxes.back().replica = 0;
    }
  }
  return boxes;
}

}  // namespace

// outlives: `where` is a literal.
Awaitable<> share_fault(LoadContext context, const char* where, std::optional<Error> fault) {
  std::optional<coord::Channel> ranks = context.channel(where);
  if (!ranks) {
    co_return;  // Then a fault was thrown.
  }
  const std::string text = fault ? encode_fault(*fault) : std::string();
  std::vector<ValueGroup> groups;
  if (fault) {
    groups.emplace_back().ranks.add(context.coordinator().rank());
    groups.back().value = text;
  }
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) {
    return merge_encoded_value_groups(texts);
  };
  std::string said = encode_value_groups(groups);
  const std::string all = co_await ranks->reduce(std::move(said), std::move(merge));
  if (ranks->rank() == 0 && !decode_value_groups(all).empty()) {
    const ValueGroup first = decode_value_groups(all).front();
    const Error error = fault_of(first.value, first.ranks);
    ranks->refuse_together(Error(error.code(), fmt::format("'{}': {}", context.name(), error.detail())));
  }
  std::string nothing;
  static_cast<void>(co_await ranks->broadcast(std::move(nothing)));
}

// outlives: see the header.
Awaitable<std::set<std::string>> settle_keys(LoadContext context, const AbstractStateDict& wanted,
                                             const PreparedDict& prepared, const StoredDict& stored) {
  const StrictRules rules = rules_of(wanted.strict);
  const std::set<std::string> mine = unexpected_of(prepared, stored);
  const std::vector<std::string_view> keys = keys_of(stored);
  std::optional<coord::Channel> ranks = context.channel("keys");
  const std::size_t rank = context.coordinator().rank();
  AskedKeys asked;
  for (const std::string& key : mine) {
    SomeRanks& who = asked.unexpected[key];
    if (ranks) {
      who.add(rank);
    }
  }
  if (rules.looks_at_missing()) {
    const std::set<std::string_view> requested = keys_of(prepared);
    for (const std::string_view key : keys) {
      asked.is_asked.push_back(requested.contains(key));
    }
  }
  if (ranks) {
    std::string how =
        fmt::format("{}{}", name(wanted.strict), wanted.checks_access ? "" : ", access is not checked");
    std::string said = encode_asked(asked);
    Awaitable<std::string> asking = asked_by_all(*ranks, std::move(how), std::move(said));
    const std::string all = co_await std::move(asking);
    asked = AskedKeys();
    add_asked(asked, all);
  }
  const std::filesystem::path folder =
      context.handler_id().empty() ? context.path() : context.path().parent_path();
  const StrictVerdict verdict =
      judge(wanted.strict, found_mismatch(std::move(asked), keys), mine, folder.string());
  if (!verdict.error.empty()) {
    const Error error(Errc::not_found, fmt::format("'{}': {}", context.name(), verdict.error));
    if (ranks) {
      ranks->refuse_together(error);
    }
    throw error;
  }
  if (!verdict.problem.empty()) {
    context.add_problem(verdict.problem);
  }
  if (wanted.mismatch) {
    *wanted.mismatch = verdict.given_back;
  }
  co_return mine;
}

// outlives: see the header.
Awaitable<> check_access(LoadContext context, const PreparedDict& prepared) {
  std::optional<coord::Channel> ranks = context.channel("access");
  if (!ranks || context.coordinator().size() == 1) {
    co_return;
  }
  const auto rank = static_cast<std::uint32_t>(context.coordinator().rank());
  std::string keys = encode_keys(prepared, rank);
  Awaitable<coord::Reduced> agreeing =
      agree_on_keys(*ranks, std::move(keys), std::nullopt, Hash128(), context.name());
  static_cast<void>(co_await std::move(agreeing));
  sharding::RankLeaves said;
  said.rank = rank;
  said.paths = RankPaths::joined;
  for (const PreparedTensor& tensor : prepared.tensors) {
    const std::string path = path_of(tensor.key);
    said.leaves.add_array_in_parts(path, tensor.dtype, tensor.shape);
    said.boxes.push_back(rank_boxes(tensor, path, rank));
  }
  std::string text = sharding::encode_rank_leaves(said);
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) {
    return sharding::merge_rank_leaves(texts);
  };
  const std::string all = co_await ranks->reduce(std::move(text), std::move(merge));
  if (rank != 0) {
    co_return;
  }
  sharding::PlanOptions options(ReplicaChoice::main);
  options.is_covered_by_main = true;
  try {
    static_cast<void>(
        sharding::plan_answers(all, static_cast<std::uint32_t>(context.coordinator().size()), options));
  } catch (const Error& error) {
    ranks->refuse_together(Error(error.code(), fmt::format("'{}': {}", context.name(), error.detail())));
  }
}

}  // namespace cairn::megatron::detail
