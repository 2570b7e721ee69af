// SPDX-License-Identifier: Apache-2.0
#include "cli/array_groups.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/dtype.hpp"

#include "base/internal/natural_order.hpp"
#include "tools/internal/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kLeastMembers = 3;  // Two lines are as quick to read as one with a range.
constexpr std::string_view kDigits = "0123456789";

/// A group on its way: its name in pieces, texts and numbers in turn, of which numbers may have become ranges.
struct Pieces {
  std::vector<std::string> pieces;
  std::size_t first = 0;
  std::uint64_t count = 1;
};

std::vector<std::string> pieces_of(std::string_view name) {
  std::vector<std::string> pieces;
  for (bool is_number = false; !name.empty(); is_number = !is_number) {
    const std::size_t end = is_number ? name.find_first_not_of(kDigits) : name.find_first_of(kDigits);
    pieces.emplace_back(name.substr(0, end));
    name.remove_prefix(std::min(end, name.size()));
  }
  return pieces;
}

std::optional<std::uint64_t> number_of(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number ? std::optional(number) : std::nullopt;
}

/// "[0-3,7]" of numbers in their order.
std::string ranges_of(const std::vector<std::string>& numbers) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() &&
           number_of(numbers[last + 1]).value_or(0) == number_of(numbers[last]).value_or(0) + 1) {
      ++last;
    }
    text += fmt::format("{}{}", i == 0 ? "" : ",", numbers[i]);
    if (last != i) {
      text += fmt::format("-{}", numbers[last]);
    }
    i = last + 1;
  }
  return text + "]";
}

/// A key that arrays of one group share: dtype, shape, and their names with a zero byte for the number `at`.
std::string common_of(const Pieces& one, std::size_t at, const ArrayEntry& entry) {
  std::string common = fmt::format("{} {}\n", name(entry.dtype), to_string(entry.shape));
  for (std::size_t i = 0; i < one.pieces.size(); ++i) {
    common += i == at ? std::string(1, '\0') : one.pieces[i] + '\n';
  }
  return common;
}

/// Folds what differs in the number `at` only.
std::vector<Pieces> folded(std::vector<Pieces> all, std::size_t at, std::span<const NamedArray> arrays) {
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ArrayEntry& entry = arrays[all[i].first].entry;
    if (at < all[i].pieces.size() && number_of(all[i].pieces[at]) && entry.alias_of.empty()) {
      alike[common_of(all[i], at, entry)].push_back(i);
    }
  }
  std::vector<bool> is_gone(all.size());
  for (auto& [unused, members] : alike) {
    if (members.size() < kLeastMembers) {
      continue;
    }
    std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
      return number_of(all[a].pieces[at]) < number_of(all[b].pieces[at]);
    });
    std::vector<std::string> numbers;
    std::uint64_t count = 0;
    for (const std::size_t member : members) {
      numbers.push_back(all[member].pieces[at]);
      count += all[member].count;
      is_gone[member] = true;
    }
    Pieces& group = all[*std::min_element(members.begin(), members.end())];
    is_gone[static_cast<std::size_t>(&group - all.data())] = false;
    group.pieces[at] = ranges_of(numbers);
    group.count = count;
  }
  std::vector<Pieces> left;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_gone[i]) {
      left.push_back(std::move(all[i]));
    }
  }
  return left;
}

std::string group_of(std::string_view name, std::size_t depth) {
  const char joiner = name.find('/') == std::string_view::npos ? '.' : '/';
  std::size_t end = 0;
  for (std::size_t i = 0; i < depth; ++i) {
    end = name.find(joiner, i == 0 ? 0 : end + 1);
    if (end == std::string_view::npos) {
      return std::string(name);
    }
  }
  return fmt::format("{}{}**", name.substr(0, end), joiner);
}

template <class NameOf>
std::vector<ArrayTotal> totals(std::span<const NamedArray> arrays, const NameOf& name_of) {
  std::map<std::string, ArrayTotal> by_name;
  for (const NamedArray& array : arrays) {
    std::string name = name_of(array);
    ArrayTotal& total = by_name[name];
    total.name = std::move(name);
    ++total.count;
    total.bytes += array.entry.alias_of.empty() ? array.entry.bytes : 0;
  }
  std::vector<ArrayTotal> all;
  for (auto& [unused, total] : by_name) {
    all.push_back(std::move(total));
  }
  std::stable_sort(all.begin(), all.end(), [](const ArrayTotal& a, const ArrayTotal& b) {
    return is_naturally_less(a.name, b.name);
  });
  return all;
}

}  // namespace

std::vector<ArrayGroup> fold(std::span<const NamedArray> arrays) {
  std::vector<Pieces> all;
  std::size_t most = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    all.push_back({pieces_of(arrays[i].name), i, 1});
    most = std::max(most, all.back().pieces.size());
  }
  for (std::size_t at = 1; at < most; at += 2) {
    all = folded(std::move(all), at, arrays);
  }
  std::vector<ArrayGroup> groups;
  for (const Pieces& one : all) {
    std::string name;
    for (const std::string& piece : one.pieces) {
      name += piece;
    }
    groups.push_back({std::move(name), one.first, one.count});
  }
  return groups;
}

std::vector<ArrayTotal> totals_by_dtype(std::span<const NamedArray> arrays) {
  return totals(arrays,
                [](const NamedArray& array) { return std::string(tools::dtype_text(array.entry.dtype)); });
}

std::vector<ArrayTotal> totals_by_group(std::span<const NamedArray> arrays, std::size_t depth) {
  return totals(arrays, [depth](const NamedArray& array) { return group_of(array.name, depth); });
}

void write_totals(JsonWriter& json, std::span<const NamedArray> arrays, std::size_t depth) {
  json.key("totals").begin_object();
  const auto write = [&json](std::string_view list, std::string_view key,
                             const std::vector<ArrayTotal>& all) {
    json.key(list).begin_list();
    for (const ArrayTotal& one : all) {
      json.begin_object(JsonLayout::line).key(key).value(one.name).key("arrays").value(one.count);
      json.key("bytes").value(one.bytes).end();
    }
    json.end();
  };
  write("dtypes", "dtype", totals_by_dtype(arrays));
  write("groups", "name", totals_by_group(arrays, depth));
  json.end();
}

}  // namespace cairn::cli
