// SPDX-License-Identifier: Apache-2.0
// A first checkpoint: some weights and a step number. Run it twice: it goes on from where it was.
#include <exception>
#include <iostream>
#include <string>
#include <vector>

// [first]
#include <cairn/cairn.hpp>

/// Continues from the newest checkpoint, or begins; saves the next one.
cairn::Tree run_for_a_while() {
  cairn::Tree state = {{"params", {{"weights", std::vector<float>{0.5F, -1.0F, 2.0F}}}}, {"step", 0}};
  if (const auto newest = cairn::latest_checkpoint("run")) {
    state = cairn::load(newest->path);
  }
  const int step = state.get<int>("step") + 100;
  state["step"] = step;
  cairn::save("run/" + std::to_string(step), state);  // Durable when this returns: it survives a power cut.
  return state;
}
// [/first]

int main() try {
  const cairn::Tree state = run_for_a_while();

  const auto weights = state.get<std::vector<float>>("params/weights");
  std::cout << "step " << state.get<int>("step") << ", " << weights.size() << " weights\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
