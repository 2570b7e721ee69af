// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

/// Says what went wrong, for programs. `docs/errors.md` has a sentence and a remedy for each.
///
/// Errors of the operating system are not `Errc`: they keep `std::system_category` and their errno.
enum class Errc : int {
  invalid_argument = 1,  ///< The call itself is wrong; nothing was touched.
  not_found,             ///< A checkpoint, a checkpointable, a file or a key is not there.
  already_exists,        ///< The target exists, or a name was given twice.
  no_handler,            ///< No registered handler serves the value.
  ambiguous_handler,     ///< Two registrations claim the same id or name.
  unknown_handler_id,    ///< The checkpoint names a handler that is not registered.
  type_mismatch,         ///< The value is of another type than the handler or the caller says.
  malformed_metadata,    ///< A file's structure breaks the rules of its format.
  unsupported_version,   ///< The file is of a later format than this library reads.
  checksum_mismatch,     ///< Stored bytes are not the bytes that were written.
  shape_mismatch,        ///< Stored and wanted shapes differ.
  dtype_mismatch,        ///< Stored and wanted dtypes differ and no cast was asked for.
  unsafe_cast,           ///< The cast could lose values and narrowing was not allowed.
  structure_mismatch,    ///< A tree lacks keys that were wanted, or has keys that were not.
  incomplete_shards,     ///< The stored slices do not cover the array.
  overlapping_shards,    ///< Stored slices of one array overlap.
  not_committed,         ///< The directory is not a committed checkpoint.
  commit_unknown,        ///< The checkpoint may be there or not, whole in any case; see docs/reliability.md.
  handler_failed,  ///< A handler threw something that is not a `cairn::Error`, or a verdict, or forgot a file.
  peer_failed,     ///< Another rank failed, or has ended.
  timed_out,       ///< A deadline passed.
  cancelled,       ///< `cancel()` was called.
  closed,          ///< The object was closed before the operation ran.
  device_failure,   ///< An accelerator reported an error.
  io_failure,       ///< A storage operation broke its contract (a write of no bytes, say).
  superseded,       ///< A save yielded to a later one, as it was asked to.
  still_running,    ///< `wait(timeout)` came back before the operation: nothing has been promised.
  peer_lost,        ///< Another rank does not answer any more: it has died, is stopped, or cannot be reached.
  feature_missing,  ///< This library was built without what the call needs.
  ranks_differ,     ///< Ranks that save together have other values where all must have the same.
};

/// Returns what metrics and docs call a code: "not_found". Empty for a value that is not one.
[[nodiscard]] std::string_view name(Errc code) noexcept;

/// The category of `Errc`: name "cairn".
const std::error_category& cairn_category() noexcept;
std::error_code make_error_code(Errc code) noexcept;

/// Every failure that Cairn reports: a code for programs and a sentence for people.
///
/// `what()` is "<detail>: <meaning of the code>"; the detail names the culprit (file, array, handler), escaped (see
/// `printable`) so that no name can drive a terminal.
/// Threads: a value; copies share the text.
class Error : public std::system_error {
 public:
  Error(Errc code, std::string detail) : Error(make_error_code(code), std::move(detail)) {}
  Error(std::error_code code, std::string detail);

  /// The sentence without the meaning of the code.
  [[nodiscard]] const std::string& detail() const noexcept { return detail_; }

 private:
  struct Escaped {
    std::string text;
  };

  Error(std::error_code code, Escaped detail)
      : std::system_error(code, detail.text), detail_(std::move(detail.text)) {}

  std::string detail_;
};

/// Throws the errno value `error` as `Error` (`std::system_category`): "<operation> <path>[ at <offset>][ (<limits>)]".
[[noreturn]] void throw_errno(int error, std::string_view operation, const std::filesystem::path& path,
                              std::optional<std::uint64_t> offset_bytes = std::nullopt);

/// Puts `context` ("'params': load") before what a failure says, and keeps its code. A failure that is not a
/// `std::system_error` becomes one of Errc::handler_failed with the original nested in it.
std::exception_ptr with_context(const std::exception_ptr& failure, std::string_view context);

/// Returns what an exception says: `what()` of a `std::exception`, else "an exception of an unknown type".
std::string describe(const std::exception_ptr& failure);

/// Returns the code that an exception carries, or nothing when it is not a `std::system_error`.
std::optional<std::error_code> code_of(const std::exception_ptr& failure);

}  // namespace cairn

template <>
struct std::is_error_code_enum<cairn::Errc> : std::true_type {};
