// SPDX-License-Identifier: Apache-2.0
// Usage: host PLUGIN. Loads a plugin and saves what only the plugin has a handler for. Prints why where that fails.
#include <system_error>

#include <filesystem>
#include <iostream>
#include <stdexcept>

#include <cairn/cairn.hpp>
#include <dlfcn.h>

#include "note.hpp"

namespace {

void require(bool holds, const char* claim) {
  if (!holds) {
    throw std::runtime_error(claim);
  }
}

void enroll_plugin(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    throw std::runtime_error(dlerror());
  }
  void* enroll = dlsym(plugin, "enroll");
  require(enroll != nullptr, "the plugin has no function 'enroll'");
  reinterpret_cast<void (*)()>(enroll)();
}

/// The code with which saving a note fails.
std::error_code code_of_save(const Note& note) {
  try {
    cairn::save_checkpointables("refused note", {{"note", note}});
  } catch (const cairn::Error& error) {
    return error.code();
  }
  return {};
}

void save_and_load() {
  const Note note = {"written by the host"};
  std::filesystem::remove_all("note");
  cairn::save_checkpointables("note", {{"note", note}});
  cairn::Loaded loaded = cairn::load_checkpointables("note");
  require(loaded.take<Note>("note").text == note.text, "another note was loaded than was saved");
}

}  // namespace

int main(int argc, char** argv) try {
  require(argc == 2, "usage: host PLUGIN");
  require(code_of_save(Note{"a"}) == cairn::Errc::no_handler, "a note was saved without the plugin");
  enroll_plugin(argv[1]);
  require(cairn::global_registry().contains("plugin.note/1"), "the plugin has a registry of its own");
  save_and_load();
  require(code_of_save(Note()) == cairn::Errc::invalid_argument,
          "the plugin's error was not caught as one of Cairn's");
  std::cout << "a plugin without -rdynamic shares the registry\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
