// SPDX-License-Identifier: Apache-2.0
#include "core/failures.hpp"

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"
#include "support/fails.hpp"

namespace cairn::core {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::exception_ptr failure_of(const std::string& text, Errc code = Errc::io_failure) {
  return std::make_exception_ptr(Error(code, text));
}

/// What `rethrow_of` makes of a failure.
std::exception_ptr rethrown(const std::exception_ptr& failure, Asked asked) {
  try {
    rethrow_of(failure, "'x'", asked);
  } catch (...) {
    return std::current_exception();
  }
}

constexpr Errc kVerdicts[] = {Errc::commit_unknown, Errc::timed_out, Errc::superseded, Errc::cancelled};

TEST(FailureOfAHandler, KeepsItsCode) {
  for (const Asked asked : {Asked::nothing, Asked::to_end, Asked::to_stop}) {
    const std::exception_ptr failure = rethrown(failure_of("a disk"), asked);
    EXPECT_THAT([&] { std::rethrow_exception(failure); }, Fails(Errc::io_failure, HasSubstr("'x': a disk")));
  }
}

TEST(FailureOfAHandler, IsNoVerdictOfItsOperation) {
  for (const Errc code : kVerdicts) {
    const std::exception_ptr inner = failure_of("of an inner save", code);
    const std::exception_ptr failure = rethrown(inner, Asked::nothing);

    EXPECT_THAT([&] { std::rethrow_exception(failure); },
                Fails(Errc::handler_failed,
                      AllOf(HasSubstr("'x': of an inner save"), HasSubstr(make_error_code(code).message()))));
    std::exception_ptr nested;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      nested = dynamic_cast<const std::nested_exception&>(error).nested_ptr();
    }
    EXPECT_EQ(code_of(nested), make_error_code(code));
  }
}

TEST(FailureOfAHandler, IsNoCancellationThatNobodyAskedFor) {
  const std::exception_ptr failure = rethrown(async::cancelled(), Asked::nothing);

  EXPECT_THAT([&] { std::rethrow_exception(failure); }, Fails(Errc::handler_failed, HasSubstr("'x'")));
}

TEST(FailureOfAHandler, IsACancellationWhereThatWasAskedFor) {
  EXPECT_TRUE(async::is_cancelled(rethrown(async::cancelled(), Asked::to_end)));
  EXPECT_EQ(code_of(rethrown(failure_of("inner", Errc::commit_unknown), Asked::to_end)),
            make_error_code(Errc::handler_failed));
  for (const Errc code : kVerdicts) {
    EXPECT_TRUE(async::is_cancelled(rethrown(failure_of("inner", code), Asked::to_stop)));
  }
}

TEST(FailureOfAHandler, NamesNobodyBeforeThatOfAnotherRank) {
  const std::exception_ptr failure = failure_of("rank 1: lost", Errc::peer_failed);

  EXPECT_EQ(rethrown(failure, Asked::nothing), failure);
}

TEST(CombinedFailure, IsTheOnlyOneAsItIs) {
  const std::exception_ptr only = failure_of("alone");

  EXPECT_EQ(combine({async::cancelled(), only}), only);
}

TEST(CombinedFailure, OfOneThatSeveralHaveHeardOfIsThat) {
  const std::exception_ptr told_to_all = failure_of("the ranks do not save the same");

  EXPECT_EQ(combine({told_to_all, async::cancelled(), told_to_all}), told_to_all);
}

TEST(CombinedFailure, IsTheFirstWithTheOthersInItsText) {
  const std::exception_ptr both =
      combine({failure_of("one", Errc::shape_mismatch), std::make_exception_ptr(std::runtime_error("two"))});

  EXPECT_THAT([&] { std::rethrow_exception(both); },
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("one; and two"), Not(HasSubstr("more")))));
}

TEST(CombinedFailure, OfManyTellsAFewAndCountsTheRest) {
  std::vector<std::exception_ptr> failures;
  for (int i = 0; i < 1500; ++i) {
    failures.push_back(failure_of("failure number " + std::to_string(i)));
  }

  const std::exception_ptr all = combine(failures);

  EXPECT_THAT([&] { std::rethrow_exception(all); },
              Fails(Errc::io_failure,
                    AllOf(HasSubstr("number 0;"), HasSubstr("number 4"), HasSubstr("; and 1495 more"),
                          Not(HasSubstr("number 5")), SizeIs(::testing::Lt(1000u)))));
}

TEST(CombinedFailure, CutsWhatOneOfManySaysAtLength) {
  std::string text(999, 'x');
  for (int i = 0; i < 100'000; ++i) {
    text += "ä";
  }
  const std::exception_ptr both = combine({failure_of("short"), failure_of(text)});

  // The cut does not fall within a character: 999 bytes are left, and three dots.
  EXPECT_THAT([&] { std::rethrow_exception(both); },
              Fails(Errc::io_failure, AllOf(HasSubstr("short; and " + std::string(999, 'x') + "..."),
                                            SizeIs(::testing::Lt(1200u)))));
}

TEST(CombinedFailure, OfCancellationsIsOne) {
  EXPECT_TRUE(async::is_cancelled(combine({async::cancelled(), async::cancelled()})));
  EXPECT_EQ(combine({}), nullptr);
}

TEST(ListedNames, AreAllOfAFew) {
  EXPECT_EQ(listed(std::vector<std::string>{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(listed({}), "");
}

TEST(ListedNames, AreTheFirstOfMany) {
  const std::vector<std::string> names(100'000, "name");

  EXPECT_THAT(listed(names), AllOf(HasSubstr("name, name and 99980 more"), SizeIs(::testing::Lt(200u))));
}

}  // namespace
}  // namespace cairn::core
