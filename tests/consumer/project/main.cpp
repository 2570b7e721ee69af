// SPDX-License-Identifier: Apache-2.0
// What the first program of a user does with the installed package: it saves a small tree and loads it again.
#include <exception>
#include <filesystem>
#include <iostream>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/tools/array_reader.hpp>
#include <cairn/version.hpp>

static_assert(CAIRN_VERSION == CAIRN_VERSION_MAJOR * 10000 + CAIRN_VERSION_MINOR * 100 + CAIRN_VERSION_PATCH);

int main() try {
  const std::vector<float> weights = {1, 2, 3};
  const cairn::Tree state = {{"weights", weights}, {"step", 7}};
  std::filesystem::remove_all("checkpoint");  // Of a run before this one.
  const cairn::SaveResult saved = cairn::save("checkpoint", state);

  const cairn::Tree loaded = cairn::load("checkpoint");
  if (loaded != state) {
    std::cerr << "another tree was loaded than was saved\n";
    return 1;
  }
  if (cairn::ArrayReader("checkpoint").read("weights").data<const float>()[2] != 3) {
    std::cerr << "another array was read than was saved\n";
    return 1;
  }
  std::cout << "cairn saved " << saved.bytes << " bytes through " << saved.engine
            << " and loaded them again\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
