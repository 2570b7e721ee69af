// SPDX-License-Identifier: Apache-2.0
#include "kill/ledger.hpp"

#include <sstream>

#include <fmt/format.h>

#include "cairn/io/recovery.hpp"

#include "kill/state.hpp"

namespace cairn::kill {
namespace fs = std::filesystem;

Ledger::Ledger() {
  for (const char* name : {"step_0", "step_1", "step_2"}) {
    may_hold_[name] = {std::nullopt};
  }
}

void Ledger::read(const std::vector<std::string>& lines) {
  std::string name;
  Content target;
  bool is_busy = false;
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "done") {
      may_hold_[name] = {target};
      is_busy = false;
      continue;
    }
    words >> name;
    target.reset();
    if (verb == "save") {
      words >> last_;
      target = last_;
      ++saves_;
    }
    may_hold_[name].insert(target);
    is_busy = true;
  }
  interrupted_ += is_busy ? 1 : 0;
}

std::string Ledger::complaint(const fs::path& root, const Context& context) {
  io::recover(io::posix_syscalls(), root);
  std::string text;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (may_hold_.count(entry.path().filename().string()) == 0) {
      text += fmt::format("{} is left\n", entry.path().string());
    }
  }
  for (auto& [name, contents] : may_hold_) {
    Content found;
    if (fs::exists(root / name)) {
      const Tree tree = load(root / name, {}, context);
      found = tree.at("number").as<std::int64_t>();
      text += tree == state(*found) ? "" : fmt::format("{}: wrong bytes\n", name);
    }
    if (contents.count(found) == 0) {
      text += fmt::format("{} holds {}\n", name, found ? std::to_string(*found) : "nothing");
    }
    contents = {found};
  }
  return text;
}

}  // namespace cairn::kill
