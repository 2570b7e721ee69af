// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/core/load.hpp"

#include "core/operation.hpp"
#include "store/internal/file_source.hpp"

namespace cairn::core {

/// A load, or a question for metadata, in flight.
class LoadJob final : public Operation {
 public:
  LoadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
          RegistrySnapshot registry, LoadOptions options, observe::Meter::TimePoint begin,
          CallersMemory memory);

  ~LoadJob() override;

  /// Loads what was requested; everything when nothing was.
  static Awaitable<> load_all(std::shared_ptr<LoadJob> self);
  /// Describes what was requested; everything when nothing was.
  static Awaitable<> describe_all(std::shared_ptr<LoadJob> self);

  [[nodiscard]] const store::FileSource& source() const noexcept { return *source_; }
  [[nodiscard]] const LoadOptions& options() const noexcept { return options_; }

  /// Enters a file that is read from.
  void count_file(const std::string& relative);

  /// The results, to be asked for once the job is done.
  [[nodiscard]] Loaded take_loaded();
  [[nodiscard]] LoadResult result();
  [[nodiscard]] CheckpointMetadata take_metadata();

 private:
  struct Part {
    store::SourceItem item;
    AnyValue wanted;
    std::optional<Registration> registration;
  };

  /// Runs `attempt` until no save replaces the checkpoint under it.
  static Awaitable<> run_undisturbed(std::shared_ptr<LoadJob> self,
                                     Awaitable<> (*attempt)(std::shared_ptr<LoadJob>));
  static Awaitable<> load_parts(std::shared_ptr<LoadJob> self);
  static Awaitable<> describe_parts(std::shared_ptr<LoadJob> self);
  static Awaitable<> open_source(std::shared_ptr<LoadJob> self);
  static Awaitable<> begin_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                std::vector<std::optional<Background<AnyValue>>>* backgrounds);
  static Awaitable<> finish_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                 Background<AnyValue> background);
  /// Sets `missing` to a failure that says that something is not there.
  static Awaitable<> describe_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                   std::exception_ptr* missing);
  /// Enters what keeps a checkpointable from being described.
  void note_problem(const Part& part, const std::exception_ptr& failure, ItemMetadata& answer) const;
  /// Whether the checkpoint that is being described is still the one at the path.
  [[nodiscard]] bool is_current() const;

  void choose_parts();
  /// Whether another checkpoint is at the path than the one that was read.
  [[nodiscard]] bool was_replaced() const;
  void start_over();
  /// Fills in the result; `problem` is what went wrong with the trace, empty when nothing did.
  void end_load(std::string problem);
  void count_end(const std::exception_ptr& failure) override;
  [[nodiscard]] const Registration& resolve(const Part& part) const;
  [[nodiscard]] LoadContext context(const Part& part);
  /// Says so when another handler loads a part than the one that saved it.
  [[nodiscard]] std::string explain(const Part& part) const;
  /// Names the part before what failed.
  [[noreturn]] void rethrow(const std::exception_ptr& failure, const Part& part) const;

  std::filesystem::path path_;
  Requests requests_;
  RegistrySnapshot registry_;
  LoadOptions options_;
  bool is_load_ = false;  // Not a question for metadata.
  std::shared_ptr<const store::FileSource> source_;
  std::vector<Part> parts_;

  std::mutex mutex_;  // Protects the results.
  Loaded loaded_;
  LoadResult result_;
  std::set<std::string, std::less<>> files_;
  CheckpointMetadata metadata_;
};

}  // namespace cairn::core
