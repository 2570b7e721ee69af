// SPDX-License-Identifier: Apache-2.0
#include "digits/arguments.hpp"

#include <charconv>

#include <fmt/format.h>

namespace digits {
namespace {

std::int64_t parse_positive(std::string_view option, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
    throw UsageError(fmt::format("{} takes a number from 1 on, not '{}'", option, text));
  }
  return value;
}

void set(Arguments& arguments, std::string_view option, std::string_view value) {
  if (option == "--root") {
    arguments.root = value;
  } else if (option == "--data") {
    arguments.data = value;
  } else if (option == "--memory") {
    arguments.memory = value;
  } else if (option == "--final") {
    arguments.final = value;
  } else if (option == "--steps") {
    arguments.steps = parse_positive(option, value);
  } else if (option == "--save-every") {
    arguments.save_every = parse_positive(option, value);
  } else if (option == "--keep") {
    arguments.keep = static_cast<std::size_t>(parse_positive(option, value));
  } else {
    throw UsageError(fmt::format("unknown option '{}'", option));
  }
}

}  // namespace

Arguments parse_arguments(std::span<const char* const> words) {
  Arguments arguments;
  for (std::size_t at = 0; at < words.size(); at += 2) {
    const std::string_view option = words[at];
    if (option == "-h" || option == "--help") {
      arguments.wants_help = true;
      return arguments;
    }
    if (at + 1 == words.size()) {
      throw UsageError(fmt::format("'{}' needs a value", option));
    }
    set(arguments, option, words[at + 1]);
  }
  if (arguments.root.empty() || arguments.data.empty()) {
    throw UsageError("--root and --data are needed");
  }
  return arguments;
}

std::string usage(std::string_view program) {
  return fmt::format(
      "Usage: {} --root FOLDER --data DIGITS_CSV [options]\n"
      "Trains a classifier of handwritten digits; goes on where the newest checkpoint in FOLDER ends.\n\n"
      "  --steps N        train until step N (1000)\n"
      "  --save-every N   save a checkpoint every N steps (50)\n"
      "  --keep N         keep the N newest checkpoints (3)\n"
      "  --memory FOLDER  keep each step in FOLDER, on a tmpfs, before the disk; digits alone\n"
      "  --final FILE     write the final weights and all else that was trained to FILE, byte by byte\n",
      program);
}

}  // namespace digits
