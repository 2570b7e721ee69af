// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/handlers/packed_tree.hpp"
#include "cairn/handlers/rank_arrays.hpp"
#include "cairn/megatron/handler.hpp"
#include "cairn/megatron/save_rules.hpp"

#include "megatron/call_options.hpp"
#include "megatron/common_state.hpp"
#include "megatron/prepare.hpp"
#include "megatron/rank_keys.hpp"
#include "megatron/state_files.hpp"

namespace cairn::megatron {
namespace detail {
namespace {

/// What all ranks have said of their keys.
struct KeptKeys {
  coord::SaidBefore said;
};

/// How many bytes an object's array has: in steps, so that what ranks say and the index stay the same while objects
/// change a little.
std::size_t room_for(std::size_t bytes) {
  constexpr std::size_t kLeast = 256;
  constexpr std::size_t kLargest = 64 << 10;  // Up to here steps double; from here on they are an eighth.
  if (bytes <= kLargest) {
    return std::bit_ceil(std::max(bytes, kLeast));
  }
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

/// An object as an array of bytes.
Array packed_object(const PreparedObject& object) {
  std::string text;
  try {
    text = pack_tree(object.data);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("'{}': {}", object.unique_key, error.detail()));
  }
  std::vector<std::uint8_t> bytes(room_for(text.size()));
  std::memcpy(bytes.data(), text.data(), text.size());
  return Array::adopt(std::move(bytes));
}

std::string packed_common(const Tree& common) {
  try {
    return pack_tree(common);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("common state: {}", error.detail()));
  }
}

RankArrayOptions array_options(const StateDictSaveRules& rules) {
  RankArrayOptions options;
  options.paths = RankPaths::joined;
  options.replicas = rules.replicas;
  options.is_covered_by_main = true;
  options.group = rules.group;
  options.most_files = rules.for_torch ? std::numeric_limits<std::size_t>::max() : 1;
  return options;
}

/// What the ranks have found out about each other.
struct RankAnswers {
  bool is_common_alike = true;
  std::vector<HashedLeaf> common;
};

/// The ranks check that their keys fit together.
// outlives: the caller keeps the answers until this has ended.
Awaitable<> agree(SaveContext context, std::string keys, Hash128 common, bool has_failed,
                  RankAnswers& answers) {
  std::optional<coord::Channel> ranks = context.channel("keys");
  if (!ranks) {
    check_keys(keys, context.name());
    co_return;
  }
  std::optional<coord::SaidBefore> before;
  if (const auto kept = context.kept<KeptKeys>()) {
    before = kept->said;
  }
  Awaitable<coord::Reduced> agreeing = agree_on_keys(*ranks, std::move(keys), before, common, context.name());
  const coord::Reduced reduced = co_await std::move(agreeing);
  if (has_failed) {
    std::string none;
    static_cast<void>(co_await ranks->broadcast(std::move(none)));  // Rank 0 refuses it instead.
  }
  answers.is_common_alike = reduced.is_alike;
  if (!reduced.is_known) {
    context.keep(std::make_shared<const KeptKeys>(KeptKeys{reduced.said}));
  }
}

/// Names where the common state of ranks differs from that of rank 0.
Awaitable<> tell_differences(SaveContext context, std::vector<HashedLeaf> common, bool is_error) {
  coord::Channel ranks = *context.channel("common state");
  const std::string words = co_await name_common_differences(ranks, std::move(common));
  if (words.empty()) {
    co_return;
  }
  const std::string text = fmt::format("'{}': {}", context.name(), words);
  if (is_error) {
    ranks.refuse_together(Error(Errc::structure_mismatch, text));
  }
  context.add_problem(text);
}

Background<> finish_save(SaveContext context, Background<> arrays, std::optional<Background<>> common,
                         RankAnswers answers, bool requires_same_common) {
  if (!answers.is_common_alike) {
    co_await tell_differences(context, std::move(answers.common), requires_same_common);
  }
  if (common) {
    co_await std::move(*common);
  }
  co_await std::move(arrays);
}

Awaitable<Background<>> save_prepared(SaveContext context, DictOfRank dict) {
  const PreparedDict& prepared = dict.prepared;
  const StateDictSaveRules* given = context.option<StateDictSaveRules>();
  const StateDictSaveRules rules = given != nullptr ? *given : StateDictSaveRules();
  const auto rank = static_cast<std::uint32_t>(context.coordinator().rank());
  RankAnswers answers;
  if (context.coordinator().size() > 1) {
    answers.common =
        hashed_leaves(rules.before_comparison ? rules.before_comparison(prepared.common) : prepared.common);
  }
  std::string keys = encode_keys(prepared, rank, dict.failure);
  const Hash128 common_hash = hash_of(answers.common);
  co_await agree(context, std::move(keys), common_hash, dict.failure.has_value(), answers);
  RankArrays arrays(context, array_options(rules));
  for (const PreparedTensor& tensor : prepared.tensors) {
    arrays.add(path_of(tensor.key), held(tensor, rank));
  }
  for (const PreparedObject& object : prepared.objects) {
    if (object.is_main) {
      arrays.add(path_of(object.unique_key), packed_object(object));
    }
  }
  std::optional<Background<>> common;
  if (rank == 0) {
    common.emplace(context.write_file(kCommonFile, packed_common(prepared.common)));
  }
  Background<> written = co_await std::move(arrays).write();
  co_return finish_save(context, std::move(written), std::move(common), std::move(answers),
                        rules.requires_same_common);
}

}  // namespace
}  // namespace detail

// outlives: `value` is valid during this phase; what is kept of it are shared leaves.
Awaitable<Background<>> StateDictHandler::save(SaveContext context, const StateDict& value) const {
  detail::DictOfRank dict = detail::prepare_on_rank(context, value, detail::Purpose::save);
  co_return co_await detail::save_prepared(std::move(context), std::move(dict));
}

}  // namespace cairn::megatron
