// SPDX-License-Identifier: Apache-2.0
// A first checkpoint: some weights and a step number, saved and loaded.
#include <exception>
#include <filesystem>
#include <iostream>
#include <vector>

// [first]
#include <cairn/cairn.hpp>

cairn::Tree save_and_load(const std::vector<float>& weights, const std::vector<float>& bias) {
  const cairn::Tree state = {{"params", {{"weights", weights}, {"bias", bias}}}, {"step", 100}};
  cairn::save("run/100", state);  // Durable when this returns: it survives a crash and a power cut.
  return cairn::load("run/100");
}
// [/first]

int main() try {
  const std::vector<float> weights = {0.5F, -1.0F, 2.0F};
  const std::vector<float> bias = {0.1F};
  std::filesystem::create_directories("run");  // A save makes no folders above its own.

  const cairn::Tree loaded = save_and_load(weights, bias);

  const bool is_same = loaded.get<std::vector<float>>("params/weights") == weights;
  std::cout << "step " << loaded.get<int>("step") << ", weights " << (is_same ? "as saved" : "changed")
            << '\n';
  return is_same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
