// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/describe.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

/// Of the keys that an error lists.
constexpr std::size_t kMostStrangers = 20;

std::string child_path(std::string_view path, std::string_view key) {
  std::string child(path);
  formats::append_key(child, key);
  return shown(child);
}

[[noreturn]] void refuse_kind(std::string_view path, TreeKind kind, TreeKind wanted) {
  throw Error(Errc::type_mismatch,
              fmt::format("{} is of kind {}, not {}", shown(path), name(kind), name(wanted)));
}

const Array& array_of_rank_1(const Tree& leaf, std::string_view path) {
  const Array* array = leaf.array_if();
  if (!array) {
    refuse_kind(path, leaf.kind(), TreeKind::array);
  }
  if (array->shape().size() != 1) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored shape {}, wanted one dimension", shown(path), array->shape()));
  }
  return *array;
}

}  // namespace

bool boolean_of(const Tree& leaf, std::string_view path) {
  const auto number = leaf.as<std::int64_t>(path);
  if (number != 0 && number != 1) {
    throw Error(
        Errc::type_mismatch,
        fmt::format("{} is {}, which is neither 0 nor 1: no value of an enum of bool", shown(path), number));
  }
  return number == 1;
}

void check_keys(const Tree& map, std::span<const std::string_view> keys, std::string_view path) {
  const Tree::Map& children = map_of(map, path);
  std::string missing;
  std::string unexpected;
  for (const std::string_view key : keys) {
    if (!children.contains(key)) {
      missing += (missing.empty() ? "" : ", ") + child_path(path, key);
    }
  }
  std::size_t strangers = 0;  // There may be a hundred thousand.
  for (const auto& [key, child] : children) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end() && ++strangers <= kMostStrangers) {
      unexpected += (unexpected.empty() ? "" : ", ") + child_path(path, key);
    }
  }
  if (strangers > kMostStrangers) {
    unexpected += fmt::format(" and {} more", strangers - kMostStrangers);
  }
  if (!missing.empty() || !unexpected.empty()) {
    throw Error(Errc::structure_mismatch,
                fmt::format("{}{}{}{}", missing.empty() ? "" : "members that the tree lacks: ", missing,
                            missing.empty() || unexpected.empty() ? "" : "; ",
                            unexpected.empty() ? "" : "keys that are not members: " + unexpected));
  }
}

const Tree::Map& map_of(const Tree& node, std::string_view path) {
  if (!node.is_map()) {
    refuse_kind(path, node.kind(), TreeKind::map);
  }
  return node.as_map();
}

void read_elements(const Tree& leaf, DType dtype, std::span<std::byte> out, std::uint64_t count,
                   std::string_view path) {
  const Array& array = array_of_rank_1(leaf, path);
  if (array.dtype() != dtype) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("{}: stored dtype {}, wanted {}", shown(path), array.dtype(), dtype));
  }
  if (array.element_count() != count) {
    throw Error(Errc::shape_mismatch, fmt::format("{}: stored are {} elements, wanted {}", shown(path),
                                                  array.element_count(), count));
  }
  if (!out.empty()) {
    copy_range(array.view(), 0, out);
  }
}

std::size_t element_count_of(const Tree& leaf, std::string_view path) {
  return static_cast<std::size_t>(array_of_rank_1(leaf, path).element_count());
}

void check_list(const Tree& list, std::size_t size, std::string_view path) {
  if (!list.is_list()) {
    refuse_kind(path, list.kind(), TreeKind::list);
  }
  if (list.size() != size) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored are {} elements, wanted {}", shown(path), list.size(), size));
  }
}

PathKey::PathKey(std::string& path, std::string_view key) : path_(path), end_(path.size()) {
  formats::append_key(path, key);
}

PathKey::PathKey(std::string& path, std::size_t position) : PathKey(path, fmt::to_string(position)) {}

}  // namespace cairn::detail
