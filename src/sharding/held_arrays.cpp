// SPDX-License-Identifier: Apache-2.0
#include "sharding/held_arrays.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "sharding/rules.hpp"

namespace cairn {

using sharding_detail::TableRule;

struct HeldArrays::State {
  struct Held {
    std::string name;
    DType dtype;
    Shape shape;
    std::uint32_t first_rank;
    std::shared_ptr<TableRule> table;
  };

  Held& find(std::uint32_t rank, std::string_view name, DType dtype, const Shape& shape) {
    // Ranks name their arrays in the same order, as a rule.
    if (next < arrays.size() && arrays[next].name == name) {
      return arrays[next++];
    }
    const auto found = numbers.find(name);
    if (found != numbers.end()) {
      next = found->second + 1;
      return arrays[found->second];
    }
    Held& added =
        arrays.emplace_back(Held{std::string(name), dtype, shape, rank, std::make_shared<TableRule>()});
    numbers.emplace(added.name, arrays.size() - 1);
    next = arrays.size();
    return added;
  }

  std::deque<Held> arrays;  // Names stay where they are.
  std::unordered_map<std::string_view, std::size_t> numbers;
  std::size_t next = 0;
  std::uint32_t last_rank = 0;
};

HeldArrays::HeldArrays() : state_(std::make_unique<State>()) {}

HeldArrays::~HeldArrays() = default;
HeldArrays::HeldArrays(HeldArrays&&) noexcept = default;
HeldArrays& HeldArrays::operator=(HeldArrays&&) noexcept = default;

void HeldArrays::add(std::uint32_t rank, std::string_view name, DType dtype, const Shape& shape,
                     std::span<const PlacedBox> boxes) {
  if (rank < state_->last_rank) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': rank {} comes after rank {}", name, rank, state_->last_rank));
  }
  state_->next = rank == state_->last_rank ? state_->next : 0;
  state_->last_rank = rank;
  State::Held& held = state_->find(rank, name, dtype, shape);
  if (held.shape != shape) {
    throw Error(Errc::shape_mismatch, fmt::format("'{}': rank {} has shape {} and rank {} has {}", name,
                                                  held.first_rank, held.shape, rank, shape));
  }
  if (held.dtype != dtype) {
    throw Error(Errc::dtype_mismatch, fmt::format("'{}': rank {} has {} and rank {} has {}", name,
                                                  held.first_rank, held.dtype, rank, dtype));
  }
  for (const PlacedBox& placed : boxes) {
    if (!placed.box.is_within(shape)) {
      throw Error(Errc::invalid_argument, fmt::format("'{}': box {} of rank {} is not within shape {}", name,
                                                      to_string(placed.box), rank, shape));
    }
    held.table->add(rank, placed.box, placed.replica);
  }
}

std::vector<sharding::PlannedArray> HeldArrays::finish(std::uint32_t ranks) {
  sharding_detail::check_rank_count(ranks);
  if (!state_->arrays.empty() && state_->last_rank >= ranks) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: rank {} of a job of {} ranks", state_->last_rank, ranks));
  }
  std::vector<sharding::PlannedArray> arrays;
  for (State::Held& held : state_->arrays) {
    held.table->finish(ranks);
    arrays.push_back(
        {std::move(held.name), held.dtype, std::move(held.shape), Sharding(std::move(held.table)), 0});
  }
  state_ = std::make_unique<State>();
  return arrays;
}

}  // namespace cairn
