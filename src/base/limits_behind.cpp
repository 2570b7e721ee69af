// SPDX-License-Identifier: Apache-2.0
#include "base/internal/limits_behind.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <optional>

#include <fmt/format.h>

namespace cairn {
namespace {

std::optional<rlim_t> limit_of(int resource) {
  ::rlimit limit{};
  const bool is_known = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
  return is_known && limit.rlim_cur != RLIM_INFINITY ? std::optional(limit.rlim_cur) : std::nullopt;
}

void add(std::string& text, const char* name, int resource) {
  if (const auto most = limit_of(resource)) {
    text += fmt::format("{}{} is {}", text.empty() ? "" : ", ", name, *most);
  }
}

}  // namespace

std::string limits_behind(int error) {
  std::string text;
  if (error == EMFILE) {
    add(text, "RLIMIT_NOFILE", RLIMIT_NOFILE);
  } else if (error == EFBIG) {
    add(text, "RLIMIT_FSIZE", RLIMIT_FSIZE);
  } else if (error == ENOMEM) {
    add(text, "RLIMIT_AS", RLIMIT_AS);
    add(text, "RLIMIT_DATA", RLIMIT_DATA);
  }
  return text;
}

std::string limits_of_threads() {
  std::string text;
  add(text, "RLIMIT_NPROC", RLIMIT_NPROC);
  const std::string memory = limits_behind(ENOMEM);  // A thread takes its stack.
  return text + (text.empty() ? "" : ", ") + (memory.empty() ? "" : memory + ", ") +
         "or pids.max of a control group";
}

}  // namespace cairn
