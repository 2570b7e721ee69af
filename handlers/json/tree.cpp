// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/base/error.hpp"
#include "cairn/handlers/json.hpp"
#include "cairn/handlers/json_tree.hpp"

#include "formats/internal/index.hpp"

namespace cairn {
namespace {

using Json = nlohmann::json;

std::string shown_node(std::string_view path) {
  return path.empty() ? "the JSON value" : formats::shown(path);
}

void check_depth(std::size_t depth, std::string_view path) {
  if (depth > kMaxJsonDepth) {
    throw Error(Errc::invalid_argument,
                fmt::format("JSON is deeper than {} levels, at '{}…'", kMaxJsonDepth, path.substr(0, 60)));
  }
}

/// Goes from JSON to a tree. `path` is that of `value`, and is so again afterwards; `depth` counts the containers
/// around it.
Tree to_tree(const Json& value, std::string& path, std::size_t depth) {
  check_depth(depth, path);
  switch (value.type()) {
    case Json::value_t::null:
      return {};
    case Json::value_t::boolean:
      return value.get<bool>();
    case Json::value_t::number_integer:
      return value.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      return value.get<std::uint64_t>();
    case Json::value_t::number_float:
      return value.get<double>();
    case Json::value_t::string:
      return value.get_ref<const std::string&>();
    case Json::value_t::object: {
      Tree tree = Tree::map();
      for (const auto& [key, child] : value.get_ref<const Json::object_t&>()) {
        const detail::PathKey inside(path, key);
        tree.as_map().try_emplace(key, to_tree(child, path, depth + 1));
      }
      return tree;
    }
    case Json::value_t::array: {
      Tree tree = Tree::list();
      tree.as_list().reserve(value.size());
      for (const Json& element : value) {
        const detail::PathKey inside(path, tree.size());
        tree.push_back(to_tree(element, path, depth + 1));
      }
      return tree;
    }
    case Json::value_t::binary: {
      const Json::binary_t& binary = value.get_binary();
      if (binary.has_subtype()) {
        throw Error(Errc::invalid_argument,
                    fmt::format("{} is binary with the subtype {}, which a tree does not keep",
                                shown_node(path), binary.subtype()));
      }
      const auto* begin = reinterpret_cast<const std::byte*>(binary.data());
      return Bytes(begin, begin + binary.size());
    }
    case Json::value_t::discarded:
      break;
  }
  throw Error(Errc::invalid_argument, fmt::format("{} is a discarded value", shown_node(path)));
}

Json scalar_to_json(const Tree& leaf, std::string_view path) {
  switch (leaf.kind()) {
    case TreeKind::null:
      return nullptr;
    case TreeKind::boolean:
      return leaf.as<bool>();
    case TreeKind::integer:
      if (const auto large = leaf.large_integer()) {
        return *large;
      }
      return leaf.as<std::int64_t>();
    case TreeKind::floating:
      return leaf.as<double>();
    case TreeKind::string:
      return leaf.as<std::string>();
    case TreeKind::bytes: {
      const auto bytes = leaf.as<Bytes>();
      const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
      return Json::binary(Json::binary_t::container_type(begin, begin + bytes.size()));
    }
    default:
      throw Error(Errc::type_mismatch, fmt::format("{} is of kind {}, which JSON does not have",
                                                   shown_node(path), name(leaf.kind())));
  }
}

Json to_json(const Tree& tree, std::string& path, std::size_t depth) {
  check_depth(depth, path);
  if (tree.is_map()) {
    Json object = Json::object();
    for (const auto& [key, child] : tree.as_map()) {
      const detail::PathKey inside(path, key);
      object.emplace(key, to_json(child, path, depth + 1));
    }
    return object;
  }
  if (tree.is_list()) {
    Json array = Json::array();
    for (const Tree& element : tree.as_list()) {
      const detail::PathKey inside(path, array.size());
      array.push_back(to_json(element, path, depth + 1));
    }
    return array;
  }
  return scalar_to_json(tree, path);
}

}  // namespace

Tree json_to_tree(const nlohmann::json& value) {
  std::string path;
  return to_tree(value, path, 0);
}

nlohmann::json tree_to_json(const Tree& tree, std::string_view path) {
  std::string at(path);
  return to_json(tree, at, 0);
}

void TreeForm<nlohmann::json>::read(const Tree& tree, nlohmann::json& value, TreeReader& at) {
  value = tree_to_json(tree, at.path);
}

}  // namespace cairn
