// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_values.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

[[noreturn]] void refuse_kind(std::string_view path, TreeKind kind, TreeKind wanted) {
  throw Error(Errc::type_mismatch,
              fmt::format("{} is of kind {}, not {}", shown(path), name(kind), name(wanted)));
}

const Array& array_of(const Tree& leaf, std::string_view path) {
  const Array* array = leaf.array_if();
  if (!array) {
    refuse_kind(path, leaf.kind(), TreeKind::array);
  }
  return *array;
}

void check_dtype(const Array& stored, DType wanted, std::string_view path) {
  if (stored.dtype() != wanted) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("{}: stored dtype {}, wanted {}; a load that asks for {} casts it", shown(path),
                            stored.dtype(), wanted, wanted));
  }
}

const Array& array_of_rank_1(const Tree& leaf, std::string_view path) {
  const Array& array = array_of(leaf, path);
  if (array.shape().size() != 1) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored shape {}, wanted one dimension", shown(path), array.shape()));
  }
  return array;
}

std::strong_ordering order_of(double a, double b) {
  return std::strong_order(a, b);
}

template <class T>
std::strong_ordering order_of(const T& a, const T& b) {
  return a <=> b;
}

std::strong_ordering order_of(const Array& a, const Array& b) {
  if (const auto order = a.dtype() <=> b.dtype(); order != 0) {
    return order;
  }
  const auto& left = a.shape();
  const auto& right = b.shape();
  if (const auto order =
          std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end());
      order != 0) {
    return order;
  }
  const Array one = a.clone();  // Contiguous, whatever the strides.
  const Array other = b.clone();
  const int difference = one.byte_count() == 0 ? 0
                                               : std::memcmp(one.view().data(), other.view().data(),
                                                             static_cast<std::size_t>(one.byte_count()));
  return difference <=> 0;
}

std::strong_ordering order_of(const Tree& a, const Tree& b);

/// The order of two leaves that are both a `T`; equal when they are not.
template <class T>
std::strong_ordering order_as(const Tree& a, const Tree& b) {
  const T* left = TreeAccess::leaf<T>(a);
  const T* right = TreeAccess::leaf<T>(b);
  if (left && right) {
    return order_of(*left, *right);
  }
  return (left != nullptr) <=> (right != nullptr);
}

std::strong_ordering order_of_children(const Tree& a, const Tree& b) {
  const auto in_list = [](const Tree& left, const Tree& right) { return order_of(left, right); };
  const auto in_map = [](const auto& left, const auto& right) {
    const std::strong_ordering keys = left.first <=> right.first;
    return keys != 0 ? keys : order_of(left.second, right.second);
  };
  if (a.is_list() && b.is_list()) {
    const auto &left = a.as_list(), &right = b.as_list();
    return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end(),
                                                  in_list);
  }
  if (a.is_map() && b.is_map()) {
    const auto &left = a.as_map(), &right = b.as_map();
    return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end(),
                                                  in_map);
  }
  return std::strong_ordering::equal;
}

/// An order of all trees that says the same in every process: by kind, then by value.
std::strong_ordering order_of(const Tree& a, const Tree& b) {
  for (const std::strong_ordering order :
       {a.kind() <=> b.kind(), order_as<bool>(a, b), order_as<std::int64_t>(a, b),
        order_as<std::uint64_t>(a, b), order_as<double>(a, b), order_as<std::string>(a, b),
        order_as<Bytes>(a, b), order_as<Array>(a, b)}) {
    if (order != 0) {
      return order;
    }
  }
  return order_of_children(a, b);
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
  check_dtype(array, dtype, path);
  check_count(static_cast<std::size_t>(array.element_count()), static_cast<std::size_t>(count), path);
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
  check_count(list.size(), size, path);
}

void check_count(std::size_t stored, std::size_t wanted, std::string_view path) {
  if (stored != wanted) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored {} elements, wanted {}", shown(path), stored, wanted));
  }
}

void sort_elements(Tree::List& elements) {
  std::sort(elements.begin(), elements.end(),
            [](const Tree& a, const Tree& b) { return order_of(a, b) < 0; });
}

void throw_twice(std::string_view path) {
  throw Error(Errc::structure_mismatch,
              fmt::format("{}: an equal element came before, and a set has each once", shown(path)));
}

void read_text(const Tree& leaf, std::span<char> out, std::string_view path) {
  const auto text = leaf.as<std::string_view>(path);
  if (text.size() > out.size()) {
    throw Error(Errc::shape_mismatch, fmt::format("{}: stored {} characters, wanted at most {}", shown(path),
                                                  text.size(), out.size()));
  }
  const auto end = std::copy(text.begin(), text.end(), out.begin());
  std::fill(end, out.end(), '\0');
}

void read_view(const Tree& leaf, const MutableArrayView& out, std::string_view path) {
  const Array& array = array_of(leaf, path);
  check_dtype(array, out.dtype(), path);
  if (array.shape() != out.shape()) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored shape {}, wanted {}", shown(path), array.shape(), out.shape()));
  }
  copy(array.view(), out);
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
