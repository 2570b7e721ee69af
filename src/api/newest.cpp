// SPDX-License-Identifier: Apache-2.0
#include "api/newest.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "store/internal/listing.hpp"

namespace cairn::api {
namespace {

constexpr std::size_t kMostNamed = 5;  // Of families.

bool is_digit(char each) {
  return each >= '0' && each <= '9';
}

bool has_number(const FoundCheckpoint& found) {
  const std::string_view name = store::name_in_root(found);
  return std::any_of(name.begin(), name.end(), is_digit);
}

/// Returns what names of one family have in common.
std::string family_of(std::string_view name) {
  std::string family(name);
  std::erase_if(family, is_digit);
  return family;
}

std::vector<FoundCheckpoint> in_order_of_numbers(std::vector<FoundCheckpoint> found, const Newest& how) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (const auto number = how.number(store::name_in_root(found[i]))) {
      order.emplace_back(*number, i);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<FoundCheckpoint> ordered;
  for (const auto& [number, index] : order) {
    ordered.push_back(std::move(found[index]));
  }
  return ordered;
}

/// Errors: Errc::invalid_argument.
void require_one_family(const std::vector<FoundCheckpoint>& found, const std::filesystem::path& root) {
  std::map<std::string, std::string> newest;  // By family; of each the last counts.
  for (const FoundCheckpoint& each : found) {
    newest[family_of(store::name_in_root(each))] = store::name_in_root(each);
  }
  if (newest.size() < 2) {
    return;
  }
  std::string names;
  std::size_t count = 0;
  for (const auto& [ignored, name] : newest) {
    if (++count <= kMostNamed) {
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
  }
  throw Error(Errc::invalid_argument,
              fmt::format("{}: which checkpoint is the newest cannot be told by names of several kinds; the "
                          "newest of each: {}{}; say it by `number`, take CheckpointOrder::by_time, or give "
                          "each kind a directory of its own",
                          root.string(), names,
                          count > kMostNamed ? fmt::format(" and {} more", count - kMostNamed) : ""));
}

}  // namespace

std::vector<FoundCheckpoint> candidates(std::vector<FoundCheckpoint> found, const std::filesystem::path& root,
                                        const Newest& how) {
  if (how.number) {
    return in_order_of_numbers(std::move(found), how);
  }
  if (how.order == CheckpointOrder::by_name) {
    if (std::any_of(found.begin(), found.end(), has_number)) {
      std::erase_if(found, [](const FoundCheckpoint& each) { return !has_number(each); });
    }
    require_one_family(found, root);
  }
  return found;
}

}  // namespace cairn::api
