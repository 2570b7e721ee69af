// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_nested.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

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

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || std::to_string(number) != text) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

bool boolean_of(const Tree& leaf, std::string_view path) {
  const auto number = leaf.as<std::int64_t>(path);
  if (number != 0 && number != 1) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} is {}, which is not a value of a bool enum (0 or 1)", shown(path), number));
  }
  return number == 1;
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
                fmt::format("{}: stored dtype {}, wanted {}; a load that asks for {} casts it", shown(path),
                            array.dtype(), dtype, dtype));
  }
  if (array.element_count() != count) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored {} elements, wanted {}", shown(path), array.element_count(), count));
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
                fmt::format("{}: stored {} elements, wanted {}", shown(path), list.size(), size));
  }
}

Tree number_of_key(std::string_view key, std::string_view path) {
  if (const auto number = parse_integer<std::int64_t>(key)) {
    return *number;
  }
  if (const auto number = parse_integer<std::uint64_t>(key)) {
    return *number;
  }
  throw Error(Errc::type_mismatch,
              fmt::format("{}: the key is not an integer as std::to_string writes it", shown(path)));
}

PathKey::PathKey(std::string& path, std::string_view key) : path_(path), end_(path.size()) {
  formats::append_key(path, key);
}

PathKey::PathKey(std::string& path, std::size_t position) : PathKey(path, fmt::to_string(position)) {}

}  // namespace cairn::detail
