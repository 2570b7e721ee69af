// SPDX-License-Identifier: Apache-2.0
#include "store/internal/memory_mark.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"
#include "io/internal/check.hpp"

namespace cairn::store {
namespace {

constexpr std::uint64_t kMarkFormat = 1;

StepNames read_names(JsonReader& json) {
  StepNames names;
  json.begin_object();
  while (const auto key = json.next_key()) {
    if (*key == "prefix") {
      names.prefix = json.read_string();
    } else if (*key == "width") {
      names.width = json.read_unsigned();
    } else {
      json.skip_value();
    }
  }
  return names;
}

}  // namespace

std::string encode_mark(const MemoryMark& mark) {
  std::string text;
  JsonStyle style;
  style.layout = JsonLayout::block;
  JsonWriter json(text, style);
  json.begin_object();
  json.key("format").value(kMarkFormat);
  json.key("run").value(std::string_view(mark.run));
  json.key("root").value(std::string_view(mark.root.native()));
  json.key("limit_bytes").value(mark.limit_bytes);
  json.key("ranks").value(std::uint64_t{mark.ranks});
  json.key("step_zero").value(std::string_view(mark.step_zero));
  if (!mark.names.empty()) {
    json.key("names").begin_list();
    for (const StepNames& each : mark.names) {
      json.begin_object(JsonLayout::line).key("prefix").value(std::string_view(each.prefix));
      json.key("width").value(each.width).end();
    }
    json.end();
  }
  json.end();
  return text;
}

MemoryMark parse_mark(std::string_view text, const std::filesystem::path& path) {
  const std::string name = path.string();
  JsonRules rules;
  rules.has_unique_keys = true;
  JsonReader json(text, name, rules);
  MemoryMark mark;
  std::optional<std::uint64_t> format;
  json.begin_object();
  while (const auto key = json.next_key()) {
    if (*key == "format") {
      format = json.read_unsigned();
      if (*format > kMarkFormat) {
        throw Error(Errc::unsupported_version,
                    fmt::format("{} has format {}, this version reads up to {}", name, *format, kMarkFormat));
      }
    } else if (*key == "run") {
      mark.run = json.read_string();
    } else if (*key == "root") {
      mark.root = std::string(json.read_string());
    } else if (*key == "step_zero") {
      mark.step_zero = json.read_string();
    } else if (*key == "names") {
      json.begin_list();
      while (json.next_element()) {
        mark.names.push_back(read_names(json));
      }
    } else if (*key == "limit_bytes") {
      mark.limit_bytes = json.read_unsigned();
    } else if (*key == "ranks") {
      const std::uint64_t ranks = json.read_unsigned();
      if (ranks == 0 || ranks > std::numeric_limits<std::uint32_t>::max()) {
        json.fail("a number of ranks that no run has");
      }
      mark.ranks = static_cast<std::uint32_t>(ranks);
    } else {
      json.skip_value();
    }
  }
  json.finish();
  if (format != kMarkFormat || mark.run.empty() || mark.root.empty()) {
    throw Error(Errc::malformed_metadata, fmt::format("{} lacks its format, run or root", name));
  }
  return mark;
}

std::optional<MemoryMark> read_mark_above(const io::Directory& root) {
  // By its descriptor: the path that it was opened by may lead elsewhere.
  const std::string name = fmt::format("../{}", kMemoryMarkName);
  const std::filesystem::path path = root.path() / name;
  io::Syscalls& syscalls = root.syscalls();
  const int fd = io::uninterrupted([&] {
    return syscalls.open_at(root.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
  });
  if (fd == -ENOENT || fd == -EACCES || fd == -ELOOP) {
    return std::nullopt;
  }
  const io::FileHandle file(syscalls, io::require(fd, "open", path));
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(file.fd(), status); }), "stat", path);
  if (status.kind != io::FileKind::regular || status.user != ::geteuid()) {
    return std::nullopt;
  }
  if (status.size_bytes > kMaxMarkBytes) {
    throw Error(Errc::malformed_metadata, fmt::format("{} has {} bytes", path.string(), status.size_bytes));
  }
  std::string text(static_cast<std::size_t>(status.size_bytes), '\0');
  io::read_all(file, std::as_writable_bytes(std::span(text)), 0, path);
  return parse_mark(text, path);
}

bool may_be_reused(const io::Directory& checkpoint) noexcept {
  io::Syscalls& syscalls = checkpoint.syscalls();
  if (!lies_in_memory(syscalls, checkpoint.fd())) {
    return false;
  }
  const std::string name = fmt::format("../../{}", kMemoryMarkName);
  const int fd = io::uninterrupted(
      [&] { return syscalls.open_at(checkpoint.fd(), name.c_str(), O_PATH | O_NOFOLLOW, 0); });
  if (fd >= 0) {
    const io::FileHandle mark(syscalls, fd);
  }
  return fd != -ENOENT;
}

bool lies_in_memory(io::Syscalls& syscalls, int fd) noexcept {
  return io::uninterrupted([&] { return syscalls.file_system(fd); }) ==
         static_cast<int>(io::FileSystem::memory);
}

}  // namespace cairn::store
