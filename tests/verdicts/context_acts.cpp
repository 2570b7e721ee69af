// SPDX-License-Identifier: Apache-2.0
// What programs do with contexts and with time, and what lies around afterwards.
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/io/recovery.hpp"

#include "verdicts/player.hpp"

namespace cairn::verdicts {

void Player::rest() {
  const Duration time = some_time();
  static_cast<void>(attempt(fmt::format("rest {} ms", time.count() / 1'000'000),
                            [&] { clock_->sleep_for(time, "the program"); }));
}

void Player::run_close(const std::function<void()>& meanwhile) {
  const Moment limit = now() + program_.close_timeout + program_.grace;
  oracle_.ask_close(limit);
  const Moment begin = now();
  // What close() throws is the failure of a save that nobody has waited for.
  static_cast<void>(attempt("close the context", [&] { context_->close(); }));
  check_duration("close()", begin, program_.close_timeout + program_.grace);
  adrift_ = 0;
  meanwhile();
  make_context();
  take_back();
}

void Player::close_context() {
  run_close([] {});
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

void Player::look_for_remains(bool is_over) {
  io::RecoveryOptions options;
  for (const char* part : {"busy", "calm"}) {
    options.dry_run = true;
    const auto report = io::recover(io::posix_syscalls(), folder_ / part, options);
    for (const io::RecoveryEntry& entry : report.entries) {
      // Nothing that a save has replaced is removed after commit_unknown.
      const bool is_fine = entry.kind == io::EntryClass::committed ||
                           (entry.kind == io::EntryClass::retired && oracle_.has_unknown()) ||
                           (!is_over && entry.kind != io::EntryClass::damaged) || system_->failures() != 0;
      if (!is_fine) {
        journal_->lie("remains", fmt::format("{}: {} ({})", entry.name, io::name(entry.kind), entry.note));
      }
    }
  }
  if (is_over) {
    options.dry_run = false;
    for (const char* part : {"busy", "calm"}) {
      static_cast<void>(io::recover(io::posix_syscalls(), folder_ / part, options));
      for (const auto& entry : std::filesystem::directory_iterator(folder_ / part)) {
        if (entry.path().filename().string().starts_with(".")) {
          journal_->lie("remains", entry.path().filename().string() + " is left by recovery");
        }
      }
    }
    oracle_.look_at_all();
  }
}

}  // namespace cairn::verdicts
