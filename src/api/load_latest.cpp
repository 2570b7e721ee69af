// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/find.hpp"
#include "cairn/base/error.hpp"

#include "api/check_destinations.hpp"
#include "api/internal/look.hpp"
#include "api/newest.hpp"
#include "base/internal/clock.hpp"
#include "base/internal/require_timeout.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/paths.hpp"
#include "core/internal/start.hpp"
#include "store/internal/damage.hpp"
#include "store/internal/listing.hpp"

namespace cairn {
namespace {

using core::DiskCalls;

/// How often it is looked again for the newest because that was removed: a program that removes checkpoints faster
/// than they can be opened must be told.
constexpr int kMostRestarts = 10;

constexpr std::size_t kMostNamed = 3;  // Of the checkpoints of which none can be loaded.

/// Holds what a search for the newest checkpoint of a directory that can be loaded has come to. Who searches
/// blocks or awaits, and asks this what to do next:
///
///   do {
///     choose_from(what `listing` finds);
///     while (next()) { load it with `loading`: `found`, or `judge` the failure }
///   } while (begins_again());
class Search {
 public:
  /// The deadline counts from here.
  Search(std::filesystem::path root, std::filesystem::path absolute, const LoadLatestOptions& options,
         DiskCalls calls)
      : root_(std::move(root)),
        absolute_(std::move(absolute)),
        options_(options),
        calls_(std::move(calls)),
        end_(later(calls_.clock().steady_now(), options.load.deadline)) {
    require_not_negative(options.load.deadline, fmt::format("{}: the deadline", title()));
    if (options.load.together) {
      throw Error(
          Errc::invalid_argument,
          fmt::format(
              "{}: ranks may not agree on which is the latest: find it on one of them, and have all load "
              "that together",
              root_.string()));
    }
  }

  [[nodiscard]] static ListOptions how_to_list(const LoadLatestOptions& options) {
    ListOptions how;
    how.order = options.order;
    how.numbers = options.numbers;
    how.everything = true;
    return how;
  }

  [[nodiscard]] LoadOptions loading() const {
    LoadOptions how = options_.load;
    how.deadline = time_left();
    return how;
  }

  /// Errors: Errc::timed_out.
  [[nodiscard]] Timeout time_left() const {
    if (options_.load.deadline == Timeout()) {
      return {};
    }
    const auto left = end_ - calls_.clock().steady_now();
    if (left <= left.zero()) {
      throw Error(Errc::timed_out, title());
    }
    return left;
  }

  [[nodiscard]] std::string title() const {
    return fmt::format("load of the newest checkpoint of {}", root_.string());
  }

  void choose_from(std::vector<FoundCheckpoint> found) {
    std::erase_if(found, [](const FoundCheckpoint& each) { return !each.counts(); });
    found_ = api::candidates(std::move(found), root_,
                             {options_.order, options_.numbers, options_.number, options_.fall_back});
    passed_over_.clear();
    is_removed_ = false;
  }

  /// The path of the next one to be loaded; nothing when there is none, or the list is out of date.
  ///
  /// Errors: Errc::not_committed when it is displaced.
  std::optional<std::filesystem::path> next() {
    while (!is_removed_ && !found_.empty()) {
      const FoundCheckpoint& newest = found_.back();
      if (newest.is_sound() || !options_.fall_back || may_be_sound(newest)) {
        if (newest.kind == store::EntryClass::displaced) {
          throw Error(Errc::not_committed, fmt::format("{}; recover puts it back", newest.problem));
        }
        return absolute_ / newest.path.filename();
      }
      passed_over_.push_back({newest.path, make_error_code(Errc::not_committed), newest.problem});
      found_.pop_back();
    }
    return std::nullopt;
  }

  LoadedLatest found(Loaded loaded) {
    return {std::move(found_.back()), std::move(loaded), std::move(passed_over_)};
  }

  /// Asks the disk, and blocks, whether the search goes on after a load of the next one has failed; rethrows where not.
  void judge(const std::exception_ptr& failure) {
    const std::filesystem::path path = absolute_ / found_.back().path.filename();
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      std::error_code ignored;
      is_removed_ = error.code() == std::errc::no_such_file_or_directory &&
                    !std::filesystem::exists(path, ignored) && !ignored;
      if (!is_removed_ && !store::is_damage(calls_.syscalls(), error.code(), path)) {
        throw;
      }
      if (!is_removed_ && !options_.fall_back) {
        throw_with_remedy(error);
      }
      passed_over_.push_back({found_.back().path, error.code(), error.what()});
    }
    found_.pop_back();
  }

  /// Returns whether to list again, as one was removed meanwhile.
  ///
  /// Errors: those of the newest, where there was any.
  bool begins_again() {
    if (is_removed_ && restarts_++ < kMostRestarts) {
      return true;
    }
    if (!passed_over_.empty()) {
      throw_none();
    }
    return false;
  }

 private:
  /// Returns whether the list cannot tell what is wrong with it, or with a later generation of it: the
  /// operating system has not let it look, or it was readable by itself. A load says it with its code.
  static bool may_be_sound(const FoundCheckpoint& found) {
    return found.kind == store::EntryClass::unreadable || found.kind == store::EntryClass::committed;
  }

  /// The failure that is being handled, for a program that has not asked to fall back.
  [[noreturn]] void throw_with_remedy(const Error& error) const {
    const auto older = std::find_if(std::next(found_.rbegin()), found_.rend(),
                                    [](const FoundCheckpoint& found) { return found.is_sound(); });
    if (older == found_.rend()) {
      throw;
    }
    throw Error(error.code(), fmt::format("{}; fall_back would go on to '{}', which is older", error.detail(),
                                          older->name));
  }

  [[noreturn]] void throw_none() const {
    std::string all;
    for (std::size_t i = 0; i < std::min(passed_over_.size(), kMostNamed); ++i) {
      all += fmt::format("{}{}", i == 0 ? "" : "; ", passed_over_[i].why);
    }
    if (passed_over_.size() > kMostNamed) {
      all += fmt::format("; and {} more", passed_over_.size() - kMostNamed);
    }
    throw Error(passed_over_.front().code,
                fmt::format("{}: none of {} checkpoints can be loaded; the newest first: {}", root_.string(),
                            passed_over_.size(), all));
  }

  const std::filesystem::path root_;
  const std::filesystem::path absolute_;  ///< The same, whatever the current directory is later.
  const LoadLatestOptions options_;
  const DiskCalls calls_;
  const std::chrono::steady_clock::time_point end_;
  std::vector<FoundCheckpoint>
      found_;  ///< Those that were not tried yet, and the one that is: the newest last.
  std::vector<PassedOver> passed_over_;
  bool is_removed_ = false;
  int restarts_ = 0;
};

/// All that a search by a coroutine needs; the caller may be gone.
struct SearchRequest {
  std::filesystem::path root;
  std::filesystem::path absolute;
  Requests requests;
  RegistrySnapshot registry;
  LoadLatestOptions options;
  DiskCalls calls;
  std::function<std::vector<FoundCheckpoint>()> list;
};

Awaitable<std::optional<LoadedLatest>> await_latest(std::shared_ptr<const SearchRequest> request) {
  const auto search = std::make_shared<Search>(request->root, request->absolute, request->options,
                                               request->calls);  // Calls may outlive the coroutine.
  do {
    search->choose_from(
        co_await request->calls.await_answer(search->title(), search->time_left(), request->list));
    while (const std::optional<std::filesystem::path> path = search->next()) {
      std::optional<Loaded> loaded;
      std::exception_ptr failure;
      try {
        const LoadOptions options = search->loading();
        loaded = co_await core::await_load(request->calls.services(), *path, request->requests,
                                           request->registry, options);
      } catch (...) {
        failure = std::current_exception();
      }
      if (loaded) {
        co_return search->found(std::move(*loaded));
      }
      std::function<void()> judge = [search, failure] { search->judge(failure); };
      co_await request->calls.await(search->title(), search->time_left(), std::move(judge));
    }
  } while (search->begins_again());
  co_return std::nullopt;
}

}  // namespace

std::optional<LoadedLatest> load_latest(const std::filesystem::path& root, const Requests& requests,
                                        const LoadLatestOptions& options, const Context& context) {
  check_destinations(requests);
  const RegistrySnapshot registry = handlers_of(context, options.load.registry);
  const DiskCalls calls(context);
  Search search(root, core::absolute_path(root), options, calls);
  const auto list = api::listing(calls, root, Search::how_to_list(options), api::Missing::is_empty);
  do {
    search.choose_from(calls.ask(search.title(), search.time_left(), list));
    while (const std::optional<std::filesystem::path> path = search.next()) {
      std::exception_ptr failure;
      try {
        return search.found(core::start_load(*path, requests, registry, search.loading(), calls.services(),
                                             core::Waiting::for_the_end)
                                .wait());
      } catch (...) {
        failure = std::current_exception();
      }
      search.judge(failure);
    }
  } while (search.begins_again());
  return std::nullopt;
}

Awaitable<std::optional<LoadedLatest>> load_latest_async(const std::filesystem::path& root,
                                                         const Requests& requests,
                                                         const LoadLatestOptions& options,
                                                         const Context& context) {
  check_destinations(requests);
  const DiskCalls calls(context);
  return await_latest(std::make_shared<const SearchRequest>(SearchRequest{
      root, core::absolute_path(root), requests, handlers_of(context, options.load.registry), options, calls,
      api::listing(calls, root, Search::how_to_list(options), api::Missing::is_empty)}));
}

}  // namespace cairn
