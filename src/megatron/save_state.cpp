// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/handlers/rank_arrays.hpp"
#include "cairn/megatron/handler.hpp"
#include "cairn/megatron/save_rules.hpp"

#include "base/internal/rank_groups.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "megatron/call_options.hpp"
#include "megatron/common_state.hpp"
#include "megatron/prepare.hpp"
#include "megatron/rank_keys.hpp"
#include "megatron/state_files.hpp"

namespace cairn::megatron {
namespace detail {
namespace {

/// All ranks have said this of their keys.
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

/// Returns the part of the common state that ranks are compared by.
Tree compared_common(const StateDictSaveRules& rules, const Tree& common) {
  if (!rules.before_comparison) {
    return common;
  }
  std::exception_ptr failure;
  try {
    return rules.before_comparison(common);
  } catch (...) {
    failure = with_context(std::current_exception(), "StateDictSaveRules::before_comparison");
  }
  std::rethrow_exception(failure);
}

/// A rank brings this to a save.
struct OwnPart {
  PreparedDict prepared;
  std::vector<Array> objects;      ///< Those of which it has the main replica.
  std::string common;              ///< Packed; of rank 0 only.
  std::vector<HashedLeaf> leaves;  ///< Of the common state; none where there are no other ranks.
};

OwnPart own_part(const SaveContext& context, const StateDict& dict, const StateDictSaveRules& rules) {
  const auto rank = static_cast<std::uint32_t>(context.coordinator().rank());
  throw_failed_before(context);
  static_cast<void>(own_group(rank, rules.group));  // Whether it is one.
  OwnPart own;
  own.prepared = prepare(dict, Purpose::save);
  for (const PreparedObject& object : own.prepared.objects) {
    if (object.is_main) {
      own.objects.push_back(packed_object(object));
    }
  }
  if (rank == 0) {
    own.common = packed_common(own.prepared.common);
  }
  if (context.coordinator().size() > 1) {
    own.leaves = hashed_leaves(compared_common(rules, own.prepared.common));
  }
  return own;
}

/// The ranks check that their keys fit together. Returns whether their common state is alike.
Awaitable<bool> agree(SaveContext context, std::string keys, Hash128 common, bool has_fault) {
  std::optional<coord::Channel> ranks = context.channel("keys");
  if (!ranks) {
    check_keys(keys);
    co_return true;
  }
  std::optional<coord::SaidBefore> before;
  if (const auto kept = context.kept<KeptKeys>()) {
    before = kept->said;
  }
  Awaitable<coord::Reduced> agreeing = agree_on_keys(*ranks, std::move(keys), before, common, context.name());
  const coord::Reduced reduced = co_await std::move(agreeing);
  if (has_fault) {  // Rank 0 refuses it: this one says nothing else before it has heard that.
    coord::Channel refused = *context.channel("refused");
    std::string nothing;
    static_cast<void>(co_await refused.broadcast(std::move(nothing)));
  }
  if (!reduced.is_known) {
    context.keep(std::make_shared<const KeptKeys>(KeptKeys{reduced.said}));
  }
  co_return reduced.is_alike;
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

/// `differing` is this rank's common state, where ranks differ in it.
Background<> finish_save(SaveContext context, Background<> arrays, std::optional<Background<>> common,
                         std::optional<std::vector<HashedLeaf>> differing, bool requires_same_common) {
  if (differing) {
    co_await tell_differences(context, *std::move(differing), requires_same_common);
  }
  if (common) {
    co_await std::move(*common);
  }
  co_await std::move(arrays);
}

Awaitable<Background<>> save_part(SaveContext context, OwnPart own, std::optional<Error> fault,
                                  StateDictSaveRules rules) {
  const auto rank = static_cast<std::uint32_t>(context.coordinator().rank());
  std::string keys = fault ? encode_keys(*fault, rank) : encode_keys(own.prepared, rank);
  Awaitable<bool> agreeing = agree(context, std::move(keys), hash_of(own.leaves), fault.has_value());
  const bool is_common_alike = co_await std::move(agreeing);
  RankArrays arrays(context, array_options(rules));
  for (const PreparedTensor& tensor : own.prepared.tensors) {
    arrays.add(path_of(tensor.key), held(tensor, rank));
  }
  auto packed = own.objects.begin();
  for (const PreparedObject& object : own.prepared.objects) {
    if (object.is_main) {
      arrays.add(path_of(object.unique_key), std::move(*packed++));
    }
  }
  std::optional<Background<>> common;
  if (rank == 0) {
    common.emplace(context.write_file(kStateDictCommonFile, std::move(own.common)));
  }
  std::optional<std::vector<HashedLeaf>> differing;
  if (!is_common_alike) {
    differing = std::move(own.leaves);
  }
  Background<> written = co_await std::move(arrays).write();
  co_return finish_save(context, std::move(written), std::move(common), std::move(differing),
                        rules.requires_same_common);
}

}  // namespace
}  // namespace detail

// outlives: `value` is valid during this phase; what is kept of it are shared leaves.
Awaitable<Background<>> StateDictHandler::save(SaveContext context, const StateDict& value) const {
  const auto* given = context.option<StateDictSaveRules>();
  const StateDictSaveRules rules = given != nullptr ? *given : StateDictSaveRules();
  detail::OwnPart own;
  std::optional<Error> fault =
      detail::fault_in(context, [&] { own = detail::own_part(context, value, rules); });
  co_return co_await detail::save_part(std::move(context), std::move(own), std::move(fault), rules);
}

}  // namespace cairn::megatron
