// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cairn/array/array_entries.hpp"

namespace cairn {

/// A value of a checkpointable that is not an array.
struct DescribedValue {
  std::string name;  ///< Its path; empty where the value is all there is.
  std::string kind;  ///< "integer", "string", "list", …
  /// Nothing for null, for containers, whose elements are values of their own, and where only the kind is known.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::byte>>
      value;
};

/// What a checkpointable holds, for people and for tools that do not know its type.
struct Description {
  std::string kind;  ///< "tree", "JSON object": what it is, with what a load would refuse to mix up.
  ArrayEntries arrays;
  std::vector<DescribedValue> values;
  /// Files that people can read. One whose name ends in ".json" is a JSON document, any other is made of lines.
  std::vector<std::string> texts;
  /// Whether arrays, values and texts are all that is loaded: then two that agree in them are equal, whatever their files
  /// look like. Else texts only show what the other files hold.
  bool says_all = false;
};

}  // namespace cairn
