// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/core/load.hpp"

#include "core/file_source.hpp"
#include "core/operation.hpp"

namespace cairn::core {

/// A load, or a question for metadata, in flight.
class LoadJob final : public Operation {
 public:
  LoadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
          RegistrySnapshot registry, LoadOptions options);

  /// Loads what was requested; everything when nothing was.
  static Awaitable<> load_all(std::shared_ptr<LoadJob> self);
  /// Describes what was requested; everything when nothing was.
  static Awaitable<> describe_all(std::shared_ptr<LoadJob> self);

  [[nodiscard]] const FileSource& source() const noexcept { return *source_; }
  [[nodiscard]] const LoadOptions& options() const noexcept { return options_; }

  /// The results, to be asked for once the job is done.
  [[nodiscard]] Loaded take_loaded();
  [[nodiscard]] CheckpointMetadata take_metadata();

 private:
  struct Part {
    SourceItem item;
    AnyValue wanted;
    std::optional<Registration> registration;
  };

  static Awaitable<> open_source(std::shared_ptr<LoadJob> self);
  static Awaitable<> begin_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                std::vector<std::optional<Background<AnyValue>>>* backgrounds);
  static Awaitable<> finish_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                 Background<AnyValue> background);
  static Awaitable<> describe_part(std::shared_ptr<LoadJob> self, std::size_t index);

  void choose_parts();
  [[nodiscard]] const Registration& resolve(const Part& part) const;
  [[nodiscard]] LoadContext context(const Part& part);
  [[nodiscard]] std::string who(const Part& part) const;

  std::filesystem::path path_;
  Requests requests_;
  RegistrySnapshot registry_;
  LoadOptions options_;
  std::shared_ptr<const FileSource> source_;
  std::vector<Part> parts_;

  std::mutex mutex_;  // Protects the results.
  Loaded loaded_;
  CheckpointMetadata metadata_;
};

}  // namespace cairn::core
