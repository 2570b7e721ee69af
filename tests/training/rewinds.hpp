// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "io/internal/file.hpp"
#include "training/disks.hpp"
#include "training/internal/rewound.hpp"

namespace cairn::testing {

/// What a rewind leaves in a root, seen by programs that know nothing of it.
template <class Base>
class Rewinds : public Base {
 protected:
  using Base::Base;

  void save_steps(std::initializer_list<std::uint64_t> steps) const {
    for (const std::uint64_t step : steps) {
      this->save_alone(std::to_string(step));
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> on_disk() const {
    return *StepDirectory(this->root(), {}, plain_).steps();
  }
  [[nodiscard]] io::Directory open_root() const {
    return io::Directory::open(io::posix_syscalls(), this->root());
  }
  [[nodiscard]] std::vector<training::RewoundLine> lines() const {
    return training::list_rewound(open_root()).lines;
  }
  /// The names of all checkpoints that were set aside, line by line.
  [[nodiscard]] std::vector<std::string> set_aside() const {
    std::vector<std::string> names;
    for (const training::RewoundLine& line : lines()) {
      for (const store::FoundCheckpoint& each : line.checkpoints) {
        names.push_back(each.name);
      }
    }
    return names;
  }
  [[nodiscard]] std::filesystem::path line_path(std::size_t number = 0) const {
    return this->root() / training::kRewoundName / lines().at(number).name;
  }

  const Context plain_{Base::small()};
};

}  // namespace cairn::testing
