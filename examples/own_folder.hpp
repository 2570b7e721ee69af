// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

/// Makes the folder "example_NAME" anew, with an empty `run` in it, and goes there: so examples can be run again, and
/// one after the other.
inline void enter_own_folder(const std::string& name) {
  const std::filesystem::path folder = "example_" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "run");
  std::filesystem::current_path(folder);
}
