// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <concepts>
#include <exception>
#include <string>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

namespace cairn::testing {

/// Matches a callable that throws a `std::system_error` with `code` whose text matches `text`.
///
/// Example: EXPECT_THAT([&] { parse(bytes); }, Fails(Errc::malformed_metadata, HasSubstr("'w'")));
template <class Text>
class FailsMatcher {
 public:
  using is_gtest_matcher = void;

  FailsMatcher(std::error_code code, Text text) : code_(code), text_(std::move(text)) {}

  template <std::invocable F>
  bool MatchAndExplain(F&& call, ::testing::MatchResultListener* listener) const {
    try {
      call();
    } catch (const std::system_error& error) {
      *listener << "threw [" << error.code().category().name() << " " << error.code().value() << "] \""
                << error.what() << "\"";
      return error.code() == code_ &&
             ::testing::SafeMatcherCast<const std::string&>(text_).Matches(error.what());
    } catch (const std::exception& error) {
      *listener << "threw another exception: " << error.what();
      return false;
    }
    *listener << "did not throw";
    return false;
  }

  void DescribeTo(std::ostream* out) const {
    *out << "throws [" << code_.category().name() << " " << code_.message() << "] with text that ";
    ::testing::SafeMatcherCast<const std::string&>(text_).DescribeTo(out);
  }

  void DescribeNegationTo(std::ostream* out) const {
    *out << "not: ";
    DescribeTo(out);
  }

 private:
  std::error_code code_;
  Text text_;
};

template <class Text>
FailsMatcher<Text> Fails(Errc code, Text text) {
  return {make_error_code(code), std::move(text)};
}

inline auto Fails(Errc code) {
  return Fails(code, ::testing::A<const std::string&>());
}

template <class Text>
FailsMatcher<Text> FailsWithErrno(int error, Text text) {
  return {std::error_code(error, std::system_category()), std::move(text)};
}

}  // namespace cairn::testing
