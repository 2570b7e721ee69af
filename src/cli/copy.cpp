// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/copy.hpp"

#include <chrono>

#include "cairn/base/error.hpp"

#include "cli/commands.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::chrono::milliseconds kLook{100};

SaveResult wait_with_bar(const AsyncResponse& copying) {
  ProgressBar bar(stderr);
  for (;;) {
    try {
      return copying.wait(kLook);
    } catch (const Error& error) {
      if (error.code() != Errc::still_running) {
        throw;
      }
    }
    const SaveProgress progress = copying.progress();
    bar.update(progress.written_bytes, progress.total_bytes);
  }
}

}  // namespace

int copy(const Arguments& arguments, Output& out) {
  CopyOptions options;
  options.overwrite = arguments.overwrites;
  const SaveResult result = wait_with_bar(copy_checkpoint_async(arguments.path, arguments.other, options));
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
