// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "cairn/async/awaitable.hpp"

namespace cairn {

/// A file whose size is not known when it is begun: written from its beginning on, and hashed as it goes.
///
/// Bytes are collected, and written a MiB at a time. From the first MiB on a stream holds a descriptor until it is
/// finished, in addition to those that ContextOptions::open_files counts: too many large ones at once fail with
/// EMFILE.
/// Phase:   background.
/// Threads: one call at a time.
/// Example: FileStream log = context.stream_file("logs/events.txt");  // In the blocking phase, or later.
///          for (const std::string& line : lines) {
///            co_await log.write(line);
///          }
///          co_await log.finish();
class FileStream {
 public:
  /// Holds what a stream is made of; see SaveContext::stream_file.
  class State;
  explicit FileStream(std::shared_ptr<State> state) noexcept;

  /// Appends to the file.
  ///
  /// Ownership: the bytes must stay valid until the task has finished.
  /// Cancel:    the stream cannot be used any more.
  /// Errors:    Errc::closed after `finish`, or after an error; OS errors.
  [[nodiscard]] Background<> write(std::span<const std::byte> bytes) const;
  [[nodiscard]] Background<> write(std::string_view text) const;

  /// Makes the file durable. A save whose handler does not finish a stream fails with Errc::handler_failed.
  ///
  /// Errors: as `write`.
  [[nodiscard]] Background<> finish() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace cairn
