// SPDX-License-Identifier: Apache-2.0
// What programs do with contexts and with time, and what lies around afterwards.
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "verdicts/player.hpp"

namespace cairn::verdicts {

void Player::rest() {
  const Duration time = some_time();
  static_cast<void>(attempt(fmt::format("rest {} ms", time.count() / 1'000'000),
                            [&] { clock_->sleep_for(time, "the program"); }));
}

void Player::close_context() {
  oracle_.ask_close(now() + program_.close_timeout + program_.grace);
  const Moment begin = now();
  // What close() throws is the failure of a save that nobody has waited for, or names what it has left behind.
  static_cast<void>(attempt("close the context", [&] { context_->close(); }));
  check_duration("close()", begin, program_.close_timeout + program_.grace);
  adrift_ = 0;
  if (dice_.one_in(4)) {
    save_to_closed();
  }
  make_context();
  take_back();
}

void Player::save_to_closed() {
  Asked asked = ask(dice_);
  asked.must_be_refused = true;
  const std::uint64_t number = oracle_.begin_save(asked);
  Loan loan(count_of(asked.target), fmt::format("save {}", number));
  fill(loan, number, asked.target);
  const Moment begin = now();
  const auto failure =
      attempt(fmt::format("save {} to t{}, with a context that is closed", number, asked.target), [&] {
        save(oracle_.path(asked.target), loan.tree(number, count_of(asked.target)), options_of(asked, number),
             *context_);
      });
  loan.give_back();
  oracle_.end_save(number, failure, begin);
}

void Player::close_meanwhile() {
  const Duration time = some_time();
  std::thread closer([this, time] {
    clock_->sleep_for(time, "whoever will close the context");
    oracle_.ask_close(now() + program_.close_timeout + program_.grace);
    try {
      context_->close();
    } catch (const std::exception& error) {
      journal_->note(fmt::format("close: {}", error.what()));
    }
  });
  save_and_wait();
  if (!loads_.empty()) {
    wait_load();
  }
  closer.join();
  make_context();
}

namespace {

/// The target in ".tmp-<target>-<uuid>" and ".trash-<target>-<uuid>".
std::string target_of(const std::string& name) {
  const std::size_t begin = name.find('-') + 1;
  return name.substr(begin, name.find('-', begin) - begin);
}

}  // namespace

std::string Player::objection_to(const store::RecoveryEntry& entry, bool is_over) const {
  const bool was_disturbed = system_->failures() != 0;
  switch (entry.kind) {
    case store::EntryClass::committed:
      return "";
    case store::EntryClass::damaged:
      return "no verdict allows damage";
    case store::EntryClass::retired:
      return !is_over || oracle_.may_have_left_old(target_of(entry.name)) ? "" : "no result has said so";
    default:
      return !is_over || was_disturbed ? "" : "nothing has gone wrong";
  }
}

void Player::look_for_remains(bool is_over) {
  store::RecoveryOptions options;
  options.dry_run = true;
  std::set<std::string> old;
  for (const char* part : {"busy", "calm"}) {
    for (const store::RecoveryEntry& entry :
         store::recover(io::posix_syscalls(), folder_ / part, options).entries) {
      if (entry.kind == store::EntryClass::retired) {
        old.insert(target_of(entry.name));
      }
      if (const std::string why = objection_to(entry, is_over); !why.empty()) {
        journal_->lie("remains", fmt::format("{}: {} ({}), but {}", entry.name, store::name(entry.kind),
                                             entry.note, why));
      }
    }
  }
  for (std::size_t i = 0; is_over && i < oracle_.target_count(); ++i) {
    const std::string target = oracle_.path(i).filename();
    if (oracle_.must_have_left_old(target) && !old.contains(target)) {
      journal_->lie("lost", "what " + target + " held before a commit that nobody knows of is gone");
    }
  }
  if (!is_over) {
    return;
  }
  options.dry_run = false;
  for (const char* part : {"busy", "calm"}) {
    static_cast<void>(store::recover(io::posix_syscalls(), folder_ / part, options));
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / part)) {
      if (entry.path().filename().string().starts_with(".")) {
        journal_->lie("remains", entry.path().filename().string() + " is left by recovery");
      }
    }
  }
  oracle_.look_at_all();
}

}  // namespace cairn::verdicts
