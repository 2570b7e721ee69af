// SPDX-License-Identifier: Apache-2.0
// Adds the parts of a checkpoint that are not there yet: `part_adder TARGET ENGINE SEED WORLD FIRST EVERY PARTS`. Of
// several beside each other each adds those that are FIRST modulo EVERY; one that is alone (EVERY is 1) makes the
// checkpoint of them, too. WORLD is what calls of the system are like (see program.hpp). A line each:
//   found COUNT       parts there were
//   added NUMBER      a part is durable
//   known NUMBER      it was there already
//   finalized         the checkpoint is there
//   failed: WHAT      what no program here may be told
// It goes when its parent goes.
#include <sys/prctl.h>
#include <system_error>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "cairn/cairn.hpp"
#include "cairn/training/partial_save.hpp"

#include "kill/parts.hpp"
#include "kill/program.hpp"

namespace cairn::kill {
namespace {

/// Does it again while another program works with the parts.
template <class Work>
void insist(Work work) {
  for (;;) {
    try {
      work();
      return;
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::device_or_resource_busy) {
        throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void add(PartialSave& partial, std::uint64_t number) {
  insist([&] {
    try {
      partial.add({{"state", part(number)}});
      say("added " + std::to_string(number));
    } catch (const Error& error) {
      if (error.code() != Errc::already_exists) {
        throw;
      }
      say("known " + std::to_string(number));
    }
  });
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  using namespace cairn::kill;
  if (argc != 8 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  try {
    const auto number = [argv](int index) { return std::strtoull(argv[index], nullptr, 10); };
    const cairn::Context context = make_context(argv[2], World(argv[4], number(3)));
    std::optional<cairn::PartialSave> partial;
    insist([&] { partial.emplace(argv[1], cairn::PartialSaveOptions(), context); });
    say("found " + std::to_string(partial->parts()));
    const bool is_alone = number(6) == 1;
    for (std::uint64_t next = is_alone ? partial->parts() : number(5); next < number(7); next += number(6)) {
      add(*partial, next);
    }
    if (is_alone) {
      partial->finalize();
      say("finalized");
    }
  } catch (const std::exception& error) {
    say(std::string("failed: ") + error.what());
    return 1;
  }
}
