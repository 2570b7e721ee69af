// SPDX-License-Identifier: Apache-2.0
#include "training/internal/pins.hpp"

#include <system_error>

#include <optional>
#include <string>

#include "cairn/base/error.hpp"
#include "cairn/training/step_directory.hpp"

#include "io/internal/remove_directory.hpp"

namespace cairn::training {
namespace {

/// Calls `make`; what somebody else has made meanwhile will do.
template <class Make>
void make_unless_there(Make make) {
  try {
    make();
  } catch (const Error& error) {
    if (error.code() != std::errc::file_exists) {
      throw;
    }
  }
}

/// Nothing when no step was ever pinned.
std::optional<io::Directory> open_pins(const io::Directory& root) {
  const auto status = root.status(kPinsName);
  if (!status || status->kind != io::FileKind::directory) {
    return std::nullopt;
  }
  return root.open_directory(kPinsName);
}

std::string pin_name(std::uint64_t step) {
  return StepFormat().name(step);
}

}  // namespace

std::set<std::uint64_t> read_pins(const io::Directory& root) {
  std::set<std::uint64_t> pins;
  if (const auto directory = open_pins(root)) {
    for (const io::DirectoryEntry& entry : directory->list()) {
      if (const auto step = StepFormat().parse(entry.name)) {
        pins.insert(*step);
      }
    }
  }
  return pins;
}

bool is_pinned(const io::Directory& root, std::uint64_t step) {
  const auto directory = open_pins(root);
  return directory && directory->status(pin_name(step)).has_value();
}

void add_pin(const io::Directory& root, std::uint64_t step) {
  make_unless_there([&root] { static_cast<void>(root.make_directory(kPinsName)); });
  const io::Directory directory = root.open_directory(kPinsName);
  make_unless_there([&] { static_cast<void>(directory.create_file(pin_name(step))); });
  directory.sync();
  root.sync();  // Last: it makes the directory of the pins durable, which holds this one by then.
}

void remove_pin(const io::Directory& root, std::uint64_t step) {
  if (const auto directory = open_pins(root)) {
    io::remove_if_there([&] { directory->remove_file(pin_name(step)); });
    directory->sync();
  }
}

}  // namespace cairn::training
