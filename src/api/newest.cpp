// SPDX-License-Identifier: Apache-2.0
#include "api/newest.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/natural_order.hpp"
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
std::string family_of(std::string_view name, NumbersInNames numbers) {
  if (numbers == NumbersInNames::decimal) {
    return without_decimals(name);
  }
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

/// Returns the newest of each family, by family.
std::map<std::string, std::string> newest_of_families(const std::vector<FoundCheckpoint>& found,
                                                      NumbersInNames numbers) {
  std::map<std::string, std::string> newest;  // The last of each family counts.
  for (const FoundCheckpoint& each : found) {
    newest[family_of(store::name_in_root(each), numbers)] = store::name_in_root(each);
  }
  return newest;
}

[[noreturn]] void throw_several_families(const std::map<std::string, std::string>& newest,
                                         const std::filesystem::path& root) {
  std::string names;
  std::size_t count = 0;
  for (const auto& [ignored, name] : newest) {
    if (++count <= kMostNamed) {
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
  }
  throw Error(Errc::invalid_argument,
              fmt::format("{}: which checkpoint is the newest cannot be told by names of several kinds; the "
                          "newest of each: {}{}; say it by `number`, take CheckpointOrder::by_time (which "
                          "believes the clocks of those who saved), or give "
                          "each kind a directory of its own",
                          root.string(), names,
                          count > kMostNamed ? fmt::format(" and {} more", count - kMostNamed) : ""));
}

std::vector<FoundCheckpoint> sorted(std::vector<FoundCheckpoint> found, NumbersInNames numbers) {
  std::stable_sort(found.begin(), found.end(), [numbers](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return store::is_before_by_name(a, b, numbers);
  });
  return found;
}

/// Errors: Errc::invalid_argument.
std::vector<FoundCheckpoint> in_order_of(NumbersInNames numbers, std::vector<FoundCheckpoint> found,
                                         const std::filesystem::path& root) {
  found = sorted(std::move(found), numbers);
  if (const auto newest = newest_of_families(found, numbers); newest.size() > 1) {
    throw_several_families(newest, root);
  }
  return found;
}

/// Errors: Errc::invalid_argument.
std::vector<FoundCheckpoint> as_both_say(std::vector<FoundCheckpoint> found,
                                         const std::filesystem::path& root, bool is_of_all) {
  std::vector<FoundCheckpoint> apart = sorted(std::move(found), NumbersInNames::apart);
  const std::vector<FoundCheckpoint> decimal = sorted(apart, NumbersInNames::decimal);
  const auto families = newest_of_families(apart, NumbersInNames::apart);
  if (families.size() > 1 && newest_of_families(decimal, NumbersInNames::decimal).size() > 1) {
    throw_several_families(families, root);
  }
  // Each reading sorts all names: a character that one takes for text may belong to a number for the other.
  for (std::size_t newer = apart.size(); newer > 0 && (is_of_all || newer == apart.size()); --newer) {
    const std::string_view one = store::name_in_root(apart[newer - 1]);
    const std::string_view other = store::name_in_root(decimal[newer - 1]);
    if (one != other) {
      throw Error(
          Errc::invalid_argument,
          fmt::format("{}: which checkpoint is the newest depends on how the numbers in the names are read: "
                      "'{}' where each run of digits counts apart, as in versions; '{}' where they are "
                      "decimal; say it by `numbers` (apart or decimal), take CheckpointOrder::by_time (which "
                      "believes the clocks of those who saved), or "
                      "pad names to one width behind the point",
                      root.string(), one, other));
    }
  }
  return apart;
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
    return how.numbers ? in_order_of(*how.numbers, std::move(found), root)
                       : as_both_say(std::move(found), root, how.is_of_all);
  }
  return found;
}

}  // namespace cairn::api
