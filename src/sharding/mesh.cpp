// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/mesh.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

constexpr std::uint32_t kNowhere = UINT32_MAX;

[[noreturn]] void refuse(std::string why) {
  throw Error(Errc::invalid_argument, "mesh: " + std::move(why));
}

}  // namespace

Mesh::Mesh(Shape extents, std::vector<std::string> axes, std::vector<std::uint32_t> ranks)
    : extents_(std::move(extents)), axes_(std::move(axes)) {
  if (extents_.size() != axes_.size()) {
    refuse(fmt::format("{} extents and {} names of axes", extents_.size(), axes_.size()));
  }
  std::set<std::string_view> names;
  std::uint64_t size = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].empty()) {
      refuse(fmt::format("axis {} has no name", i));
    }
    if (!names.insert(axes_[i]).second) {
      refuse(fmt::format("two axes are called '{}'", axes_[i]));
    }
    if (extents_[i] == 0) {
      refuse(fmt::format("axis '{}' has no positions", axes_[i]));
    }
    if (extents_[i] > kMaxRanks || (size *= extents_[i]) > kMaxRanks) {
      refuse(fmt::format("extents {} make more than {} positions", to_string(extents_), kMaxRanks));
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
    refuse(fmt::format("{} ranks for the {} positions of ({})", ranks.size(), size_, to_string(*this)));
  }
  if (is_identity) {
    return;
  }
  const std::uint32_t highest = *std::max_element(ranks.begin(), ranks.end());
  if (highest >= kMaxRanks) {
    refuse(fmt::format("rank {} is not below {}", highest, kMaxRanks));
  }
  positions_.assign(std::size_t{highest} + 1, kNowhere);
  for (std::uint32_t position = 0; position < size_; ++position) {
    if (std::exchange(positions_[ranks[position]], position) != kNowhere) {
      refuse(fmt::format("rank {} is at two positions", ranks[position]));
    }
  }
  rank_count_ = highest + 1;
  ranks_ = std::move(ranks);
}

std::optional<std::uint32_t> Mesh::position_of(std::uint32_t rank) const noexcept {
  if (rank >= rank_count_) {
    return std::nullopt;
  }
  const std::uint32_t position = ranks_.empty() ? rank : positions_[rank];
  return position == kNowhere ? std::nullopt : std::optional(position);
}

std::size_t Mesh::axis(std::string_view name) const {
  const auto found = std::find(axes_.begin(), axes_.end(), name);
  if (found == axes_.end()) {
    refuse(fmt::format("there is no axis '{}' in ({})", name, to_string(*this)));
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
