// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/array_stream.hpp"
#include "cli/commands.hpp"
#include "cli/export_plan.hpp"
#include "cli/paths.hpp"
#include "cli/text.hpp"
#include "formats/internal/hugging_face.hpp"
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

/// The directory that the target is to be in.
///
/// Errors: Errc::invalid_argument when that is a checkpoint's, or the folder of other programs' files that `source`
///         is: a file more there would be read with the others.
io::Directory open_parent(const fs::path& source, const fs::path& target) {
  const fs::path path = parent_of(target);
  io::Directory parent = io::Directory::open(io::posix_syscalls(), path);
  store::require_outside_checkpoints(parent, target);
  if (fs::is_directory(source) && fs::equivalent(source, path)) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' lies in the folder that is exported", target.string()));
  }
  return parent;
}

/// A folder next to the target, in which all is made before it gets its name. Removed with what is in it, unless it
/// became the target.
class ExportStaging {
 public:
  ExportStaging(io::Directory parent, const fs::path& target)
      : parent_(std::move(parent)),
        name_(fmt::format(".export-{}-{}", target.filename().string(),
                          store::to_string(store::make_uuid(store::system_random)))),
        target_(target.filename().string()),
        folder_(parent_.make_directory(name_)) {}

  ~ExportStaging() {
    if (is_published_) {
      return;
    }
    try {
      io::remove_directory(parent_, name_, folder_, {});
    } catch (const std::exception&) {  // It says itself what it is.
    }
  }
  ExportStaging(const ExportStaging&) = delete;
  ExportStaging& operator=(const ExportStaging&) = delete;

  [[nodiscard]] const io::Directory& folder() const { return folder_; }

  /// Gives the target's name to the folder, or to the only file in it.
  void publish(const std::string& file) {
    folder_.sync();
    if (file.empty()) {
      parent_.rename(name_, parent_, target_, io::RenameMode::no_replace);
      is_published_ = true;
    } else {
      folder_.rename(file, parent_, target_, io::RenameMode::no_replace);
    }
    parent_.sync();
  }

 private:
  io::Directory parent_;
  std::string name_;
  std::string target_;
  io::Directory folder_;
  bool is_published_ = false;
};

std::string header_of(const ExportPlan& plan, const ExportedFile& file) {
  std::vector<formats::TensorSpec> specs;
  for (std::size_t i = 0; i < file.layout.offsets.size(); ++i) {
    const ExportedArray& array = plan.arrays[file.first + i];
    specs.push_back({array.name, array.dtype, array.shape});
  }
  return std::string(formats::safetensors_header(specs, file.layout));
}

void write_file(const ArrayReader& arrays, const ExportPlan& plan, const ExportedFile& file,
                const io::Directory& folder) {
  const fs::path path = folder.path() / file.name;
  io::FileHandle out = folder.create_file(file.name);
  const int reserved = out.syscalls().allocate(out.fd(), file.layout.file_size);
  if (reserved < 0 && !io::is_unsupported(reserved)) {
    throw_errno(-reserved, "fallocate", path);
  }
  const std::string header = header_of(plan, file);
  io::write_all(out, std::as_bytes(std::span(header)), 0, path);
  std::vector<std::size_t> numbers;
  for (const std::uint32_t i : file.layout.order) {
    numbers.push_back(file.first + i);
  }
  ArrayStream(arrays, plan.arrays).read(numbers, [&](const ArrayPiece& piece) {
    io::write_all(out, piece.bytes, file.layout.offsets[piece.array - file.first] + piece.offset_bytes, path);
  });
  io::require(out.syscalls().sync(out.fd()), "fsync", path);
  io::require(out.close(), "close", path);
}

/// Which array lies in which file, as Hugging Face's readers want it.
void write_index(const ExportPlan& plan, const io::Directory& folder) {
  std::string text;
  JsonWriter json(text);
  const auto add = [](std::uint64_t sum, const ExportedArray& array) { return sum + array.bytes; };
  json.begin_object().key("metadata").begin_object(JsonLayout::line).key("total_size");
  json.value(std::accumulate(plan.arrays.begin(), plan.arrays.end(), std::uint64_t{0}, add)).end();
  json.key("weight_map").begin_object();
  for (const ExportedFile& file : plan.files) {
    for (std::size_t i = 0; i < file.layout.offsets.size(); ++i) {
      json.key(plan.arrays[file.first + i].name).value(file.name);
    }
  }
  json.end().end();
  io::write_small_file(folder, formats::kHuggingFaceIndexName, text + "\n");
}

void print_answer(Output& out, const Arguments& arguments, const ExportPlan& plan) {
  out.print("{}: {} of '{}'\n", path_text(arguments.other), count_text(plan.arrays.size(), "array"),
            printable(plan.item));
  const std::array<Column, 3> columns{{{"FILE"}, {"ARRAYS", true}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const ExportedFile& file : plan.files) {
      row({printable(file.name), count_text(file.layout.offsets.size()), size_text(file.layout.file_size)});
    }
  });
  if (!plan.left_out.empty()) {
    out.print("left out, not arrays: {}\n", printable(fmt::format("{}", fmt::join(plan.left_out, ", "))));
  }
  if (!plan.aliases.empty()) {
    out.print("left out, further names of arrays: {}\n",
              printable(fmt::format("{}", fmt::join(plan.aliases, ", "))));
  }
}

void write_names(JsonWriter& json, std::string_view key, const std::vector<std::string>& names) {
  json.key(key).begin_list();
  for (const std::string& name : names) {
    json.value(name);
  }
  json.end();
}

void write_answer(JsonWriter json, const Arguments& arguments, const ExportPlan& plan) {
  json.begin_object().key("path").value(arguments.other.string()).key("checkpointable").value(plan.item);
  json.key("files").begin_list();
  for (const ExportedFile& file : plan.files) {
    json.begin_object(JsonLayout::line).key("name").value(file.name);
    json.key("arrays").value(file.layout.offsets.size()).key("bytes").value(file.layout.file_size).end();
  }
  json.end();
  write_names(json, "left_out", plan.left_out);
  write_names(json, "aliases_left_out", plan.aliases);
  json.end();
}

}  // namespace

int export_arrays(const Arguments& arguments, Output& out) {
  io::require_path(arguments.other);
  const fs::path target = io::named_path(arguments.other);
  if (fs::exists(fs::symlink_status(target))) {
    throw Error(Errc::already_exists, target.string());
  }
  io::Directory parent = open_parent(arguments.path, target);
  ExportOptions options;
  options.item = arguments.name;
  options.separator = arguments.exporting.separator;
  options.max_file_bytes = arguments.exporting.max_file_bytes;
  options.first_names_only = arguments.exporting.first_names_only;
  options.is_folder = arguments.exporting.format.empty() ? target.extension() != ".safetensors"
                                                         : arguments.exporting.format == "hf";
  ExportPlan plan = plan_export(arguments.path, options);
  if (!options.is_folder) {
    plan.files.front().name = target.filename();
  }
  ExportStaging staging(std::move(parent), target);
  const ArrayReader arrays(arguments.path, plan.item);
  for (const ExportedFile& file : plan.files) {
    write_file(arrays, plan, file, staging.folder());
  }
  if (plan.files.size() > 1) {
    write_index(plan, staging.folder());
  }
  staging.publish(options.is_folder ? "" : plan.files.front().name);
  if (arguments.is_json) {
    write_answer(json_to(out), arguments, plan);
  } else {
    print_answer(out, arguments, plan);
  }
  return 0;
}

}  // namespace cairn::cli
