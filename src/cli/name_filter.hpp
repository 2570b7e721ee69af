// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/core/load.hpp"

#include "handlers/internal/path_pattern.hpp"

namespace cairn::cli {

/// The names that were asked for: checkpointables, subtrees, arrays and values, also by patterns ("model/**/weights").
class NameFilter {
 public:
  /// Without names it takes everything.
  ///
  /// Errors: Errc::invalid_argument for what is not a pattern.
  explicit NameFilter(const std::vector<std::string>& names);

  /// Returns whether a path in a checkpointable, empty for the checkpointable itself, was asked for: with the
  /// checkpointable in front or without it. Names that ask for it count as found.
  [[nodiscard]] bool takes(std::string_view checkpointable, std::string_view path);

  /// Errors: Errc::not_found, which names the first that took nothing, the name that was probably meant, and the
  ///         checkpointables; the problem of a checkpointable that may have had it.
  void require_all_found(const CheckpointMetadata& metadata) const;

 private:
  struct Name {
    std::string text;
    detail::PathPattern pattern;  ///< Also of what lies below.
    bool is_found = false;
  };

  std::vector<Name> names_;
};

/// "checkpointable/path".
[[nodiscard]] std::string title_of(std::string_view checkpointable, std::string_view path);

/// The titles of the arrays and values of a checkpointable, in their natural order.
[[nodiscard]] std::vector<std::string> titles_of(std::string_view checkpointable,
                                                 const Description& description, bool is_foreign);

/// "; did you mean 'model/params/w'?": the one of the names of a checkpoint that is nearest to `name`, with its
/// checkpointable or without it. Empty where none is near.
[[nodiscard]] std::string suggestion(std::string_view name, const CheckpointMetadata& metadata);

}  // namespace cairn::cli
