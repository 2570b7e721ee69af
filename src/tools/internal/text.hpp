// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"

namespace cairn {
struct DescribedValue;
struct Description;
struct ItemMetadata;
}  // namespace cairn

namespace cairn::tools {

/// "512 B", "4.0 GiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// "1,234,567".
[[nodiscard]] std::string count_text(std::uint64_t count);

/// "1 array", "2 arrays": the count with its noun.
[[nodiscard]] std::string count_text(std::uint64_t count, std::string_view noun);

/// The word of C++ for a dtype: "float32", "boolean"; "?" for none of the types.
[[nodiscard]] std::string_view dtype_text(DType dtype);

/// The dtype that C++ calls so; nothing where there is none.
[[nodiscard]] std::optional<DType> dtype_of(std::string_view text);

/// The path of an array as its program calls it: a tensor of a foreign file is one key, which may have slashes in it.
[[nodiscard]] std::string shown_path(std::string_view path, bool is_foreign);

/// A value as people read it; empty when its kind says all.
[[nodiscard]] std::string value_text(const DescribedValue& value);

/// Returns what keeps a checkpointable from being described; empty when nothing does but that its handler is not
/// registered: then it is known by its files.
[[nodiscard]] std::string problem_text(const ItemMetadata& item);

/// Returns what a load of everything tells in its problems of files of other programs: what has no place in a tree, and
/// what should be known of the files.
[[nodiscard]] std::vector<std::string> notes_of(const Description& description);

}  // namespace cairn::tools
