// SPDX-License-Identifier: Apache-2.0
#include "store/owner.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace cairn::store {
namespace {

constexpr std::string_view kMagic = "cairn-owner 1";

std::string read_proc(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') {
    return std::nullopt;  // Nobody writes numbers so.
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

/// Field 22 of /proc/<pid>/stat (proc(5)); nothing when there is no such process.
std::optional<std::uint64_t> start_time_of(std::uint64_t pid) {
  const std::string stat = read_proc(fmt::format("/proc/{}/stat", pid));
  std::size_t at = stat.rfind(')');  // The command's name before it may hold blanks and brackets.
  for (int field = 2; field < 22 && at != std::string::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string::npos) {
    return std::nullopt;
  }
  return parse_number(std::string_view(stat).substr(at + 1, stat.find(' ', at + 1) - at - 1));
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string boot_id() {
  return read_proc("/proc/sys/kernel/random/boot_id");
}

/// Takes the line "<key> <value>\n" off `text`; nothing when it starts otherwise.
std::optional<std::string_view> take_line(std::string_view& text, std::string_view key) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(key) || end <= key.size() ||
      text[key.size()] != ' ') {
    return std::nullopt;
  }
  const std::string_view value = text.substr(key.size() + 1, end - key.size() - 1);
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

Owner this_process(const Uuid& uuid) {
  const auto pid = static_cast<std::uint64_t>(::getpid());
  return {uuid, host_name(), boot_id(), pid, start_time_of(pid).value_or(0)};
}

std::string encode_owner(const Owner& owner) {
  return fmt::format("{}\nuuid {}\nhost {}\nboot {}\npid {}\nstart {}\n", kMagic, to_string(owner.uuid),
                     owner.host, owner.boot_id, owner.pid, owner.start_time);
}

std::optional<Owner> parse_owner(std::string_view text) {
  if (take_line(text, kMagic.substr(0, kMagic.find(' '))) != kMagic.substr(kMagic.find(' ') + 1)) {
    return std::nullopt;
  }
  const auto uuid = take_line(text, "uuid");
  const auto host = uuid ? take_line(text, "host") : std::nullopt;
  const auto boot = host ? take_line(text, "boot") : std::nullopt;
  const auto pid = boot ? take_line(text, "pid") : std::nullopt;
  const auto start = pid ? take_line(text, "start") : std::nullopt;
  if (!start || !text.empty()) {
    return std::nullopt;
  }
  const std::optional<Uuid> parsed_uuid = parse_uuid(*uuid);
  const std::optional<std::uint64_t> parsed_pid = parse_number(*pid);
  const std::optional<std::uint64_t> parsed_start = parse_number(*start);
  if (!parsed_uuid || !parsed_pid || !parsed_start) {
    return std::nullopt;
  }
  return Owner{*parsed_uuid, std::string(*host), std::string(*boot), *parsed_pid, *parsed_start};
}

bool is_gone(const Owner& owner) {
  if (owner.host != host_name()) {
    return false;
  }
  return owner.boot_id != boot_id() || start_time_of(owner.pid) != owner.start_time;
}

}  // namespace cairn::store
