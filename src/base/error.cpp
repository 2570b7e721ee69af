// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "base/internal/limits_behind.hpp"
#include "base/internal/printable.hpp"

namespace cairn {
namespace {

/// By the numbers of the codes. A message has blanks in place of the underscores.
constexpr std::array<std::string_view, 31> kCodeNames = {"",
                                                         "invalid_argument",
                                                         "not_found",
                                                         "already_exists",
                                                         "no_handler",
                                                         "ambiguous_handler",
                                                         "unknown_handler_id",
                                                         "type_mismatch",
                                                         "malformed_metadata",
                                                         "unsupported_version",
                                                         "checksum_mismatch",
                                                         "shape_mismatch",
                                                         "dtype_mismatch",
                                                         "unsafe_cast",
                                                         "structure_mismatch",
                                                         "incomplete_shards",
                                                         "overlapping_shards",
                                                         "not_committed",
                                                         "commit_unknown",
                                                         "handler_failed",
                                                         "peer_failed",
                                                         "timed_out",
                                                         "cancelled",
                                                         "closed",
                                                         "device_failure",
                                                         "io_failure",
                                                         "superseded",
                                                         "still_running",
                                                         "peer_lost",
                                                         "feature_missing",
                                                         "ranks_differ"};
static_assert(kCodeNames.size() == static_cast<std::size_t>(Errc::ranks_differ) + 1);

class CairnCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "cairn"; }
  std::string message(int value) const override {
    std::string text(cairn::name(static_cast<Errc>(value)));
    std::replace(text.begin(), text.end(), '_', ' ');
    return text.empty() ? "unknown error" : text;
  }

  std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<Errc>(value)) {
      case Errc::invalid_argument:
        return std::errc::invalid_argument;
      case Errc::not_found:
        return std::errc::no_such_file_or_directory;
      case Errc::already_exists:
        return std::errc::file_exists;
      case Errc::timed_out:
        return std::errc::timed_out;
      case Errc::cancelled:
        return std::errc::operation_canceled;
      default:
        return {value, *this};
    }
  }
};

}  // namespace

std::string_view name(Errc code) noexcept {
  const auto number = static_cast<std::size_t>(code);  // Negative ones become too large.
  return number < kCodeNames.size() ? kCodeNames[number] : std::string_view();
}

const std::error_category& cairn_category() noexcept {
  // Never destroyed: what ends with the program still tells of failures.
  static const CairnCategory& category = *new CairnCategory;
  return category;
}

std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), cairn_category()};
}

Error::Error(std::error_code code, std::string detail) : Error(code, Escaped{printable(detail)}) {}

void throw_errno(int error, std::string_view operation, const std::filesystem::path& path,
                 std::optional<std::uint64_t> offset_bytes) {
  std::string detail = fmt::format("{} {}", operation, path.string());
  if (offset_bytes) {
    detail += fmt::format(" at {}", *offset_bytes);
  }
  if (const std::string limits = limits_behind(error); !limits.empty()) {
    detail += fmt::format(" ({})", limits);
  }
  throw Error(std::error_code(error, std::system_category()), detail);
}

std::exception_ptr with_context(const std::exception_ptr& failure, std::string_view context) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return std::make_exception_ptr(Error(error.code(), fmt::format("{}: {}", context, error.detail())));
  } catch (const std::system_error& error) {
    return std::make_exception_ptr(Error(error.code(), fmt::format("{}: {}", context, error.what())));
  } catch (...) {
    try {
      std::throw_with_nested(Error(Errc::handler_failed, fmt::format("{}: {}", context, describe(failure))));
    } catch (...) {
      return std::current_exception();
    }
  }
}

std::string describe(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

std::optional<std::error_code> code_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    return error.code();
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace cairn
