// SPDX-License-Identifier: Apache-2.0
// A process that dies in the middle of a save: `save_until_killed TARGET` writes one file of a checkpoint, says "ready"
// on standard output, and waits for the signal that ends it. It goes when its parent goes.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include <signal.h>

#include "io/internal/engine.hpp"
#include "store/sample_checkpoint.hpp"

int main(int argc, char** argv) {
  if (argc != 2 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  const auto engine = cairn::io::make_engine(cairn::io::EngineKind::automatic).engine;
  auto staged = cairn::store::StagedDirectory::create(*engine, argv[1]);
  staged.make_directory("state");
  cairn::store::write_sample_file(staged, "state/data", std::string(1 << 20, 'x'));
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    ::pause();
  }
}
