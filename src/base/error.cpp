// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/limits_behind.hpp"
#include "cairn/base/printable.hpp"

namespace cairn {
namespace {

/// What an error code is called: in metrics and docs, and in messages.
struct Words {
  Errc code;
  std::string_view name;
  const char* text;
};

constexpr std::array kWords = {
    Words{Errc::invalid_argument, "invalid_argument", "invalid argument"},
    Words{Errc::not_found, "not_found", "not found"},
    Words{Errc::already_exists, "already_exists", "already exists"},
    Words{Errc::no_handler, "no_handler", "no handler"},
    Words{Errc::ambiguous_handler, "ambiguous_handler", "ambiguous handler"},
    Words{Errc::unknown_handler_id, "unknown_handler_id", "unknown handler id"},
    Words{Errc::type_mismatch, "type_mismatch", "type mismatch"},
    Words{Errc::malformed_metadata, "malformed_metadata", "malformed metadata"},
    Words{Errc::unsupported_version, "unsupported_version", "unsupported version"},
    Words{Errc::checksum_mismatch, "checksum_mismatch", "checksum mismatch"},
    Words{Errc::shape_mismatch, "shape_mismatch", "shape mismatch"},
    Words{Errc::dtype_mismatch, "dtype_mismatch", "dtype mismatch"},
    Words{Errc::unsafe_cast, "unsafe_cast", "unsafe cast"},
    Words{Errc::structure_mismatch, "structure_mismatch", "structure mismatch"},
    Words{Errc::incomplete_shards, "incomplete_shards", "incomplete shards"},
    Words{Errc::overlapping_shards, "overlapping_shards", "overlapping shards"},
    Words{Errc::not_committed, "not_committed", "not committed"},
    Words{Errc::commit_unknown, "commit_unknown", "commit unknown"},
    Words{Errc::handler_failed, "handler_failed", "handler failed"},
    Words{Errc::peer_failed, "peer_failed", "peer failed"},
    Words{Errc::timed_out, "timed_out", "timed out"},
    Words{Errc::cancelled, "cancelled", "cancelled"},
    Words{Errc::closed, "closed", "closed"},
    Words{Errc::device_failure, "device_failure", "device failure"},
    Words{Errc::io_failure, "io_failure", "i/o failure"},
    Words{Errc::superseded, "superseded", "superseded"},
    Words{Errc::still_running, "still_running", "still running"},
};

const Words* find(Errc code) noexcept {
  const auto* const found =
      std::find_if(kWords.begin(), kWords.end(), [code](const Words& words) { return words.code == code; });
  return found == kWords.end() ? nullptr : found;
}

class CairnCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "cairn"; }
  std::string message(int value) const override {
    const Words* const words = find(static_cast<Errc>(value));
    return words != nullptr ? words->text : "unknown error";
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
  const Words* const words = find(code);
  return words != nullptr ? words->name : std::string_view();
}

const std::error_category& cairn_category() noexcept {
  static const CairnCategory category;
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
