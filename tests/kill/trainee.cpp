// SPDX-License-Identifier: Apache-2.0
// A training that goes on from its newest step, saves, pins and lets old steps be removed, until it is killed:
// `trainee ROOT ENGINE SEED WORLD PARITY TRAINEES`. Of several on one root each has the steps that are PARITY modulo
// TRAINEES; only one that is alone pins. `trainee ROOT ENGINE SEED WORLD reader` resumes without end, and saves
// nothing. WORLD is what calls of the system are like (see program.hpp). A line each:
//   resumed STEP | resumed none   what it went on from
//   step STEP                     it is about to ask for a save of that step
//   committed STEP                that was saved
//   retained STEP                 and so were all before; what the policy does not keep is removed
//   pin STEP, pinned STEP, unpin STEP, unpinned STEP
//   closed STEP | closed none     after SIGTERM, with nothing left to do; the last that was saved
//   failed: WHAT                  what no training here may be told
// It goes when its parent goes.
#include <sys/prctl.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/step_options.hpp"

#include "kill/program.hpp"
#include "kill/training.hpp"
#include "support/dice.hpp"

namespace cairn::kill {
namespace {

void say_of(const std::string& what, std::uint64_t step) {
  say(what + " " + std::to_string(step));
}

/// Dies with a line where that is not what was saved.
std::optional<std::uint64_t> resume(Checkpointer& run, bool recovers) {
  ResumeOptions options;
  options.recover = recovers;
  std::optional<Resumed> resumed = run.resume({{"state"}}, options);
  if (!resumed) {
    say("resumed none");
    return std::nullopt;
  }
  if (resumed->loaded.take<Tree>("state") != trained(resumed->step)) {
    throw std::runtime_error("wrong bytes in step " + std::to_string(resumed->step));
  }
  say_of("resumed", resumed->step);
  return resumed->step;
}

class Trainee {
 public:
  Trainee(std::filesystem::path root, std::uint64_t seed, std::uint64_t parity, std::uint64_t trainees,
          const Context& context)
      : dice_(seed), parity_(parity), trainees_(trainees), run_(std::move(root), how(), context) {}

  /// Returns when it was told to end.
  void train() {
    const std::uint64_t begun = resume(run_, true).value_or(0);
    for (std::uint64_t step = (begun / trainees_ + 1) * trainees_ + parity_;; step += trainees_) {
      say_of("step", step);
      save(step);
      if (trainees_ == 1) {
        pin_or_unpin();
      }
      if (guard_.is_preempted()) {
        run_.close();
        say("closed " + saved_);
        return;
      }
    }
  }

 private:
  CheckpointerOptions how() {
    CheckpointerOptions options;
    options.save = save_when::any_of({save_when::every_steps(2), save_when::preempted()});
    if (trainees_ > 1) {
      options.save = save_when::asked();
    }
    options.keep = kept_by_trainees();
    options.preemption = &guard_;
    return options;
  }

  void save(std::uint64_t step) {
    try {
      if (const StepResponse response = run_.save(step, {{"state", trained(step)}})) {
        saved_ = std::to_string(step);
        follow(step, response);
      }
    } catch (const Error& error) {
      // Another training is so far ahead that this step would not stay: that is refused, and the next one is tried.
      if (trainees_ == 1 || error.code() != Errc::invalid_argument) {
        throw;
      }
    }
  }

  void follow(std::uint64_t step, const StepResponse& response) {
    if (dice_.one_in(3)) {
      response.wait();
      say_of("committed", step);
    } else if (dice_.one_in(3)) {
      run_.wait();
      say_of("retained", step);
    }
  }

  void pin_or_unpin() {
    const std::vector<std::uint64_t> steps = run_.steps();
    if (dice_.one_in(8) && !steps.empty()) {
      pin(steps[dice_.below(steps.size())]);
    }
    if (dice_.one_in(8) && !pinned_.empty()) {
      const std::uint64_t step = *pinned_.begin();
      say_of("unpin", step);
      run_.unpin(step);
      say_of("unpinned", step);
      pinned_.erase(step);
    }
  }

  void pin(std::uint64_t step) {
    say_of("pin", step);
    try {
      run_.pin(step);
      say_of("pinned", step);
      pinned_.insert(step);
    } catch (const Error& error) {
      if (error.code() != Errc::not_found) {  // It was removed meanwhile.
        throw;
      }
      say_of("unpinned", step);
    }
  }

  testing::Dice dice_;
  const std::uint64_t parity_;
  const std::uint64_t trainees_;
  const PreemptionGuard guard_;
  std::set<std::uint64_t> pinned_;
  std::string saved_ = "none";
  Checkpointer run_;
};

[[noreturn]] void read_until_killed(const std::filesystem::path& root, const Context& context) {
  for (;;) {
    Checkpointer run(root, {}, context);
    resume(run, false);
  }
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  if (argc < 6 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  try {
    const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
    const cairn::kill::World world(argv[4], seed);
    const cairn::Context context = cairn::kill::make_context(argv[2], world);
    if (std::string_view(argv[5]) == "reader") {
      cairn::kill::read_until_killed(argv[1], context);
    }
    if (argc != 7) {
      return 2;
    }
    cairn::kill::Trainee(argv[1], seed, std::strtoull(argv[5], nullptr, 10),
                         std::strtoull(argv[6], nullptr, 10), context)
        .train();
  } catch (const std::exception& error) {
    cairn::kill::say(std::string("failed: ") + error.what());
    return 1;
  }
}
