// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/coord/session.hpp"
#include "cairn/core/load.hpp"

#include "base/internal/mutex.hpp"
#include "contract/internal/backend.hpp"
#include "core/operation.hpp"
#include "store/internal/source.hpp"

namespace cairn::core {

/// An operation that reads a checkpoint: what loads and questions for metadata have in common.
///
/// Finds what was requested, everything when nothing was, and begins again when a save replaces the checkpoint
/// meanwhile. Coroutines that are members are awaited by the operation's own work, which keeps it.
class ReadJob : public Operation, public contract::LoadBackend {
 public:
  ReadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
          RegistrySnapshot registry, LoadOptions options, observe::Meter::TimePoint begin,
          CallerMemoryUse memory);

  ~ReadJob() override;

  [[nodiscard]] contract::Resources resources() noexcept override;
  [[nodiscard]] const store::Source& source() const noexcept override { return *source_; }
  [[nodiscard]] bool verifies() const noexcept override { return options_.verify; }
  [[nodiscard]] std::optional<coord::Channel> next_reading(const std::string& /*directory*/) override {
    return std::nullopt;
  }
  [[nodiscard]] std::span<const std::uint32_t> group() const noexcept override { return options_.group; }
  [[nodiscard]] std::optional<coord::Channel> channel(const std::string& /*directory*/,
                                                      std::string_view /*what*/) const override {
    return std::nullopt;
  }
  void count_file(const std::string& relative) override;
  void add_problem(const std::string& /*problem*/) noexcept override {}
  void add_differences(const std::string& /*name*/, std::vector<std::string> /*missing*/,
                       std::vector<std::string> /*unexpected*/) override {}

  [[nodiscard]] const LoadOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const Requests& requests() const noexcept { return requests_; }

 protected:
  /// Lets go of the checkpoint, whose memory the caller may want at once: this operation may be kept for longer.
  void make_way() noexcept override;

  struct Part {
    store::SourceItem item;
    AnyValue wanted;
    std::optional<Registration> registration;
  };

  /// Reads the checkpoint that is at the path now.
  virtual Awaitable<> attempt() = 0;
  /// Drops what an attempt has collected.
  virtual void forget_attempt() = 0;

  /// Returns whether it may begin again by itself.
  [[nodiscard]] virtual bool may_start_over() const noexcept { return true; }

  /// Attempts until no save replaces the checkpoint under it.
  Awaitable<> run_undisturbed();
  /// Opens the checkpoint, whose metadata somebody has read already, or nobody has: then `metadata` is empty.
  Awaitable<> open_source(std::string metadata = {});

  [[nodiscard]] std::vector<Part>& parts() noexcept { return parts_; }
  [[nodiscard]] std::size_t count_of_files() const;
  [[nodiscard]] const Registration& resolve(const Part& part) const;
  [[nodiscard]] LoadContext context(const Part& part);
  /// Says so when another handler reads a part than the one that saved it.
  [[nodiscard]] std::string explain(const Part& part) const;
  /// Names the part before what failed, see `rethrow_of`.
  [[noreturn]] void rethrow(const std::exception_ptr& failure, const Part& part, Asked asked) const;
  /// Returns whether another checkpoint is at the path than the one that was opened; asks the disk.
  ///
  /// Errors: those of opening it, when nobody can tell.
  [[nodiscard]] bool was_replaced() const;
  /// Returns whether the checkpoint that was opened is still the one at the path; asks the disk.
  [[nodiscard]] bool is_current() const;

 private:
  /// Errors: Errc::not_found where another checkpoint is expected.
  void require_uuid() const;
  void choose_parts();
  void start_over();

  std::filesystem::path path_;
  Requests requests_;
  RegistrySnapshot registry_;
  LoadOptions options_;
  std::shared_ptr<const store::Source> source_;
  std::vector<Part> parts_;

  mutable Mutex files_mutex_;
  std::set<std::string, std::less<>> files_ CAIRN_GUARDED_BY(files_mutex_);
};

}  // namespace cairn::core
