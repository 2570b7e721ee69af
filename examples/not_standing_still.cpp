// SPDX-License-Identifier: Apache-2.0
// A training that computes its next gradient while its state is copied, and waits before it changes the state.
#include <cstddef>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>

#include "own_folder.hpp"

namespace {

using Weights = std::vector<float>;

/// Reads the weights.
Weights gradient(const Weights& weights) {
  Weights result(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    result[i] = 2 * weights[i];
  }
  return result;
}

/// Writes them.
void update(Weights& weights, const Weights& gradients) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] -= 0.25F * gradients[i];
  }
}

// [loop]
void train(Weights& weights, int steps) {
  cairn::AsyncResponse saving;  // Below the weights: it goes before they do, and waits until they are free.
  for (int step = 0; step < steps; ++step) {
    const cairn::Tree state = {{"weights", weights}, {"step", step}};
    saving = cairn::save_async("run/" + std::to_string(step), state, cairn::return_when_accepted);
    const Weights gradients = gradient(weights);  // During the copy: reads what is copied.
    saving.wait_staged();                         // Wait before you first write.
    update(weights, gradients);                   // While the files are written.
  }
  saving.wait();
}
// [/loop]

}  // namespace

int main() try {
  enter_own_folder("not_standing_still");
  Weights weights(1 << 20, 1.0F);

  train(weights, 3);

  const cairn::Tree saved = cairn::load("run/2");
  const float first = saved.get<Weights>("weights").front();
  std::cout << "step 2 was saved as " << first << " and is now " << weights[0] << '\n';
  return first == 0.25F && weights[0] == 0.125F ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
