// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/proto.hpp"
#include "cli/records.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text.hpp"
#include "io/internal/replacing_file.hpp"
#include "store/internal/staged_directory.hpp"
#include "tools/internal/checkpoint_view.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWholeId = "cairn.proto/1";
constexpr const char* kWholeFile = "message.binpb";
constexpr const char* kChunksFile = "message.chunks";

[[noreturn]] void refuse_export(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

void require_free(const fs::path& target) {
  store::require_outside_checkpoints(io::Directory::open(io::posix_syscalls(), parent_of(target)), target);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(target, ignored))) {
    throw Error(Errc::already_exists, target.string());
  }
}

/// Returns the checkpointable that is a message: the only one, unless there is a name.
std::string message_among(const CheckpointMetadata& metadata) {
  std::vector<std::string> found;
  for (const auto& [name, item] : metadata) {
    if (!problem_text(item).empty()) {
      throw Error(item.problem_code, problem_text(item));
    }
    if (item.handler_id == kWholeId || chunks_of(item)) {
      found.push_back(name);
    }
  }
  if (found.size() != 1) {
    refuse_export(found.empty() ? "no protobuf message is there"
                                : fmt::format("'{}' are protobuf messages; choose one with --name",
                                              fmt::join(found, "', '")));
  }
  return found.front();
}

void write_whole(const std::string& bytes, const fs::path& target, const Progress& progress) {
  io::ReplacingFile file(io::posix_syscalls(), target);
  file.append(std::as_bytes(std::span(bytes)));
  progress(bytes.size(), bytes.size());
  file.publish();
}

/// Writes a message into a file. Returns what it was.
std::string export_from_checkpoint(const Arguments& arguments, const Progress& progress) {
  const tools::CheckpointView checkpoint(describe(arguments.path, arguments.name));
  const std::string name = message_among(checkpoint.metadata());
  const ItemMetadata& item = checkpoint.metadata().at(name);
  const auto files = checkpoint.files(name);
  if (!files) {
    refuse_export("it is not a checkpoint of Cairn");
  }
  const std::optional<MessageChunks> chunks = chunks_of(item);
  if (arguments.other.extension() == ".pb") {
    if (chunks) {
      refuse_export(
          fmt::format("'{}' is stored in chunks, and its type is not known here: export it to a .cpb", name));
    }
    const store::FileEntry& file = files->at(kWholeFile);
    write_whole(checkpoint.read(file, file.size_bytes), arguments.other, progress);
    return fmt::format("'{}'", printable(name));
  }
  if (!chunks) {
    refuse_export(fmt::format("'{}' is stored whole: export it to a .pb", name));
  }
  tools::VerifiedFile file = checkpoint.open(files->at(kChunksFile));
  export_chunks(item, *chunks, file, arguments.other, progress);
  return fmt::format("{} of '{}'", count_text(chunks->chunks.size(), "chunk"), printable(name));
}

/// Returns what was written.
std::string export_with_bar(const Arguments& arguments, bool is_records) {
  const StopSignals signals(arguments.other);
  ProgressBar bar(stderr);
  const auto progress = [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
    signals.check();
  };
  std::string what = is_records
                         ? count_text(export_records(arguments.path, arguments.other, progress), "record")
                         : export_from_checkpoint(arguments, progress);
  signals.finish();
  return what;
}

}  // namespace

bool is_message_export(const Arguments& arguments) {
  const fs::path ending = arguments.other.extension();
  return ending == ".pb" || ending == ".cpb" || ending == ".records";
}

int export_message(const Arguments& arguments, Output& out) {
  require_free(arguments.other);
  if (!arguments.renames.empty() || !arguments.strips.empty()) {
    refuse_export("--rename and --strip are for arrays; messages and records have no paths");
  }
  const bool is_records = arguments.other.extension() == ".records";
  if (is_records && !is_records_file(arguments.path)) {
    refuse_export(fmt::format("{} is not a file of records", arguments.path.string()));
  }
  const std::string what = export_with_bar(arguments, is_records);
  const std::uint64_t bytes = fs::file_size(arguments.other);
  if (!arguments.is_json) {
    out.print("{}: {}, {}\n", path_text(arguments.other), what, size_text(bytes));
    return 0;
  }
  JsonWriter json = json_to(out);
  json.begin_object().key("path").value(arguments.other.string()).key("bytes").value(bytes).end();
  return 0;
}

}  // namespace cairn::cli
