// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "store/internal/checkpointable_names.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

/// A test with a folder, a context and the built-in handlers; checkpointables are called "item".
class StoreTest : public ::testing::Test {
 protected:
  template <class T>
  AsyncResponse start(const T& value, const SaveOptions& options = {}) {
    return core::start_save(path(), Checkpointables{{"item", value}}, handlers_, options, context_);
  }

  template <class T>
  void save(const T& value, const SaveOptions& options = {}) {
    start(value, options).wait();
  }

  template <class T>
  T load(const Request& request = "item", const TreeLoadOptions& tree_options = {}) {
    return load_from<T>(path(), request, tree_options);
  }

  template <class T>
  T load_from(const std::filesystem::path& from, const Request& request,
              const TreeLoadOptions& tree_options = {}) {
    LoadOptions options;
    options.handler_options.set(tree_options);
    return core::start_load(from, {request}, handlers_, options, context_)
        .wait()
        .template take<T>(request.name());
  }

  ItemMetadata item_metadata() {
    return core::read_metadata(path(), {}, handlers_, LoadOptions(), context_).at("item");
  }

  template <class Abstract>
  Abstract metadata() {
    return item_metadata().template as<Abstract>();
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "checkpoint"; }
  [[nodiscard]] std::filesystem::path item(std::string_view file) const {
    return path() / store::directory_of("item") / file;
  }

  TempDir folder_;
  RegistrySnapshot handlers_ = builtin_handlers();
  Context context_;
};

}  // namespace cairn::testing
