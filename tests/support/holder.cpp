// SPDX-License-Identifier: Apache-2.0
#include "support/holder.hpp"

#include <charconv>
#include <string>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::testing {
namespace {

std::uint64_t read_number(const std::string& text, const std::filesystem::path& path) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: its metadata is '{}'", path.string(), text));
  }
  return number;
}

}  // namespace

std::optional<std::uint64_t> holder_of(const std::filesystem::path& path) {
  try {
    const auto found = store::CommittedDirectory::open(io::posix_syscalls(), path);
    return read_number(found.manifest().custom_metadata, path);
  } catch (const Error& error) {
    if (error.code() == Errc::not_found) {
      return std::nullopt;
    }
    throw;
  }
}

}  // namespace cairn::testing
