// SPDX-License-Identifier: Apache-2.0
#include "crash/joint_scenes.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "cairn/coord/coordinator.hpp"

#include "coord/simulated_network.hpp"
#include "crash/fates.hpp"
#include "crash/rank_schedule.hpp"
#include "store/internal/recovery.hpp"

namespace cairn::crash {
namespace {

constexpr const char* kJointTarget = "step";
constexpr std::uint64_t kJointSchedules = 2;
constexpr std::size_t kKillsAfterMishap = 3;
constexpr std::uint64_t kMostCallsBetween = 60;  // Two mishaps.
constexpr std::uint64_t kLeastStates = 16;       // Of a mishap at one call.
constexpr std::uint64_t kSeedsBetween = 1000;    // Those of schedules of one run.

std::string_view name_of(RankVerdict verdict) {
  constexpr std::string_view kNames[] = {"nothing", "committed", "aborted", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

/// All ranks of one save, with what is between them.
class JointJob {
 public:
  JointJob(SimulatedMachine& machine, const JointPlan& plan)
      : machine_(machine),
        plan_(plan),
        network_(plan.ranks, network_of(plan)),
        schedule_(network_, plan.seed) {
    coord::CoordinatorOptions options;
    options.lost_after = std::chrono::seconds(2);
    options.heartbeat = std::chrono::milliseconds(500);
    options.join_timeout =
        std::chrono::seconds(5);  // Or a rank that dies before it is heard counts as late for ever.
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      coordinators_.push_back(std::make_unique<coord::Coordinator>(network_.transport(rank), options));
      processes_.push_back(std::make_unique<SimulatedProcess>(machine, &schedule_, static_cast<int>(rank)));
    }
  }

  JointEnd play() {
    end_.verdicts.assign(plan_.ranks, RankVerdict::none);
    std::vector<std::function<void()>> programs;
    for (std::size_t rank = 0; rank < plan_.ranks; ++rank) {
      programs.emplace_back([this, rank] { guard([this, rank] { save(rank); }); });
    }
    if (plan_.has_recovery) {
      programs.emplace_back([this] { guard([this] { recover(); }); });
    }
    schedule_.run(programs, [this](int calls) {
      if (plan_.mishap != Mishap::none && calls == plan_.call) {
        happen();
      }
      if (calls == second_call_) {
        kill(1);
      }
    });
    end_.calls = schedule_.calls();
    judge();
    return end_;
  }

 private:
  static testing::SimulatedOptions network_of(const JointPlan& plan) {
    testing::SimulatedOptions options;
    options.seed = plan.seed;
    return options;
  }

  void guard(const std::function<void()>& program) {
    try {
      program();
    } catch (...) {
      failure_ = std::current_exception();
    }
    ++ended_;
  }

  void save(std::size_t rank) {
    JointSaver::World world(schedule_, *coordinators_[rank], *processes_[rank], network_.executor());
    JointSaver saver(std::move(world), kJointTarget, plan_.overwrite,
                     [this, rank](RankVerdict verdict) { hear(rank, verdict); });
    saver.run();
  }

  void recover() {
    const auto number = static_cast<int>(plan_.ranks);
    schedule_.wait(number, [this] { return has_happened_ || has_all_ended(); });
    SimulatedProcess process(machine_, &schedule_, number);
    store::recover(process, kRunPath);
  }

  [[nodiscard]] bool has_all_ended() const { return ended_ == plan_.ranks; }

  void hear(std::size_t rank, RankVerdict verdict) {
    end_.verdicts[rank] = verdict;
    bool is_possible = true;
    if (verdict == RankVerdict::committed) {
      is_possible = machine_.narrow(kJointTarget, {&new_content()});
    } else if (verdict == RankVerdict::aborted) {
      is_possible = machine_.narrow(kJointTarget, {nullptr, &old_content()});
    }
    has_contradiction_ = has_contradiction_ || !is_possible;
  }

  void happen() {
    const std::size_t victim = plan_.victim;
    std::mt19937_64 random(plan_.seed + static_cast<std::uint64_t>(plan_.call));
    has_happened_ = true;
    switch (plan_.mishap) {
      case Mishap::none:
        break;
      case Mishap::killed:
        kill(victim);
        break;
      case Mishap::lost:
        kill(victim);
        lose_machine(victim, random);
        break;
      case Mishap::unheard:
        silence(victim);
        break;
      case Mishap::stopped:
        stop(victim);
        break;
    }
    if (plan_.has_second) {
      second_call_ = plan_.call + 1 + static_cast<int>(random() % kMostCallsBetween);
    }
    schedule_.hurry();
    machine_.record();  // What was before is the calm scene's.
  }

  void kill(std::size_t rank) {
    processes_[rank]->die();
    network_.crash(rank);
  }

  void lose_machine(std::size_t rank, std::mt19937_64& random) {
    UniformFate nothing(UniformFate::Kind::lost);
    RandomFate some(random);
    machine_.lose_machine(static_cast<int>(rank),
                          random() % 2 == 0 ? static_cast<Fate&>(nothing) : static_cast<Fate&>(some));
  }

  void silence(std::size_t rank) {
    for (std::size_t other = 0; other < plan_.ranks; ++other) {
      if (other != rank) {
        network_.cut(rank, other);
      }
    }
  }

  void stop(std::size_t rank) {
    network_.stop(rank);
    schedule_.hold(static_cast<int>(rank), [this] {
      const bool may_go_on = ended_ + 1 == plan_.ranks;
      if (may_go_on) {
        network_.go_on(plan_.victim);
      }
      return may_go_on;
    });
  }

  void judge() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    std::string verdicts;
    for (std::size_t rank = 0; rank < plan_.ranks; ++rank) {
      verdicts += fmt::format("{}rank {} says {}", rank == 0 ? "" : ", ", rank, name_of(end_.verdicts[rank]));
    }
    if (has_contradiction_) {
      throw std::runtime_error(verdicts);
    }
    const bool is_calm = plan_.mishap == Mishap::none && !plan_.has_recovery;
    const auto is_committed = [](RankVerdict verdict) { return verdict == RankVerdict::committed; };
    if (is_calm && !std::all_of(end_.verdicts.begin(), end_.verdicts.end(), is_committed)) {
      throw std::runtime_error("nothing has happened, and " + verdicts);
    }
  }

  SimulatedMachine& machine_;
  const JointPlan plan_;
  testing::SimulatedNetwork network_;
  RankSchedule schedule_;
  std::vector<std::unique_ptr<coord::Coordinator>> coordinators_;
  std::vector<std::unique_ptr<SimulatedProcess>> processes_;
  JointEnd end_;
  std::size_t ended_ = 0;
  int second_call_ = 0;
  bool has_happened_ = false;
  bool has_contradiction_ = false;
  std::exception_ptr failure_;
};

/// A form that a commit takes.
struct Form {
  const char* name;
  bool has_exchange;
  bool has_no_replace;
  bool overwrite;
};

constexpr Form kForms[] = {{"save", true, true, false},
                           {"overwrite by exchange", true, true, true},
                           {"overwrite by generation", false, true, true},
                           {"save by marker", false, false, false},
                           {"overwrite by marker", false, false, true}};

void prepare_old(SimulatedMachine& machine) {
  static const SimulatedDisk saved = [] {
    SimulatedMachine first;
    first.disk().make(kRootInode, "run", io::FileKind::directory);
    SimulatedProcess process(first);
    save(process, kJointTarget, old_content());
    return first.disk();
  }();
  machine.disk() = saved;
}

Scene scene_of(const Form& form, std::string name, const JointPlan& plan) {
  Scene scene;
  scene.name = std::move(name);
  scene.has_exchange = form.has_exchange;
  scene.has_no_replace = form.has_no_replace;
  scene.prepare = [overwrite = form.overwrite](SimulatedMachine& machine) {
    if (overwrite) {
      prepare_old(machine);
    }
  };
  scene.promise = [overwrite = form.overwrite] {
    return Promise{{kJointTarget, {overwrite ? &old_content() : nullptr, &new_content()}}};
  };
  scene.act = [plan](SimulatedMachine& machine) { save_together(machine, plan); };
  return scene;
}

std::vector<MishapScene> make_mishap_scenes() {
  struct Kind {
    const char* name;
    Mishap mishap;
    bool has_recovery;
    bool has_second;
  };
  constexpr Kind kKinds[] = {{"is killed", Mishap::killed, false, false},
                             {"is killed beside a recovery", Mishap::killed, true, false},
                             {"loses its machine", Mishap::lost, false, false},
                             {"is not heard", Mishap::unheard, false, false},
                             {"is stopped", Mishap::stopped, false, false},
                             {"is not heard, and rank 1 is killed", Mishap::unheard, false, true}};
  std::vector<MishapScene> scenes;
  for (const std::size_t ranks : {2, 3}) {
    for (const Form& form : kForms) {
      for (const std::size_t victim : {std::size_t{0}, ranks - 1}) {
        for (const Kind& kind : kKinds) {
          if (kind.has_second && (ranks == 2 || victim != 0)) {
            continue;
          }
          MishapScene scene;
          scene.name = fmt::format("{} by {} ranks, rank {} {}", form.name, ranks, victim, kind.name);
          scene.plan.ranks = ranks;
          scene.plan.overwrite = form.overwrite;
          scene.calm = scene_of(form, scene.name, scene.plan);
          scene.plan.mishap = kind.mishap;
          scene.plan.victim = victim;
          scene.plan.has_recovery = kind.has_recovery;
          scene.plan.has_second = kind.has_second;
          scenes.push_back(std::move(scene));
        }
      }
    }
  }
  return scenes;
}

}  // namespace

JointEnd save_together(SimulatedMachine& machine, const JointPlan& plan) {
  return JointJob(machine, plan).play();
}

JointEnd MishapScene::play(const JointPlan& played) const {
  SimulatedMachine machine;
  machine.disk().make(kRootInode, "run", io::FileKind::directory);
  calm.prepare(machine);
  machine.has_exchange = calm.has_exchange;
  machine.has_no_replace = calm.has_no_replace;
  machine.promise(calm.promise());
  return save_together(machine, played);
}

int MishapScene::calls(std::uint64_t seed) const {
  JointPlan calm_plan = plan;
  calm_plan.seed = seed;
  calm_plan.mishap = Mishap::none;
  calm_plan.has_recovery = false;
  calm_plan.has_second = false;
  return play(calm_plan).calls;
}

Scene MishapScene::at(int call, std::uint64_t seed) const {
  JointPlan played = plan;
  played.call = call;
  played.seed = seed;
  Scene scene = calm;
  scene.name = fmt::format("{} (call {}, seed {})", name, call, seed);
  scene.act = [played](SimulatedMachine& machine) { save_together(machine, played); };
  return scene;
}

std::vector<Scene> joint_scenes() {
  std::vector<Scene> scenes;
  for (const std::size_t ranks : {2, 3}) {
    for (const Form& form : kForms) {
      for (std::uint64_t seed = 0; seed < kJointSchedules; ++seed) {
        JointPlan plan;
        plan.ranks = ranks;
        plan.overwrite = form.overwrite;
        plan.seed = seed;
        scenes.push_back(scene_of(form, fmt::format("{} by {} ranks, {}", form.name, ranks, seed), plan));
      }
    }
  }
  return scenes;
}

const std::vector<MishapScene>& mishap_scenes() {
  static const std::vector<MishapScene> scenes = make_mishap_scenes();
  return scenes;
}

const MishapScene* find_mishap_scene(std::string_view name) {
  const auto found = std::find_if(mishap_scenes().begin(), mishap_scenes().end(),
                                  [name](const MishapScene& each) { return each.name == name; });
  return found == mishap_scenes().end() ? nullptr : &*found;
}

EnumerationReport enumerate(const MishapScene& scene, const EnumerationOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<int> calls(static_cast<std::size_t>(scene.calls(options.seed)));
  std::iota(calls.begin(), calls.end(), 1);
  std::shuffle(calls.begin(), calls.end(), random);
  const std::size_t plays = std::max<std::size_t>(options.states / kLeastStates, 1);
  EnumerationReport total;
  for (std::size_t i = 0; i < plays && !(options.is_brief && total.failures > 0); ++i) {
    EnumerationOptions each = options;
    each.states = (options.states - std::min(options.states, total.states)) / (plays - i) + 1;
    each.most_kills = kKillsAfterMishap;
    // Another schedule when every call has had its turn.
    const std::uint64_t seed = options.seed + i / calls.size() * kSeedsBetween;
    const Scene played = scene.at(calls[i % calls.size()], seed);
    total.add(Enumerator(played, each).run());
  }
  return total;
}

}  // namespace cairn::crash
