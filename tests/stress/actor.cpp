// SPDX-License-Identifier: Apache-2.0
#include "stress/actor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/io/recovery.hpp"

namespace cairn::stress {
namespace {

constexpr int kShared = 3;  ///< Targets that everybody writes and reads.
constexpr std::array<std::size_t, 3> kElements = {3, 2'000, 90'000};

std::uint64_t value_of(std::uint64_t version, std::size_t i) {
  return (version + 1) * 0x9E3779B97F4A7C15 + i;
}

/// A tree that shows whether all of it is of one save.
Tree make_state(std::uint64_t version) {
  Tree state;
  state["version"] = static_cast<std::int64_t>(version);
  for (std::size_t k = 0; k < kElements.size(); ++k) {
    std::vector<std::uint64_t> values(kElements[k]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = value_of(version, i + k);
    }
    state["arrays"][fmt::format("{}", k)] = Array::adopt(std::move(values));
  }
  return state;
}

bool is_whole(const Tree& state) {
  const auto version = static_cast<std::uint64_t>(state.at("version").as<std::int64_t>());
  return state == make_state(version);
}

bool is_among(const Error& error, const std::vector<Errc>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](Errc code) { return error.code() == code; });
}

ContextOptions context_options(std::uint64_t number) {
  ContextOptions options;
  options.engine = number % 2 == 0 ? io::EngineKind::automatic : io::EngineKind::threads;
  options.staging_bytes = std::size_t{8} << 20;  // Two buffers: saves wait for each other.
  options.worker_threads = 2;
  options.close_timeout = std::chrono::seconds(number % 3 == 0 ? 0 : 60);
  return options;
}

}  // namespace

void fill_root(const std::filesystem::path& root) {
  for (int number = 0; number < kShared; ++number) {
    save(root / fmt::format("shared{}", number), make_state(0));
  }
}

void Tally::add(const Tally& other) {
  for (const auto& [outcome, times] : other.outcomes) {
    outcomes[outcome] += times;
  }
  wrong += other.wrong;
  if (first_problem.empty()) {
    first_problem = other.first_problem;
  }
}

Actor::Actor(std::filesystem::path root, int number, std::uint64_t seed)
    : root_(std::move(root)), number_(number), random_(seed * 1000 + static_cast<std::uint64_t>(number)) {
  context_.emplace(context_options(random_()));
}

void Actor::act() {
  using Act = void (Actor::*)();
  constexpr std::array<Act, 9> kRare = {
      &Actor::save_and_cancel, &Actor::save_until_deadline, &Actor::save_and_drop,
      &Actor::save_own,        &Actor::load_foreign,        &Actor::load_and_cancel,
      &Actor::describe_shared, &Actor::recover_root,        &Actor::end_context};
  switch (const std::uint64_t choice = random_() % 14) {
    case 0:
    case 1:
      return save_and_wait(true);
    case 2:
      return save_and_wait(false);
    case 3:
    case 4:
      return load_shared();
    default:
      return (this->*kRare.at(choice - 5))();
  }
}

template <class Work>
void Actor::count(const std::string& done, const std::vector<Errc>& allowed, Work work) {
  try {
    work();
    ++tally_.outcomes[done];
  } catch (const Error& error) {
    ++tally_.outcomes[fmt::format("not {}: {}", done, error.code().message())];
    if (!is_among(error, allowed) && tally_.first_problem.empty()) {
      tally_.first_problem = fmt::format("not {}: {}", done, error.what());
    }
  }
}

Tree Actor::next_state() {
  return make_state(random_());
}

std::filesystem::path Actor::shared() {
  return root_ / fmt::format("shared{}", random_() % kShared);
}

std::chrono::microseconds Actor::moment() {
  return std::chrono::microseconds(random_() % 4000);
}

SaveOptions Actor::replacing() {
  SaveOptions options;
  options.overwrite = true;
  return options;
}

void Actor::check(const Tree& state) {
  if (!is_whole(state)) {
    ++tally_.wrong;
  }
}

void Actor::save_and_wait(bool overwrite) {
  SaveOptions options;
  options.overwrite = overwrite;
  options.snapshot = random_() % 2 == 0 ? Snapshot::copy : Snapshot::share;
  count("saved", {Errc::already_exists}, [&] { save(shared(), next_state(), options, *context_); });
}

void Actor::save_and_cancel() {
  count("saved (cancel)", {Errc::already_exists, Errc::cancelled}, [&] {
    const AsyncResponse saving = save_async(shared(), next_state(), replacing(), *context_);
    std::this_thread::sleep_for(moment());
    saving.cancel();
    saving.wait();
  });
}

void Actor::save_until_deadline() {
  count("saved (deadline)", {Errc::already_exists, Errc::timed_out}, [&] {
    SaveOptions options = replacing();
    options.deadline = moment() + std::chrono::microseconds(1);
    save(shared(), next_state(), options, *context_);
  });
}

void Actor::save_and_drop() {
  count("begun", {Errc::already_exists},
        [&] { static_cast<void>(save_async(shared(), next_state(), replacing(), *context_)); });
}

void Actor::save_own() {
  count("saved (own)", {}, [&] {
    save(root_ / fmt::format("own{}-{}", number_, ++step_), next_state(), SaveOptions(), *context_);
    if (step_ > 2) {
      remove_checkpoint(root_ / fmt::format("own{}-{}", number_, step_ - 2), *context_);
    }
  });
}

void Actor::load_shared() {
  count("loaded", {}, [&] { check(load(shared(), LoadOptions(), *context_)); });
}

void Actor::load_foreign() {
  count("loaded (foreign)", {Errc::not_found, Errc::not_committed}, [&] {
    std::vector<std::filesystem::path> own;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      if (entry.path().filename().string().starts_with("own")) {
        own.push_back(entry.path());
      }
    }
    if (!own.empty()) {
      check(load(own[random_() % own.size()], LoadOptions(), *context_));
    }
  });
}

void Actor::load_and_cancel() {
  count("loaded (cancel)", {Errc::cancelled}, [&] {
    const TreeResponse loading = load_async(shared(), std::nullopt, LoadOptions(), *context_);
    std::this_thread::sleep_for(moment() / 4);
    loading.cancel();
    check(loading.wait());
  });
}

void Actor::describe_shared() {
  count("described", {}, [&] {
    if (metadata(shared(), *context_).at("arrays/2").as_array().shape != Shape{kElements[2]}) {
      ++tally_.wrong;
    }
  });
}

void Actor::recover_root() {
  count("recovered", {}, [&] { static_cast<void>(io::recover(io::posix_syscalls(), root_)); });
}

void Actor::end_context() {
  count("context ended", {Errc::already_exists, Errc::closed}, [&] {
    const AsyncResponse saving = save_async(shared(), next_state(), replacing(), *context_);
    const TreeResponse loading = load_async(shared(), std::nullopt, LoadOptions(), *context_);
    std::this_thread::sleep_for(moment() / 2);
    context_.emplace(context_options(random_()));
    saving.wait();
  });
}

}  // namespace cairn::stress
