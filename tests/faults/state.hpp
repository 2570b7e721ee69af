// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"

#include "faults/message.hpp"
#include "faults/scenes.hpp"
#include "handlers/counter.hpp"

namespace cairn::faults {

/// What is saved: one checkpointable of each kind that Cairn has a handler for. Those of two numbers differ in each.
class State {
 public:
  State(std::int64_t number, std::size_t elements);

  /// Its number is the checkpoint's metadata, too.
  SaveResult save(const std::filesystem::path& path, const SaveOptions& options,
                  const Context& context) const;
  [[nodiscard]] AsyncResponse save_async(const std::filesystem::path& path, const SaveOptions& options,
                                         const Context& context) const;
  /// Loads a checkpoint.
  /// Errors: std::logic_error when it holds other values.
  LoadResult require_at(const std::filesystem::path& path, const Context& context) const;

 private:
  [[nodiscard]] Checkpointables items() const;
  [[nodiscard]] SaveOptions numbered(SaveOptions options) const;

  std::int64_t number_;
  Tree tree_;
  Array array_;
  nlohmann::json config_;
  testing::Counter counter_;
  std::unique_ptr<Message> message_;
};

[[nodiscard]] ContextOptions context_options(const Machine& machine);

/// A context that no fault reaches, to look at what is left.
[[nodiscard]] const Context& witness();

}  // namespace cairn::faults
