// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "cairn/base/error.hpp"

/// What libFuzzer and the driver of this folder call with each input. Returns 0; a failure aborts.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cairn::fuzz {

/// Ends the program, after naming the claim, unless it holds. Both ways of running take that for a crash.
void require(bool holds, const char* claim) noexcept;

/// How often the readers of this program took an input, and how often they refused one.
struct Verdicts {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
};

Verdicts& verdicts() noexcept;

/// Returns whether `error` may be thrown where these codes are documented, and says something.
[[nodiscard]] bool is_refusal(const Error& error, std::initializer_list<Errc> codes) noexcept;

/// What `read` returns, or nothing when it refuses with one of `codes`. Any other exception ends the program.
template <class Read>
auto attempt(std::initializer_list<Errc> codes, Read&& read) -> std::optional<std::invoke_result_t<Read>> {
  try {
    std::optional<std::invoke_result_t<Read>> result(read());
    ++verdicts().accepted;
    return result;
  } catch (const Error& error) {
    require(is_refusal(error, codes), error.what());
    ++verdicts().refused;
    return std::nullopt;
  }
}

/// While it lives, an allocation that brings the memory in use more than `most_bytes` above what it was ends
/// the program: no input may make a reader take more than a small multiple of its own size.
class MemoryBound {
 public:
  explicit MemoryBound(std::size_t most_bytes) noexcept;
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
};

/// An input, taken apart by targets that do not read it as one file. What is taken beyond its end is zeros.
///
/// Ownership: a view of the bytes.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) noexcept
      : rest_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

  template <class T>
  [[nodiscard]] T take() noexcept {
    static_assert(std::is_integral_v<T>);
    T value{};
    const std::size_t bytes = rest_.size() < sizeof(T) ? rest_.size() : sizeof(T);
    if (bytes > 0) {
      std::memcpy(&value, rest_.data(), bytes);
      rest_.remove_prefix(bytes);
    }
    return value;
  }

  /// So many bytes, or those that are left.
  [[nodiscard]] std::string_view take_text(std::size_t bytes) noexcept {
    const std::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(text.size());
    return text;
  }

  /// The bytes before the next `end`, which is dropped; all of them when there is none.
  [[nodiscard]] std::string_view take_until(char end) noexcept {
    const std::string_view text = rest_.substr(0, rest_.find(end));
    rest_.remove_prefix(text.size() < rest_.size() ? text.size() + 1 : text.size());
    return text;
  }

 private:
  std::string_view rest_;
};

/// The bytes of a text.
[[nodiscard]] inline std::span<const std::byte> as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

}  // namespace cairn::fuzz
