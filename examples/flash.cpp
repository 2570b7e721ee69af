// SPDX-License-Identifier: Apache-2.0
// The code of docs/flash.md: a training that keeps each step in memory, and every hundredth on disk. It ends early, as
// a program does that fails, and goes on from memory.
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

#include <cairn/cairn.hpp>
#include <cairn/flash/flash_checkpointer.hpp>

#include "own_folder.hpp"

namespace {

void train(cairn::Tree& state) {
  state["done"] = state.get<int>("done") + 1;
}

std::string train_until(std::uint64_t last, const std::filesystem::path& memory) {
  std::string why = "nothing was saved";
  cairn::Tree state = {{"done", 0}};
  // [loop]
  cairn::FlashOptions options;
  options.memory = memory;  // "/dev/shm/run-42"
  // Three images: a copy to disk may take longer than a step.
  options.memory_bytes = std::uint64_t{64} << 20;
  options.disk.save = cairn::save_when::every_steps(100);
  cairn::FlashCheckpointer run("run", options);

  std::uint64_t step = 0;
  if (auto resumed = run.resume({"state"})) {
    state = resumed->loaded.take<cairn::Tree>("state");
    step = resumed->step + 1;
    why = resumed->why;
  }
  cairn::StepOptions how;
  for (; step < last; ++step) {
    train(state);
    how.force = step + 1 == last;  // On disk, too.
    try {
      run.save(step, {{"state", state}}, how);
    } catch (const cairn::Error& error) {  // The training goes on, and so do saves.
      std::cerr << error.what() << '\n';
    }
  }
  run.close();
  // [/loop]
  return why;
}

}  // namespace

int main() {
  const std::filesystem::path memory = "/dev/shm/cairn-example-" + std::to_string(::getpid());
  int result = 0;
  try {
    enter_own_folder("flash");
    train_until(118, memory);
    std::cout << "went on: " << train_until(130, memory) << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    result = 1;
  }
  std::filesystem::remove_all(memory);
  return result;
}
