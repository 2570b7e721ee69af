// SPDX-License-Identifier: Apache-2.0
// Usage: joined_examples NAME [ARGUMENT...] : runs the example of that name, as if it were a program of its own.
#include "examples/joined/joined.hpp"

#include <functional>
#include <iostream>
#include <map>
#include <string>

namespace {

using Main = std::function<int(int, char**)>;

std::map<std::string, Main>& examples() {
  static std::map<std::string, Main> by_name;
  return by_name;
}

}  // namespace

JoinedExample::JoinedExample(const char* name, int (*main)()) {
  examples()[name] = [main](int, char**) { return main(); };
}

JoinedExample::JoinedExample(const char* name, int (*main)(int, char**)) {
  examples()[name] = main;
}

int main(int argc, char** argv) {
  const auto found = examples().find(argc > 1 ? argv[1] : "");
  if (found == examples().end()) {
    std::cerr << "joined_examples: which example? There are:";
    for (const auto& [name, main_of_it] : examples()) {
      std::cerr << ' ' << name;
    }
    std::cerr << '\n';
    return 2;
  }
  return found->second(argc - 1, argv + 1);
}
