// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

#include <exception>

#include <fmt/format.h>

#include "cairn/base/printable.hpp"

namespace cairn {
namespace {

const char* meaning(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid argument";
    case Errc::not_found:
      return "not found";
    case Errc::already_exists:
      return "already exists";
    case Errc::no_handler:
      return "no handler";
    case Errc::ambiguous_handler:
      return "ambiguous handler";
    case Errc::unknown_handler_id:
      return "unknown handler id";
    case Errc::type_mismatch:
      return "type mismatch";
    case Errc::malformed_metadata:
      return "malformed metadata";
    case Errc::unsupported_version:
      return "unsupported version";
    case Errc::checksum_mismatch:
      return "checksum mismatch";
    case Errc::shape_mismatch:
      return "shape mismatch";
    case Errc::dtype_mismatch:
      return "dtype mismatch";
    case Errc::unsafe_cast:
      return "unsafe cast";
    case Errc::structure_mismatch:
      return "structure mismatch";
    case Errc::incomplete_shards:
      return "incomplete shards";
    case Errc::overlapping_shards:
      return "overlapping shards";
    case Errc::not_committed:
      return "not committed";
    case Errc::commit_unknown:
      return "commit unknown";
    case Errc::handler_failed:
      return "handler failed";
    case Errc::peer_failed:
      return "peer failed";
    case Errc::timed_out:
      return "timed out";
    case Errc::cancelled:
      return "cancelled";
    case Errc::closed:
      return "closed";
    case Errc::device_failure:
      return "device failure";
    case Errc::io_failure:
      return "i/o failure";
    case Errc::superseded:
      return "superseded";
    case Errc::still_running:
      return "still running";
  }
  return "unknown error";
}

class CairnCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "cairn"; }
  std::string message(int value) const override { return meaning(static_cast<Errc>(value)); }

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
