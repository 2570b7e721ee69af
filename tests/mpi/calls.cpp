// SPDX-License-Identifier: Apache-2.0
// One rank of a training whose ranks call what they like, each call with a deadline: save, load together, resume and
// rewind. Mostly all call the same; sometimes a rank calls another one, skips one and makes up for it later, sleeps or
// dies.
// Usage: calls FOLDER/SEED.LEVEL.killed|FOLDER/SEED.LEVEL.whole. It says what it was told in `rank.N` there, a line
// each, with milliseconds of the clock that all processes of the machine have; `random_calls` judges them.
//   begin NUMBER ACT STEP DEADLINE    it calls
//   end NUMBER LATE VERDICT           it was told that; a thread that sleeps meanwhile has woken so late at most
//   ask NUMBER                        it waits for a save that it has begun
//   answer NUMBER LATE VERDICT
//   done                              it has made all calls
//   by time                           its policy asks the clock
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "cairn/cairn.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/mpi/transport.hpp"
#include "cairn/sharding/shards.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/step_options.hpp"

#include "support/dice.hpp"
#include "support/light_sleeper.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::Dice;

constexpr milliseconds kLostAfter{2000};
constexpr std::uint64_t kRounds = 7;
constexpr std::uint64_t kApart =
    10;  // Between the steps of two rounds; those between are of ranks that stray.
constexpr std::array<milliseconds, 3> kDeadlines{500ms, 1000ms, 1500ms};
constexpr std::uint64_t kRows = 16;  // Of each rank.
constexpr std::uint64_t kColumns = 64;

enum class Act : std::uint8_t { save, begin, load, resume, rewind };
constexpr std::array<std::string_view, 5> kWords{"save", "begin", "load", "resume", "rewind"};

struct Call {
  Act act = Act::save;
  std::uint64_t step = 0;
  milliseconds deadline{0};
};

/// What a rank does between two looks at the dice.
struct Round {
  milliseconds sleep{0};
  std::vector<Call> calls;
  std::optional<milliseconds> dies;  ///< So long after it has begun.
};

struct Job {
  std::uint64_t seed = 0;
  bool has_victim = false;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
};

std::uint64_t step_of(std::uint64_t round) {
  return kApart * (round + 1);
}

/// A save of the round's step, or something with one of an earlier round.
Call draw_call(Dice& dice, std::uint64_t round) {
  Call call;
  call.step = step_of(round);
  const std::size_t kind = dice.below(10);
  if (kind >= 5 && round > 0) {
    call.act = kind < 7 ? Act::load : kind == 9 ? Act::rewind : Act::resume;
    call.step = step_of(round - 1 - (dice.one_in(2) ? dice.below(round) : 0));
  }
  return call;
}

/// Returns what a rank does: all ranks have the same dice for what they are to do together.
std::vector<Round> draw_rounds(const Job& job) {
  Dice common(job.seed);
  Dice own(job.seed, 1 + job.rank);
  const bool is_victim = common.below(job.ranks) == job.rank && job.has_victim;
  const std::uint64_t last_of_victim = 1 + common.below(kRounds - 2);
  std::vector<Round> rounds(kRounds);
  std::deque<Call> skipped;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    Round& round = rounds[i];
    Call call = draw_call(common, i);
    if (own.one_in(16)) {
      call = draw_call(own, i);
      call.step += own.one_in(2) ? 1 + job.rank : 0;
    }
    if (call.act == Act::save && own.one_in(6)) {
      call.act = Act::begin;
    }
    round.sleep = own.one_in(8) ? milliseconds(1 + own.below(1200)) : 0ms;
    while (!skipped.empty() && own.one_in(2)) {
      round.calls.push_back(skipped.front());
      skipped.pop_front();
    }
    if (own.one_in(16)) {
      skipped.push_back(call);
    } else {
      round.calls.push_back(call);
    }
    for (Call& each : round.calls) {
      each.deadline = own.pick(kDeadlines);
    }
    if (is_victim && i == last_of_victim) {
      round.dies = milliseconds(own.below(300));
    }
  }
  return rounds;
}

class Player {
 public:
  Player(const std::filesystem::path& folder, const Job& job)
      : job_(job),
        root_(folder / "run"),
        log_(folder / fmt::format("rank.{}", job.rank)),
        context_(context_options()),
        run_(root_, checkpointer_options(), context_) {}

  void play() {
    for (const Round& round : draw_rounds(job_)) {
      if (round.dies) {
        std::thread([dies = *round.dies] {
          std::this_thread::sleep_for(dies);
          ::kill(::getpid(), SIGKILL);
        }).detach();
      }
      std::this_thread::sleep_for(round.sleep);
      for (const Call& call : round.calls) {
        make(call);
      }
      while (round.dies) {
        ::pause();
      }
    }
    await_begun();
    log_ << "done" << std::endl;
  }

 private:
  static ContextOptions context_options() {
    coord::CoordinatorOptions beats;
    beats.heartbeat = 100ms;
    beats.lost_after = kLostAfter;
    beats.fan_out = 2;
    ContextOptions options;
    options.coordinator = std::make_shared<coord::Coordinator>(mpi_transport(), beats);
    options.worker_threads = 2;
    options.staging_bytes = 4 << 20;
    options.on_lost_failure = nullptr;
    return options;
  }

  /// In one job of six a policy of times decides, and in one of twelve it does so on one of the ranks alone.
  CheckpointerOptions checkpointer_options() {
    CheckpointerOptions options;
    options.close_timeout = kDeadlines.back();
    Dice dice(job_.seed, 100);
    const std::size_t kind = dice.below(12);
    if (kind < 2 || (kind == 2 && job_.rank == dice.below(job_.ranks))) {
      options.save = save_when::continuously();
      log_ << "by time" << std::endl;
    }
    return options;
  }

  static std::int64_t now_ms() {
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void say(std::string_view word, std::uint64_t number, const std::string& rest) {
    log_ << fmt::format("{} {} {} {}", now_ms(), word, number, rest) << std::endl;
  }

  /// Makes it, and says what it was told.
  void answer(std::string_view word, std::uint64_t number, const std::function<std::string()>& call) {
    static_cast<void>(sleeper_.take_late());
    std::string verdict;
    try {
      verdict = call();
    } catch (const Error& error) {
      const bool is_own = error.code().category() == cairn_category();
      verdict = fmt::format("{} {}", is_own ? name(static_cast<Errc>(error.code().value())) : "system",
                            error.what());
    } catch (const std::exception& error) {
      verdict = fmt::format("lie {}", error.what());
    }
    say(word, number, fmt::format("{} {}", sleeper_.take_late().count(), verdict));
  }

  void make(const Call& call) {
    const std::uint64_t number = calls_++;
    say("begin", number,
        fmt::format("{} {} {}", kWords[static_cast<std::size_t>(call.act)], call.step,
                    call.deadline.count()));
    StepResponse begun;
    answer("end", number, [&] {
      switch (call.act) {
        case Act::save:
          return save(call);
        case Act::begin:
          begun = start(call);
          return std::string(begun ? "begun" : "declined");
        case Act::load:
          return load(call);
        case Act::resume:
          return resume(call);
        case Act::rewind:
          return rewind(call);
      }
      return std::string();
    });
    await_begun();
    if (begun) {
      begun_.emplace(number, std::move(begun));
    }
  }

  /// Of a save that was begun before the last call.
  void await_begun() {
    if (const std::optional<Begun> begun = std::exchange(begun_, std::nullopt)) {
      say("ask", begun->number, "");
      answer("answer", begun->number, [&] {
        begun->response.wait();
        return "right";  // A call that was made since may have gone back.
      });
    }
  }

  StepResponse start(const Call& call) {
    const Sharding rows = Sharding::of_spec(Mesh({job_.ranks}, {"data"}), {{"data"}});
    const Tree state = {{"step", call.step},
                        {"weights", shard(rows, job_.rank, shape(), weights(call.step))}};
    StepOptions how;
    how.save.deadline = call.deadline;
    return run_.save(call.step, {{"state", state}}, how);
  }

  std::string save(const Call& call) {
    const StepResponse response = start(call);
    if (!response) {
      return "declined";
    }
    response.wait();
    return is_checkpoint(root_ / std::to_string(call.step)) ? "right" : "lie it is not there";
  }

  std::string load(const Call& call) {
    LoadOptions how;
    how.deadline = call.deadline;
    how.together = true;
    const Tree loaded = cairn::load(root_ / std::to_string(call.step), wanted(), how, context_);
    return judge(loaded, call.step) ? "right" : "lie other values";
  }

  std::string resume(const Call& call) {
    ResumeOptions how;
    how.load.deadline = call.deadline;
    how.load.together = job_.seed % 2 == 0;
    std::optional<Resumed> resumed = run_.resume({{"state", wanted()}}, how);
    if (!resumed) {
      return "right none";
    }
    const Tree loaded = resumed->loaded.take<Tree>("state");
    return judge(loaded, resumed->step) ? fmt::format("right {}", resumed->step) : "lie other values";
  }

  std::string rewind(const Call& call) {
    RewindOptions how;
    how.deadline = call.deadline;
    run_.rewind(call.step, how);
    return "right";
  }

  [[nodiscard]] Shape shape() const { return {job_.ranks * kRows, kColumns}; }

  /// This rank's part of the state at a step: every element tells which one it was.
  static Array weights(std::uint64_t step) {
    return Array::adopt(std::vector<std::uint64_t>(kRows * kColumns, step)).reshaped({kRows, kColumns});
  }

  [[nodiscard]] AbstractTree wanted() const {
    const Sharding rows = Sharding::of_spec(Mesh({job_.ranks}, {"data"}), {{"data"}});
    AbstractTree tree;
    tree["step"] = as_saved;
    tree["weights"] = cairn::wanted(AbstractArray{shape(), DType::uint64}, rows, job_.rank);
    return tree;
  }

  [[nodiscard]] bool judge(const Tree& loaded, std::uint64_t step) const {
    const Sharding rows = Sharding::of_spec(Mesh({job_.ranks}, {"data"}), {{"data"}});
    return loaded.at("step").as<std::uint64_t>() == step &&
           loaded.at("weights").as<ShardedArray>() == shard(rows, job_.rank, shape(), weights(step));
  }

  struct Begun {
    Begun(std::uint64_t call, StepResponse saving) : number(call), response(std::move(saving)) {}

    std::uint64_t number;
    StepResponse response;
  };

  const Job job_;
  const std::filesystem::path root_;
  std::ofstream log_;
  testing::LightSleeper sleeper_;
  const Context context_;
  Checkpointer run_;
  std::uint64_t calls_ = 0;
  std::optional<Begun> begun_;
};

/// Blocks until all ranks but the victim have made all their calls, or do not come to that: whoever ends is missed.
void await_others(const std::filesystem::path& folder, const Job& job) {
  std::ofstream(folder / fmt::format("done.{}", job.rank)).put('\n');
  for (int looks = 0; looks < 4000; ++looks) {
    std::uint32_t done = 0;
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
      done += std::filesystem::exists(folder / fmt::format("done.{}", rank)) ? 1 : 0;
    }
    if (done + (job.has_victim ? 1 : 0) >= job.ranks) {
      return;
    }
    std::this_thread::sleep_for(5ms);
  }
}

int main_of(const std::filesystem::path& folder) {
  const std::string level = folder.stem().extension().string();
  int given = 0;
  MPI_Init_thread(nullptr, nullptr,
                  level == ".funneled"     ? MPI_THREAD_FUNNELED
                  : level == ".serialized" ? MPI_THREAD_SERIALIZED
                                           : MPI_THREAD_MULTIPLE,
                  &given);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Job job;
  job.seed = std::stoull(folder.stem().stem());
  job.has_victim = folder.extension() == ".killed";
  job.rank = static_cast<std::uint32_t>(rank);
  job.ranks = static_cast<std::uint32_t>(size);
  {
    Player player(folder, job);
    MPI_Barrier(MPI_COMM_WORLD);
    player.play();
    await_others(folder, job);
    if (job.has_victim) {
      std::fprintf(stderr, "rank %d: survived\n", rank);
      std::fflush(stderr);
      ::_exit(0);  // MPI_Finalize waits for all.
    }
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) try {
  return argc == 2 ? cairn::main_of(argv[1]) : 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "calls: %s\n", error.what());
  std::_Exit(1);  // mpirun ends the others.
}
