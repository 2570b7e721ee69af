// SPDX-License-Identifier: Apache-2.0
#include "kill/ledger.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "io/internal/syscalls.hpp"
#include "kill/dict.hpp"
#include "store/internal/recovery.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

std::string text_of(const testing::Lie& lie) {
  return fmt::format("{}: {}\n", lie.kind, lie.what);
}

/// Whose state is there, and what is wrong with it: nothing, when all of it is of one save.
std::optional<std::uint64_t> find(const fs::path& path, const Context& context, std::string& wrong) {
  try {
    const Tree tree = load_state(path, context);
    const auto number = tree.at("number").as<std::int64_t>();
    wrong += tree == state(number) ? "" : fmt::format("damage: {} has wrong bytes\n", path.string());
    return static_cast<std::uint64_t>(number);
  } catch (const Error& error) {
    wrong += error.code() == Errc::not_found ? "" : fmt::format("damage: {}\n", error.what());
    return std::nullopt;
  }
}

}  // namespace

Ledger::Ledger() {
  for (const char* name : {"step_0", "step_1", "step_2"}) {
    targets_.emplace(name, testing::TargetHistory(name));
  }
}

void Ledger::check(const std::optional<testing::Lie>& lie) {
  lies_ += lie ? text_of(*lie) : "";
}

void Ledger::enter(const std::string& verb, Number number, const std::string& rest) {
  testing::TargetHistory& target = targets_.at(open_.at(number));
  if (verb == "save") {
    target.begin_save(number, rest != "new");
    ++saves_;
  } else if (verb == "remove") {
    target.begin_removal(number);
  } else if (verb == "placed") {
    target.place(number);
  } else {
    using testing::Answer;
    const Answer answer = verb == "done" ? Answer::done : verb == "failed" ? Answer::failed : Answer::unknown;
    check(target.answer(number, answer));
    refused_ += answer == Answer::failed ? 1 : 0;
    unknown_ += answer == Answer::unknown ? 1 : 0;
    open_.erase(number);
  }
}

void Ledger::read(const std::vector<std::string>& lines) {
  ended_.clear();
  for (const std::string& line : lines) {
    if (line.empty() || line.starts_with("ended ")) {
      ended_ += line;
      continue;
    }
    std::istringstream words(line);
    std::string verb;
    std::string name;
    std::string rest;
    Number number = 0;
    words >> verb;
    if (verb == "save" || verb == "remove") {
      words >> name >> number >> rest;
      open_[number] = name;
      last_ = std::max(last_, static_cast<std::int64_t>(number));
    } else {
      words >> number;
    }
    enter(verb, number, rest);
  }
  interrupted_ += open_.empty() && ended_.empty() ? 0 : 1;
  open_.clear();
  for (auto& [name, target] : targets_) {
    target.settle();
  }
}

std::string Ledger::look(const fs::path& root, const Context& context) {
  std::string text;
  for (auto& [name, target] : targets_) {
    found_[name] = find(root / name, context, text);
    if (const auto lie = target.see(found_[name])) {
      text += text_of(*lie);
    }
  }
  return text;
}

std::string Ledger::complaint(const fs::path& root, const Context& context) {
  std::string text = std::exchange(lies_, {}) + look(root, context);
  for (int time = 0; time < 2; ++time) {
    store::recover(io::posix_syscalls(), root);
    text += look(root, context);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (targets_.count(entry.path().filename().string()) == 0) {
      text += fmt::format("{} is left\n", entry.path().string());
    }
  }
  for (auto& [name, target] : targets_) {
    target.restart(found_[name]);
  }
  return text;
}

}  // namespace cairn::kill
