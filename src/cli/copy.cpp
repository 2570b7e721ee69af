// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/copy.hpp"

#include <chrono>
#include <cstdio>

#include "cairn/base/error.hpp"

#include "cli/commands.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::chrono::milliseconds kLook{100};

SaveResult copy_with_bar(const Arguments& arguments, const CopyOptions& options) {
  const StopSignals signals(arguments.other);
  ProgressBar bar(stderr);
  const AsyncResponse copying = copy_checkpoint_async(arguments.path, arguments.other, options);
  for (;;) {
    try {
      SaveResult result = copying.wait(kLook);
      signals.finish();
      return result;
    } catch (const Error& error) {
      if (error.code() == Errc::cancelled) {
        copying.wait_done();  // What it had written is removed when it is answered already.
        signals.check();
      }
      if (error.code() != Errc::still_running) {
        throw;
      }
    }
    const SaveProgress progress = copying.progress();
    bar.update(progress.written_bytes, progress.total_bytes);
    if (signals.has_come()) {
      copying.cancel();
    }
  }
}

}  // namespace

int copy(const Arguments& arguments, Output& out) {
  CopyOptions options;
  options.overwrite = arguments.overwrites;
  const SaveResult result = copy_with_bar(arguments, options);
  if (arguments.is_json) {
    JsonWriter json = json_to(out);
    json.begin_object().key("path").value(arguments.other.string());
    json.key("files").value(result.files).key("bytes").value(result.bytes).end();
    return 0;
  }
  if (result.durable_time == std::chrono::nanoseconds(0)) {
    out.print("{}: the same checkpoint is there\n", path_text(arguments.other));
  } else {
    out.print("{}: {} and {} copied, every byte is as it was written\n", path_text(arguments.other),
              count_text(result.files, "file"), size_text(result.bytes));
  }
  return 0;
}

}  // namespace cairn::cli
