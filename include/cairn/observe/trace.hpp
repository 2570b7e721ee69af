// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace cairn {

/// Takes the trace of one save or load: JSON in Chrome's trace event format, for ui.perfetto.dev.
///
/// There is a row for the steps, one for each thread that copied, hashed or verified, and as many for
/// requests as were in flight. Times are those of the steady clock: traces of a process fit together.
/// Threads: called once, on a worker thread, before the operation is done, also when it failed. For an
///          operation that was given up, because a handler would not stop: later, or never.
/// Errors:  what it throws becomes a problem in the result, or a part of the failure's text: it never fails a
///          checkpoint.
using TraceSink = std::function<void(std::string_view json)>;

/// Writes the trace into a file, replacing what was there.
///
/// Errors: Errc::invalid_argument when the path is empty or holds a NUL; of the sink: OS errors.
[[nodiscard]] TraceSink trace_to_file(std::filesystem::path path);

}  // namespace cairn
