// SPDX-License-Identifier: Apache-2.0
#include "megatron/rank_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"

#include "base/internal/packed.hpp"
#include "megatron/unique_key.hpp"

namespace cairn::megatron::detail {
namespace {

enum class Role : std::uint8_t { fault, tensor, object };

/// What ranks say of a tensor's key, of an object's name, or of a fault: no text is two of them.
struct KeyNote {
  std::uint32_t lowest_rank = 0;
  Role role = Role::tensor;
  SomeRanks mains;  ///< Of an object: who has its main replica; of a fault: where it is.
};

using KeyNotes = std::map<std::string_view, KeyNote>;

void put_note(std::string& text, std::string_view name, const KeyNote& note) {
  put_text(text, name);
  put(text, note.lowest_rank);
  put(text, static_cast<std::uint8_t>(note.role));
  if (note.role != Role::tensor) {
    put_ranks(text, note.mains);
  }
}

/// The notes refer to the text.
void take_notes(std::string_view text, KeyNotes& notes) {
  while (!text.empty()) {
    const std::string_view name = take_text(text);
    KeyNote note;
    note.lowest_rank = take<std::uint32_t>(text);
    note.role = static_cast<Role>(take<std::uint8_t>(text));
    if (note.role != Role::tensor) {
      note.mains = take_ranks(text);
    }
    const auto [found, is_new] = notes.try_emplace(name, note);
    if (!is_new) {
      found->second.lowest_rank = std::min(found->second.lowest_rank, note.lowest_rank);
      found->second.mains.add(note.mains);
    }
  }
}

using Place = std::vector<std::uint64_t>;

Place place_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

/// The objects of a key.
struct Grid {
  Place shape;
  std::uint32_t lowest_rank = 0;
  std::set<Place> mains;  ///< Which of them have a main replica.
};

std::string tuple(const Place& place) {
  return fmt::format("({})", fmt::join(place, ", "));
}

/// Moves on to the next place of a grid, row-major; false behind the last one.
bool step(Place& place, const Place& shape) {
  for (std::size_t axis = place.size(); axis-- > 0;) {
    if (++place[axis] < shape[axis]) {
      return true;
    }
    place[axis] = 0;
  }
  return false;
}

void check_grid(std::string_view key, const Grid& grid) {
  Place place(grid.shape.size(), 0);
  while (grid.mains.contains(place)) {  // Ends after as many steps as there are objects.
    if (!step(place, grid.shape)) {
      return;
    }
  }
  const std::optional<std::uint64_t> count = element_count(Shape(std::span<const std::uint64_t>(grid.shape)));
  throw Error(Errc::incomplete_shards,
              fmt::format("'{}': {} of its {} objects are there; no main replica of [{}] of {}", key,
                          grid.mains.size(), count ? std::to_string(*count) : "more than 2^64",
                          fmt::join(place, ", "), tuple(grid.shape)));
}

void add_object(std::map<std::string_view, Grid>& grids, std::string_view name, const KeyNote& note) {
  const auto parts = parse_unique_key(name);
  if (!parts) {
    throw Error(Errc::malformed_metadata, fmt::format("'{}' is not the name of an object", name));
  }
  if (note.mains.count > 1) {
    throw Error(Errc::overlapping_shards,
                fmt::format("'{}': {} {} have it as main replica", name, to_string(note.mains),
                            note.mains.count == 2 ? "both" : "all"));
  }
  const auto [found, is_new] =
      grids.try_emplace(parts->key, Grid{place_of(parts->shape), note.lowest_rank, {}});
  Grid& grid = found->second;
  if (!is_new && grid.shape != place_of(parts->shape)) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': its grid is {} on rank {}, {} on rank {}", parts->key, tuple(grid.shape),
                            grid.lowest_rank, tuple(place_of(parts->shape)), note.lowest_rank));
  }
  grid.lowest_rank = std::min(grid.lowest_rank, note.lowest_rank);
  if (note.mains.count == 1) {
    grid.mains.insert(place_of(parts->offset));
  }
}

}  // namespace

std::string encode_keys(const PreparedDict& prepared, std::uint32_t rank) {
  std::string text;
  for (const PreparedTensor& tensor : prepared.tensors) {
    put_note(text, tensor.key, {rank, Role::tensor, {}});
  }
  for (const PreparedObject& object : prepared.objects) {
    KeyNote note{rank, Role::object, {}};
    if (object.is_main) {
      note.mains.add(rank);
    }
    put_note(text, object.unique_key, note);
  }
  return text;
}

std::string encode_keys(const Error& fault, std::uint32_t rank) {
  KeyNote note{rank, Role::fault, {}};
  note.mains.add(rank);
  std::string text;
  put_note(text, encode_fault(fault), note);
  return text;
}

std::string encode_fault(const Error& fault) {
  std::string text;
  put(text, static_cast<std::int32_t>(fault.code().value()));
  return text + fault.detail();
}

Error fault_of(std::string_view encoded, const SomeRanks& ranks) {
  const auto code = static_cast<Errc>(take<std::int32_t>(encoded));
  return {code, fmt::format("{}: {}", to_string(ranks), encoded)};
}

std::string merge_keys(const std::vector<std::string>& texts) {
  KeyNotes notes;
  for (const std::string& text : texts) {
    take_notes(text, notes);
  }
  std::string merged;
  for (const auto& [name, note] : notes) {
    put_note(merged, name, note);
  }
  return merged;
}

void check_keys(std::string_view all) {
  KeyNotes notes;
  take_notes(all, notes);
  std::map<std::string_view, Grid> grids;
  for (const auto& [name, note] : notes) {
    if (note.role == Role::fault) {
      throw fault_of(name, note.mains);
    }
    if (note.role == Role::object) {
      add_object(grids, name, note);
    }
  }
  for (const auto& [key, grid] : grids) {
    if (const auto tensor = notes.find(key); tensor != notes.end()) {
      throw Error(Errc::invalid_argument, fmt::format("'{}' is a tensor on rank {} and an object on rank {}",
                                                      key, tensor->second.lowest_rank, grid.lowest_rank));
    }
    check_grid(key, grid);
  }
}

// outlives: the caller keeps the channel until this has ended.
Awaitable<coord::Reduced> agree_on_keys(coord::Channel& ranks, std::string mine,
                                        std::optional<coord::SaidBefore> before, Hash128 aside,
                                        std::string name) {
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) { return merge_keys(texts); };
  Awaitable<coord::Reduced> reducing =
      coord::reduce_changes(ranks, std::move(mine), std::move(merge), before, aside);
  coord::Reduced reduced = co_await std::move(reducing);
  if (ranks.rank() == 0 && !reduced.is_known) {
    try {
      check_keys(reduced.all);
    } catch (const Error& error) {
      ranks.refuse_together(Error(error.code(), fmt::format("'{}': {}", name, error.detail())));
    }
  }
  co_return reduced;
}

}  // namespace cairn::megatron::detail
