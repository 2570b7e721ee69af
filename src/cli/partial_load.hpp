// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cairn/core/load.hpp"
#include "cairn/handlers/abstract_tree.hpp"

namespace cairn::cli {

/// Loads the nodes of a checkpointable that are asked for, and no others. Read as a tree, whatever program wrote it.
class PartialLoad {
 public:
  /// Asks for the node at `path`.
  ///
  /// Errors: Errc::malformed_metadata when it is not a path.
  void want(std::string_view path, AbstractTree node);

  /// Starts to read and verify them. What was asked for is used up.
  ///
  /// Errors: those of the response are those of load_checkpointables.
  [[nodiscard]] LoadResponse start(const std::filesystem::path& source, const std::string& item);

 private:
  AbstractTree wanted_;
};

}  // namespace cairn::cli
