// SPDX-License-Identifier: Apache-2.0
#include "crash/crash_enumerator.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "crash/fates.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/verify.hpp"

namespace cairn::crash {
namespace {

constexpr std::uint64_t kMostDataFates = 24;  // Tried in full for one set of names.
// With no more pending changes of names than this, every set of them is tried: for cuts of the scene itself,
// for cuts of what runs after a kill, and together with many fates of the data.
constexpr std::size_t kManyNames = 10;
constexpr std::size_t kFewNames = 6;
constexpr std::size_t kFewestNames = 3;
// So that programs that are started later make identifiers of their own.
constexpr std::uint64_t kLaterSeed = 1000;
constexpr std::uint64_t kLastSeed = 2000;
constexpr std::size_t kMostReadBytes = 1 << 20;

const Content* known_content(const Content& found, const std::vector<const Content*>& allowed) {
  const auto same = std::find_if(allowed.begin(), allowed.end(), [&found](const Content* content) {
    return content != nullptr && *content == found;
  });
  return same == allowed.end() ? nullptr : *same;
}

/// Null: no checkpoint.
const Content* read_target(io::Syscalls& syscalls, const std::string& target,
                           const std::vector<const Content*>& allowed) {
  Content found;
  try {
    const auto checkpoint = store::CommittedDirectory::open(syscalls, path_of(target));
    for (const store::FileEntry& file : checkpoint.manifest().files) {
      found[file.path] = checkpoint.read_verified(file.path, kMostReadBytes);
    }
  } catch (const Error& error) {
    const bool is_none = error.code() == Errc::not_found || error.code() == Errc::not_committed;
    if (!is_none || !found.empty()) {
      throw;
    }
    if (std::find(allowed.begin(), allowed.end(), nullptr) == allowed.end()) {
      throw std::runtime_error(fmt::format("'{}' is lost ({})", target, error.what()));
    }
    return nullptr;
  }
  const Content* content = known_content(found, allowed);
  if (content == nullptr) {
    throw std::runtime_error(fmt::format("'{}' holds another checkpoint than it may", target));
  }
  return content;
}

/// What recovery has left, but a checkpoint; empty when there is nothing of that kind.
std::string leftovers(const store::RecoveryReport& report) {
  for (const store::RecoveryEntry& entry : report.entries) {
    const bool is_done =
        entry.is_removed || (entry.action != store::RecoveryAction::keep && !entry.has_failed);
    const bool is_newest = entry.kind == store::EntryClass::committed && !entry.is_hidden;
    const bool is_wanted = entry.name == "latest" || entry.name.starts_with(".cairn-");  // Of a training.
    if (!is_done && !is_newest && !is_wanted) {
      return fmt::format("recovery leaves {} ({})", entry.name, entry.note);
    }
  }
  return "";
}

/// What may be found where `found` was: a checkpoint that is there stays; one that is not may be put back.
Promise after_recovery(const Promise& found, const Promise& promise) {
  Promise allowed = found;
  for (auto& [target, contents] : allowed) {
    if (contents.front() == nullptr) {
      contents = promise.at(target);
      contents.push_back(nullptr);
    }
  }
  return allowed;
}

}  // namespace

Promise read_all_targets(io::Syscalls& syscalls, const Promise& promise) {
  Promise found;
  for (const auto& [target, allowed] : promise) {
    found[target] = {read_target(syscalls, target, allowed)};
  }
  return found;
}

Enumerator::Enumerator(const Scene& scene, EnumerationOptions options)
    : scene_(scene), options_(std::move(options)), random_(options_.seed) {}

EnumerationReport Enumerator::run() {
  play_scene();
  // What finds most comes first, and what comes after a kill in an order in which nothing is always too late.
  const auto is_direct = [](const Cut& cut) { return cut.exhaustive_names == kManyNames; };
  const auto after_kill = std::find_if_not(cuts_.begin(), cuts_.end(), is_direct);
  std::shuffle(after_kill, cuts_.end(), random_);
  std::for_each(cuts_.begin(), cuts_.end(), [this](const Cut& cut) { sweep_ends(cut); });
  std::for_each(cuts_.begin(), after_kill, [this](const Cut& cut) { sweep_neighbours(cut); });
  std::for_each(after_kill, cuts_.end(), [this](const Cut& cut) { sweep_neighbours(cut); });
  std::for_each(cuts_.begin(), cuts_.end(), [this](const Cut& cut) { sweep_sets(cut); });
  roam();
  return report_;
}

bool Enumerator::is_done() const {
  return report_.states >= options_.states || (options_.is_brief && report_.failures > 0);
}

void Enumerator::fail(std::string text) {
  if (report_.failures++ == 0) {
    report_.first_failure = fmt::format("{}: {}", scene_.name, std::move(text));
  }
}

void Enumerator::play_scene() {
  SimulatedMachine machine;
  machine.disk().make(kRootInode, "run", io::FileKind::directory);
  scene_.prepare(machine);
  machine.disk().sync_all();
  machine.has_exchange = scene_.has_exchange;
  machine.has_no_replace = scene_.has_no_replace;
  machine.has_links = scene_.has_links;
  machine.promise(scene_.promise());
  machine.record();
  const std::unique_ptr<Saboteur> saboteur = options_.sabotage ? options_.sabotage() : nullptr;
  machine.saboteur = options_.is_recovery_sabotaged ? nullptr : saboteur.get();
  try {
    scene_.act(machine);
  } catch (const std::exception& error) {
    fail(fmt::format("the scene itself fails: {}", error.what()));
  }
  int number = 0;
  for (const Moment& moment : machine.moments()) {
    const std::string story = fmt::format("operation {} ({})", number++, moment.operation);
    add_cut(moment, story, kManyNames);
  }
  std::size_t left = machine.moments().size();
  std::size_t kills = std::min(left, options_.most_kills);
  number = 0;
  for (const Moment& moment : machine.moments()) {
    const std::string story = fmt::format("killed after operation {} ({})", number++, moment.operation);
    if (random_() % left-- < kills) {
      --kills;
      play_recovery_after_kill(moment, story);
      play_save_after_kill(moment, story);
    }
  }
}

void Enumerator::play_recovery_after_kill(const Moment& moment, const std::string& story) {
  SimulatedMachine machine(moment.disk);
  machine.promise(moment.promise);
  machine.record();
  const bool is_sabotaged = options_.is_recovery_sabotaged && options_.sabotage;
  const std::unique_ptr<Saboteur> saboteur = is_sabotaged ? options_.sabotage() : nullptr;
  machine.saboteur = saboteur.get();
  try {
    SimulatedProcess process(machine);
    const Promise before = read_all_targets(process, moment.promise);
    store::recover(process, kRunPath);
    const Promise after = read_all_targets(process, after_recovery(before, moment.promise));
    for (const auto& [target, found] : after) {
      if (target.find('/') == std::string::npos) {
        machine.promise(target, found);  // What has been recovered is durable.
      }
    }
  } catch (const std::exception& error) {
    fail(fmt::format("{}: {}", story, error.what()));
  }
  int number = 0;
  for (const Moment& step : machine.moments()) {
    add_cut(step, fmt::format("{}, operation {} of recovery ({})", story, number++, step.operation),
            kFewNames);
  }
}

/// A program that is started again and saves without a recovery.
void Enumerator::play_save_after_kill(const Moment& moment, const std::string& story) {
  SimulatedMachine machine(moment.disk, kLaterSeed);
  machine.has_exchange = scene_.has_exchange;
  machine.has_no_replace = scene_.has_no_replace;
  machine.has_links = scene_.has_links;
  Promise promise = moment.promise;
  auto& [target, allowed] = *promise.begin();
  allowed.push_back(&later_content());
  machine.promise(promise);
  machine.record();
  try {
    SimulatedProcess process(machine);
    save(process, target, later_content(), true);
    machine.promise(target, {&later_content()});
  } catch (const Error& error) {
    if (error.code() !=
        Errc::already_exists) {  // Marker mode: what has the target's name waits for a recovery.
      fail(fmt::format("{}: {}", story, error.what()));
    }
  }
  int number = 0;
  for (const Moment& step : machine.moments()) {
    add_cut(step, fmt::format("{}, operation {} of the next save ({})", story, number++, step.operation),
            kFewNames);
  }
}

void Enumerator::add_cut(const Moment& moment, std::string story, std::size_t exhaustive_names) {
  const auto known = std::find(promises_.begin(), promises_.end(), moment.promise);
  const auto promise = static_cast<std::size_t>(known - promises_.begin());
  if (known == promises_.end()) {
    promises_.push_back(moment.promise);
  }
  cuts_.push_back({moment.disk, promise, exhaustive_names, std::move(story)});
}

/// All names or none.
void Enumerator::sweep_ends(const Cut& cut) {
  sweep_uniform(cut, std::vector<bool>(cut.disk.pending_names(), true));
  sweep_uniform(cut, std::vector<bool>(cut.disk.pending_names(), false));
}

/// The first changes of names, as a journal keeps them; a single one; and all but one.
void Enumerator::sweep_neighbours(const Cut& cut) {
  const std::size_t names = cut.disk.pending_names();
  for (std::size_t i = 0; i < names && !is_done(); ++i) {
    std::vector<bool> first(names, false);
    std::fill_n(first.begin(), i, true);
    std::vector<bool> one(names, false);
    one[i] = true;
    std::vector<bool> all_but_one(names, true);
    all_but_one[i] = false;
    sweep_uniform(cut, first);
    sweep_uniform(cut, one);
    sweep_uniform(cut, all_but_one);
  }
}

/// Every set of names, where there are not too many.
void Enumerator::sweep_sets(const Cut& cut) {
  const std::size_t names = cut.disk.pending_names();
  if (names > cut.exhaustive_names) {
    return;
  }
  for (std::size_t set = 0; set < std::size_t{1} << names && !is_done(); ++set) {
    std::vector<bool> kept(names);
    for (std::size_t i = 0; i < names; ++i) {
      kept[i] = (set >> i & 1) != 0;
    }
    sweep_uniform(cut, kept);
    if (names <= kFewestNames && cut.disk.has_pending_data()) {
      sweep_data(cut, kept);
    }
  }
}

void Enumerator::sweep_uniform(const Cut& cut, const std::vector<bool>& kept) {
  using Kind = UniformFate::Kind;
  for (const Kind kind : {Kind::kept, Kind::lost, Kind::hollow, Kind::garbage}) {
    const bool is_needless = kind != Kind::kept && !cut.disk.has_pending_data();
    if (is_done() || is_needless) {
      return;
    }
    UniformFate fate(kind);
    check(cut, kept, fate);
  }
}

void Enumerator::sweep_data(const Cut& cut, const std::vector<bool>& kept) {
  CountingFate fate;
  std::uint64_t tried = 0;
  while (!is_done() && tried++ < kMostDataFates) {
    check(cut, kept, fate);
    if (!fate.advance()) {
      return;
    }
  }
}

std::vector<bool> Enumerator::random_names(const SimulatedDisk& disk) {
  const std::size_t names = disk.pending_names();
  std::vector<bool> kept(names, false);
  if (random_() % 2 == 0) {  // As a journal does.
    const std::size_t least = disk.journalled_names();
    std::fill_n(kept.begin(), least + random_() % (names - least + 1), true);
    return kept;
  }
  const std::uint64_t kept_of_8 = 1 + random_() % 7;
  std::generate(kept.begin(), kept.end(), [&] { return random_() % 8 < kept_of_8; });
  return kept;
}

void Enumerator::roam() {
  // A cut that has brought nothing new for long is left out: most have only so many states.
  constexpr int kMostRepetitions = 200;
  std::vector<int> repetitions(cuts_.size(), 0);
  std::vector<std::size_t> fruitful(cuts_.size());
  std::iota(fruitful.begin(), fruitful.end(), std::size_t{0});
  while (!is_done() && !fruitful.empty()) {
    std::size_t& picked = fruitful[random_() % fruitful.size()];
    const Cut& cut = cuts_[picked];
    const std::vector<bool> kept = random_names(cut.disk);
    RandomFate fate(random_);
    if (check(cut, kept, fate)) {
      repetitions[picked] = 0;
    } else if (++repetitions[picked] == kMostRepetitions) {
      picked = fruitful.back();
      fruitful.pop_back();
    }
  }
}

bool Enumerator::check(const Cut& cut, const std::vector<bool>& kept, Fate& fate) {
  const SimulatedDisk disk = cut.disk.after_power_cut(kept, fate);
  const std::size_t least = cut.disk.journalled_names();
  const auto first_lost = static_cast<std::size_t>(std::find(kept.begin(), kept.end(), false) - kept.begin());
  const bool is_prefix =
      std::find(kept.begin() + static_cast<std::ptrdiff_t>(first_lost), kept.end(), true) == kept.end();
  const bool is_ordered = is_prefix && first_lost >= least;
  const std::uint64_t key = disk.fingerprint() * 31 + cut.promise * 2 + (is_ordered ? 1 : 0);
  if (!seen_.insert(key).second) {
    return false;
  }
  ++report_.states;
  const std::string problem = judge(disk, cut, is_ordered);
  if (!problem.empty()) {
    std::string names;
    for (const bool each : kept) {
      names += each ? '1' : '0';
    }
    fail(fmt::format("{}\nthe power goes after {}, names kept: {} (seed {})\nleft on the disk:\n{}", problem,
                     cut.story, names, options_.seed, disk.describe()));
  }
  return true;
}

std::string Enumerator::judge(const SimulatedDisk& disk, const Cut& cut, bool is_ordered) {
  ++judged_;
  const Promise& promise = promises_[cut.promise];
  SimulatedMachine machine(disk, kLastSeed);
  SimulatedProcess process(machine);
  try {
    const Promise before = read_all_targets(process, promise);
    const store::RecoveryReport report = store::recover(process, kRunPath);
    static_cast<void>(read_all_targets(process, after_recovery(before, promise)));
    resume(process, promise);
    if (is_ordered) {
      const std::string left = leftovers(scene_.resume ? store::recover(process, kRunPath) : report);
      if (!left.empty()) {
        return left;
      }
    }
    if (judged_ % 16 == 0) {
      if (std::string problem = judge_cut_recovery(disk, after_recovery(before, promise)); !problem.empty()) {
        return problem;
      }
    }
    if (judged_ % 64 == 1) {
      // Beside what was put back there may be remains, kept while they might have been all that was left.
      const bool has_restored = std::any_of(
          report.entries.begin(), report.entries.end(),
          [](const store::RecoveryEntry& entry) { return entry.action == store::RecoveryAction::restore; });
      for (const store::RecoveryEntry& entry : store::recover(process, kRunPath).entries) {
        if (entry.is_removed && !has_restored) {
          return "a second recovery removes " + entry.name;
        }
      }
      if (is_ordered) {
        save(process, promise.begin()->first, new_content(), true);
        static_cast<void>(read_all_targets(process, {{promise.begin()->first, {&new_content()}}}));
      }
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Errors: what the target must not be.
void Enumerator::resume(SimulatedProcess& process, const Promise& promise) const {
  if (!scene_.resume || !scene_.resume(process, promise)) {
    return;
  }
  auto [target, contents] = *scene_.promise().begin();
  contents.erase(std::remove(contents.begin(), contents.end(), nullptr), contents.end());
  static_cast<void>(read_all_targets(process, {{target, contents}}));
}

std::string Enumerator::judge_cut_recovery(const SimulatedDisk& disk, const Promise& allowed) {
  SimulatedMachine machine(disk);
  machine.record();
  SimulatedProcess process(machine);
  store::recover(process, kRunPath);
  for (int i = 0; i < 4; ++i) {
    const Moment& moment = machine.moments()[random_() % machine.moments().size()];
    RandomFate fate(random_);
    SimulatedMachine again(moment.disk.after_power_cut(random_names(moment.disk), fate));
    SimulatedProcess second(again);
    ++report_.states;
    try {
      store::recover(second, kRunPath);
      static_cast<void>(read_all_targets(second, allowed));
    } catch (const std::exception& error) {
      return fmt::format("the recovery was cut after {}: {}", moment.operation, error.what());
    }
  }
  return "";
}

}  // namespace cairn::crash
