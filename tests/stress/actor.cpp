// SPDX-License-Identifier: Apache-2.0
#include "stress/actor.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "stress/state.hpp"
#include "support/holder.hpp"

namespace cairn::stress {
namespace {

constexpr int kShared = 3;  ///< Targets that everybody writes and reads.

bool is_among(const Error& error, const std::vector<Errc>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](Errc code) { return error.code() == code; });
}

SaveOptions options_of(bool overwrite) {
  SaveOptions options;
  options.overwrite = overwrite;
  return options;
}

}  // namespace

void fill_root(const World& world) {
  for (int i = 0; i < kShared; ++i) {
    const std::string target = fmt::format("shared{}", i);
    const auto number = world.chronicle.begin_save(target);
    SaveOptions options;
    options.custom_metadata = std::to_string(number);
    save(world.root / target, make_state(number), options);
    world.chronicle.answer_save(number, nullptr);
  }
}

void look_at_all(const World& world) {
  for (const std::string& target : world.chronicle.targets()) {
    const auto since = world.chronicle.now(target);
    try {
      const auto holder = testing::holder_of(world.root / target);
      if (holder && number_in(load(world.root / target)) != *holder) {
        world.chronicle.lie("damage", target + " holds another state than its metadata says");
      }
      world.chronicle.see(target, holder, since);
    } catch (const Error& error) {
      world.chronicle.lie("damage", error.what());
    }
  }
}

void Tally::add(const Tally& other) {
  for (const auto& [outcome, times] : other.outcomes) {
    outcomes[outcome] += times;
  }
  slow_calls += other.slow_calls;
  if (first_problem.empty()) {
    first_problem = other.first_problem;
  }
}

Actor::Actor(World world, int number, std::uint64_t seed)
    : world_(std::move(world)), number_(number), random_(seed * 1000 + static_cast<std::uint64_t>(number)) {
  make_context();
}

Actor::~Actor() = default;

ContextOptions Actor::context_options() {
  constexpr std::array<std::chrono::milliseconds, 3> kGraces = {
      std::chrono::milliseconds(1), std::chrono::milliseconds(10), std::chrono::milliseconds(2000)};
  const std::uint64_t kind = random_();
  ContextOptions options;
  options.engine = kind % 2 == 0 ? io::EngineKind::automatic : io::EngineKind::threads;
  options.staging_bytes = std::size_t{8} << 20;  // Two buffers: saves wait for each other.
  options.worker_threads = 2;
  options.close_timeout = std::chrono::seconds(kind % 3 == 0 ? 0 : 60);
  options.stop_grace = kGraces[kind / 6 % kGraces.size()];
  return options;
}

void Actor::make_context() {
  if (slow_) {
    tally_.slow_calls += slow_->slow_calls();
  }
  testing::Disturbances some;
  some.longest = world_.slowest;
  some.slow = 2 * static_cast<std::size_t>(world_.slowest.count());
  slow_ = std::make_shared<testing::SlowCalls>(random_(), some);
  slow_->stir_up();
  ContextOptions options = context_options();
  options.syscalls = world_.broken_calls ? world_.broken_calls() : slow_;
  context_.emplace(std::move(options));
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
std::exception_ptr Actor::count(const std::string& done, const Codes& allowed, Work work) {
  try {
    work();
    ++tally_.outcomes[done];
    return nullptr;
  } catch (const Error& error) {
    ++tally_.outcomes[fmt::format("not {}: {}", done, error.code().message())];
    if (!is_among(error, allowed) && tally_.first_problem.empty()) {
      tally_.first_problem = fmt::format("not {}: {}", done, error.what());
    }
    return std::current_exception();
  }
}

template <class Work>
void Actor::save_to(const std::string& target, const std::string& done, const Codes& allowed,
                    SaveOptions options, Work work) {
  const Number number = world_.chronicle.begin_save(target, options.overwrite);
  options.custom_metadata = std::to_string(number);
  bool is_told = true;  // Unless nobody waits for it.
  const auto failure = count(done, allowed, [&] { is_told = work(number, options); });
  if (is_told) {
    world_.chronicle.answer_save(number, failure);
    look_at(target);
  }
}

template <class Work>
void Actor::load_from(const std::string& target, const std::string& done, const Codes& allowed, Work work) {
  const auto since = world_.chronicle.now(target);
  const auto failure = count(done, allowed, [&] {
    const Tree state = work();
    world_.chronicle.see(target, number_in(state), since);
  });
  try {
    if (failure) {
      std::rethrow_exception(failure);
    }
  } catch (const Error& error) {
    if (error.code() == Errc::not_found) {
      world_.chronicle.see(target, std::nullopt, since);
    }
  }
}

void Actor::look_at(const std::string& target) {
  const auto since = world_.chronicle.now(target);
  try {
    world_.chronicle.see(target, testing::holder_of(path_of(target)), since);
  } catch (const Error& error) {
    world_.chronicle.lie("damage", error.what());
  }
}

std::string Actor::shared() {
  return fmt::format("shared{}", random_() % kShared);
}

std::chrono::microseconds Actor::moment() {
  constexpr std::uint64_t kMostMicroseconds = 4000;
  const auto slowest = static_cast<std::uint64_t>(world_.slowest.count());
  const bool is_long =
      random_() % std::max<std::uint64_t>(2, slowest / 30) == 0;  // As rare as calls that are.
  return std::chrono::microseconds(random_() % (is_long ? slowest * 1000 : kMostMicroseconds));
}

void Actor::save_and_wait(bool overwrite) {
  SaveOptions options = options_of(overwrite);
  options.snapshot = random_() % 2 == 0 ? Snapshot::copy : Snapshot::share;
  const std::string target = shared();
  save_to(target, "saved", {Errc::already_exists}, options, [&](Number number, const SaveOptions& chosen) {
    save(path_of(target), make_state(number), chosen, *context_);
    return true;
  });
}

void Actor::save_and_cancel() {
  const Codes allowed = {Errc::already_exists, Errc::cancelled, Errc::commit_unknown};
  const std::string target = shared();
  save_to(target, "saved (cancel)", allowed, options_of(true), [&](Number number, const SaveOptions& chosen) {
    const AsyncResponse saving = save_async(path_of(target), make_state(number), chosen, *context_);
    world_.chronicle.place(number);
    std::this_thread::sleep_for(moment());
    saving.cancel();
    saving.wait();
    return true;
  });
}

void Actor::save_until_deadline() {
  const Codes allowed = {Errc::already_exists, Errc::timed_out, Errc::commit_unknown};
  SaveOptions options = options_of(true);
  options.deadline = moment() + std::chrono::microseconds(1);
  const std::string target = shared();
  save_to(target, "saved (deadline)", allowed, options, [&](Number number, const SaveOptions& chosen) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      save(path_of(target), make_state(number), chosen, *context_);
    } catch (const Error& error) {
      if (error.code() == Errc::timed_out && std::chrono::steady_clock::now() < begin + chosen.deadline) {
        world_.chronicle.lie("verdict", std::string("before its deadline: ") + error.what());
      }
      throw;
    }
    return true;
  });
}

void Actor::save_and_drop() {
  const std::string target = shared();
  save_to(target, "begun", {Errc::already_exists}, options_of(true),
          [&](Number number, const SaveOptions& chosen) {
            static_cast<void>(save_async(path_of(target), make_state(number), chosen, *context_));
            world_.chronicle.place(number);
            return false;
          });
}

void Actor::save_own() {
  const std::string target = fmt::format("own{}-{}", number_, ++step_);
  save_to(target, "saved (own)", {}, SaveOptions(), [&](Number number, const SaveOptions& chosen) {
    save(path_of(target), make_state(number), chosen, *context_);
    return true;
  });
  if (step_ > 2) {
    const std::string old = fmt::format("own{}-{}", number_, step_ - 2);
    const Number number = world_.chronicle.begin_removal(old);
    const auto failure = count("removed", {}, [&] { remove_checkpoint(path_of(old), {}, *context_); });
    world_.chronicle.answer_removal(number, failure);
    look_at(old);
  }
}

void Actor::load_shared() {
  const std::string target = shared();
  load_from(target, "loaded", {}, [&] { return load(path_of(target), LoadOptions(), *context_); });
}

void Actor::load_foreign() {
  std::vector<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator(world_.root)) {
    if (const std::string name = entry.path().filename(); name.starts_with("own")) {
      own.push_back(name);
    }
  }
  if (own.empty()) {
    return;
  }
  const std::string target = own[random_() % own.size()];
  load_from(target, "loaded (foreign)", {Errc::not_found, Errc::not_committed},
            [&] { return load(path_of(target), LoadOptions(), *context_); });
}

void Actor::load_and_cancel() {
  const std::string target = shared();
  load_from(target, "loaded (cancel)", {Errc::cancelled}, [&] {
    const TreeResponse loading = load_async(path_of(target), std::nullopt, LoadOptions(), *context_);
    std::this_thread::sleep_for(moment() / 4);
    loading.cancel();
    return loading.wait();
  });
}

void Actor::describe_shared() {
  const std::string target = shared();
  count("described", {}, [&] {
    if (metadata(path_of(target), *context_).at(kLargeArray).as_array().shape != large_shape()) {
      world_.chronicle.lie("damage", target + " has metadata that no save has");
    }
  });
}

void Actor::recover_root() {
  count("recovered", {}, [&] { static_cast<void>(store::recover(io::posix_syscalls(), world_.root)); });
}

void Actor::end_context() {
  const Codes allowed = {Errc::already_exists, Errc::closed, Errc::commit_unknown};
  const std::string target = shared();
  save_to(target, "context ended", allowed, options_of(true), [&](Number number, const SaveOptions& chosen) {
    const AsyncResponse saving = save_async(path_of(target), make_state(number), chosen, *context_);
    world_.chronicle.place(number);
    const TreeResponse loading = load_async(path_of(shared()), std::nullopt, LoadOptions(), *context_);
    std::this_thread::sleep_for(moment() / 2);
    make_context();
    saving.wait();
    return true;
  });
}

}  // namespace cairn::stress
