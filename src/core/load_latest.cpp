// SPDX-License-Identifier: Apache-2.0
#include "core/internal/load_latest.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/internal/start.hpp"
#include "core/paths.hpp"
#include "core/services.hpp"
#include "store/internal/listing.hpp"

namespace cairn::core {
namespace {

/// How often it is looked again for the newest because that was removed: whoever removes checkpoints faster than they can be
/// opened must be told.
constexpr int kMostRestarts = 10;

/// A search for the newest checkpoint of a directory that can be loaded.
class Search {
 public:
  Search(std::filesystem::path root, const Requests& requests, const RegistrySnapshot& registry,
         const LoadLatestOptions& options, const Context& context)
      : root_(std::move(root)),
        requests_(requests),
        registry_(registry),
        options_(options),
        context_(context),
        clock_(services_of(context)->clock),
        end_(later(clock_.steady_now(), options.load.deadline)) {}

  std::optional<LoadedLatest> run() {
    for (int restarts = 0;; ++restarts) {
      std::vector<FoundCheckpoint> found = list();
      std::reverse(found.begin(), found.end());  // The newest first.
      passed_over_.clear();
      bool is_removed = false;
      for (FoundCheckpoint& each : found) {
        if (std::optional<Loaded> loaded = try_to_load(each, is_removed)) {
          return LoadedLatest{std::move(each), std::move(*loaded), std::move(passed_over_)};
        }
        if (is_removed) {
          break;
        }
      }
      if (!is_removed && passed_over_.empty()) {
        return std::nullopt;
      }
      if (!is_removed || restarts == kMostRestarts) {
        throw_none();
      }
    }
  }

 private:
  std::vector<FoundCheckpoint> list() {
    ListOptions options;
    options.order = options_.order;
    options.everything = true;
    options.deadline = time_left();
    std::vector<FoundCheckpoint> found = list_if_made(root_, options, context_);
    std::erase_if(found, [](const FoundCheckpoint& each) { return !each.counts(); });
    return options_.number ? in_order_of_numbers(std::move(found)) : std::move(found);
  }

  std::vector<FoundCheckpoint> in_order_of_numbers(std::vector<FoundCheckpoint> found) const {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (const auto number = options_.number(store::name_in_root(found[i]))) {
        order.emplace_back(*number, i);
      }
    }
    std::sort(order.begin(), order.end());
    std::vector<FoundCheckpoint> ordered;
    for (const auto& [number, index] : order) {
      ordered.push_back(std::move(found[index]));
    }
    return ordered;
  }

  /// Nothing when the next older one is to be tried; says so when the checkpoint was removed meanwhile.
  std::optional<Loaded> try_to_load(const FoundCheckpoint& found, bool& is_removed) {
    if (!found.is_sound() && options_.fall_back) {
      passed_over_.push_back({found.path, make_error_code(Errc::not_committed), found.problem});
      return std::nullopt;
    }
    if (found.kind == store::EntryClass::displaced) {
      throw Error(Errc::not_committed, fmt::format("{}; recover puts it back", found.problem));
    }
    try {
      LoadOptions options = options_.load;
      options.deadline = time_left();
      return start_load(found.path, requests_, registry_, options, context_, Waiting::for_the_end).wait();
    } catch (const Error& error) {
      std::error_code ignored;
      is_removed = error.code() == std::errc::no_such_file_or_directory &&
                   !std::filesystem::exists(found.path, ignored) && !ignored;
      if (!is_removed && (!options_.fall_back || !is_damage(error.code(), found.path))) {
        throw;
      }
      passed_over_.push_back({found.path, error.code(), error.what()});
      return std::nullopt;
    }
  }

  /// Whether a failure is that of the checkpoint itself: another one may be loaded. Of what was asked for in vain it is not, nor of
  /// what would stop any load.
  bool is_damage(std::error_code code, const std::filesystem::path& path) const {
    if (code == std::errc::no_such_file_or_directory) {
      return !is_checkpoint(path, context_);  // Else it is what was asked for that is not in it.
    }
    return code == Errc::checksum_mismatch || code == Errc::malformed_metadata ||
           code == Errc::not_committed || code == Errc::io_failure ||
           code == std::error_code(EIO, std::system_category()) ||
           code == std::error_code(EUCLEAN, std::system_category());
  }

  [[noreturn]] void throw_none() const {
    const PassedOver& newest = passed_over_.front();
    throw Error(newest.code, fmt::format("{}: of {} checkpoints none can be loaded; the newest: {}",
                                         root_.string(), passed_over_.size(), newest.why));
  }

  /// Errors: Errc::timed_out.
  [[nodiscard]] Timeout time_left() const {
    if (options_.load.deadline <= Timeout()) {
      return {};
    }
    const auto left = end_ - clock_.steady_now();
    if (left <= left.zero()) {
      throw Error(Errc::timed_out, fmt::format("load of the newest checkpoint of {}", root_.string()));
    }
    return left;
  }

  std::filesystem::path root_;
  const Requests& requests_;
  const RegistrySnapshot& registry_;
  const LoadLatestOptions& options_;
  const Context& context_;
  const Clock& clock_;
  const std::chrono::steady_clock::time_point end_;
  std::vector<PassedOver> passed_over_;
};

}  // namespace

std::optional<LoadedLatest> load_latest(const std::filesystem::path& root, const Requests& requests,
                                        const RegistrySnapshot& registry, const LoadLatestOptions& options,
                                        const Context& context) {
  return Search(root, requests, registry, options, context).run();
}

}  // namespace cairn::core
