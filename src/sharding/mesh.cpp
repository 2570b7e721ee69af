// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/sharding.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse_mesh(std::string why) {
  throw Error(Errc::invalid_argument, "mesh: " + std::move(why));
}

}  // namespace

Mesh::Mesh(Shape extents, std::vector<std::string> axes, std::vector<std::uint32_t> ranks)
    : extents_(std::move(extents)), axes_(std::move(axes)) {
  if (extents_.size() != axes_.size()) {
    refuse_mesh(fmt::format("{} extents and {} names of axes", extents_.size(), axes_.size()));
  }
  std::set<std::string_view> names;
  std::uint64_t size = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].empty()) {
      refuse_mesh(fmt::format("axis {} has no name", i));
    }
    if (!names.insert(axes_[i]).second) {
      refuse_mesh(fmt::format("two axes are called '{}'", axes_[i]));
    }
    if (extents_[i] == 0) {
      refuse_mesh(fmt::format("axis '{}' has no positions", axes_[i]));
    }
    if (extents_[i] > kMaxRanks || (size *= extents_[i]) > kMaxRanks) {
      refuse_mesh(fmt::format("extents {} make more than {} positions", to_string(extents_), kMaxRanks));
    }
  }
  size_ = rank_count_ = static_cast<std::uint32_t>(size);
  take_ranks(std::move(ranks));
}

void Mesh::take_ranks(std::vector<std::uint32_t> ranks) {
  bool is_identity = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    is_identity = is_identity && ranks[i] == i;
  }
  if (!ranks.empty() && ranks.size() != size_) {
    refuse_mesh(fmt::format("{} ranks for the {} positions of ({})", ranks.size(), size_, to_string(*this)));
  }
  if (is_identity) {
    return;
  }
  sorted_.resize(size_);
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::sort(sorted_.begin(), sorted_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return ranks[a] < ranks[b]; });
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    if (ranks[sorted_[i - 1]] == ranks[sorted_[i]]) {
      refuse_mesh(fmt::format("rank {} is at two positions", ranks[sorted_[i]]));
    }
  }
  const std::uint32_t highest = ranks[sorted_.back()];
  if (highest >= kMaxRanks) {
    refuse_mesh(fmt::format("rank {} is not below {}", highest, kMaxRanks));
  }
  rank_count_ = highest + 1;
  ranks_ = std::move(ranks);
}

bool Mesh::operator==(const Mesh& other) const noexcept {
  return extents_ == other.extents_ && axes_ == other.axes_ && ranks_ == other.ranks_;
}

std::optional<std::uint32_t> Mesh::position_of(std::uint32_t rank) const noexcept {
  if (rank >= rank_count_) {
    return std::nullopt;
  }
  if (ranks_.empty()) {
    return rank;
  }
  const auto found = std::lower_bound(
      sorted_.begin(), sorted_.end(), rank,
      [&](std::uint32_t position, std::uint32_t wanted) { return ranks_[position] < wanted; });
  return ranks_[*found] == rank ? std::optional(*found) : std::nullopt;
}

std::size_t Mesh::axis(std::string_view name) const {
  const auto found = std::find(axes_.begin(), axes_.end(), name);
  if (found == axes_.end()) {
    refuse_mesh(fmt::format("there is no axis '{}' in ({})", name, to_string(*this)));
  }
  return static_cast<std::size_t>(found - axes_.begin());
}

std::uint32_t Mesh::stride(std::size_t axis) const noexcept {
  std::uint64_t stride = 1;
  for (std::size_t i = axis + 1; i < extents_.size(); ++i) {
    stride *= extents_[i];
  }
  return static_cast<std::uint32_t>(stride);
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ", mesh.axes()[i], mesh.extents()[i]);
  }
  return text;
}

}  // namespace cairn
