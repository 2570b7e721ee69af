// SPDX-License-Identifier: Apache-2.0
// Matrices of Eigen, saved where they are and resumed where they are.
#include <exception>
#include <iostream>

#include <Eigen/Core>
#include <cairn/cairn.hpp>
#include <cairn/interop/eigen.hpp>

#include "own_folder.hpp"

int main() try {
  enter_own_folder("eigen");
  const Eigen::MatrixXd weights = Eigen::MatrixXd::Random(3, 4);
  const Eigen::VectorXd bias = Eigen::VectorXd::Random(3);

  // [save]
  const cairn::Tree state = {{"weights", cairn::Array::borrow(cairn::interop::view_of(weights))},
                             {"bias", cairn::Array::borrow(cairn::interop::view_of(bias))}};
  cairn::save("run/1", state);  // Column major in memory, row major on disk, as every reader expects.
  // [/save]

  // [resume]
  Eigen::MatrixXd resumed(3, 4);
  cairn::AbstractTree wanted = cairn::metadata("run/1");
  wanted["weights"].place_into(cairn::interop::mutable_view_of(resumed));  // Read where it belongs.
  const cairn::Tree loaded = cairn::load("run/1", wanted);
  const auto resumed_bias = cairn::interop::map_as<Eigen::VectorXd>(loaded["bias"].as<cairn::Array>().view());
  // [/resume]

  const bool is_same = resumed == weights && resumed_bias == bias;
  std::cout << "the matrices are " << (is_same ? "as they were" : "others") << '\n';
  return is_same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
