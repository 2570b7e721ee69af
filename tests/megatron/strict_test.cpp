// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/strict.hpp"

#include <string>

#include <gmock/gmock.h>

#include "megatron/strict_rules.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using detail::FoundMismatch;
using detail::judge;
using detail::StrictVerdict;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Strict kModes[] = {Strict::assume_ok_unexpected, Strict::log_unexpected, Strict::log_all,
                             Strict::raise_unexpected,     Strict::raise_all,      Strict::return_unexpected,
                             Strict::return_all,           Strict::ignore_all};

SomeRanks ranks(std::initializer_list<std::size_t> numbers_of_ranks) {
  SomeRanks some;
  for (const std::size_t rank : numbers_of_ranks) {
    some.add(rank);
  }
  return some;
}

FoundMismatch mismatch(bool has_unexpected, bool has_missing) {
  FoundMismatch found;
  if (has_unexpected) {
    found.unexpected = {{"x", ranks({0, 1, 2, 3})}, {"y", ranks({5})}};
  }
  if (has_missing) {
    found.missing = {"z"};
  }
  return found;
}

/// The verdict of rank 5, which has asked for 'y'.
StrictVerdict verdict(Strict strict, bool has_unexpected, bool has_missing) {
  return judge(strict, mismatch(has_unexpected, has_missing),
               has_unexpected ? std::set<std::string>{"y"} : std::set<std::string>(), "run/100");
}

TEST(Strict, HasMegatronsNames) {
  for (const Strict mode : kModes) {
    EXPECT_EQ(parse_strict(name(mode)), mode);
  }
  EXPECT_EQ(name(Strict::assume_ok_unexpected), "assume_ok_unexpected");
  EXPECT_EQ(name(Strict::ignore_all), "ignore_all");
  EXPECT_EQ(name(static_cast<Strict>(99)), "");
  EXPECT_THAT([] { return parse_strict("raise"); },
              Fails(Errc::invalid_argument,
                    HasSubstr("'raise' is not a way to be strict; there are: assume_ok_unexpected, "
                              "log_unexpected")));
}

TEST(StrictRules, AskOtherRanksWhereMegatronDoes) {
  for (const Strict mode : kModes) {
    EXPECT_EQ(detail::rules_of(mode).is_joint, mode != Strict::assume_ok_unexpected);
  }
  EXPECT_TRUE(detail::rules_of(Strict::log_all).looks_at_missing());
  EXPECT_TRUE(detail::rules_of(Strict::raise_all).looks_at_missing());
  EXPECT_TRUE(detail::rules_of(Strict::return_all).looks_at_missing());
  EXPECT_FALSE(detail::rules_of(Strict::return_unexpected).looks_at_missing());
  EXPECT_FALSE(detail::rules_of(Strict::ignore_all).looks_at_missing());
}

TEST(StrictJudge, LetsALoadThatFitsGoOnInEachMode) {
  for (const Strict mode : kModes) {
    const StrictVerdict result = verdict(mode, false, false);
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.problem, "");
    EXPECT_THAT(result.given_back.unexpected, IsEmpty());
    EXPECT_THAT(result.given_back.missing, IsEmpty());
  }
}

TEST(StrictJudge, DoesWithUnexpectedKeysWhatTheModeSays) {
  const std::string text = "Unexpected keys (not in run/100): 'x' (ranks 0, 1, 2 and 3), 'y' (rank 5)";
  for (const Strict mode : kModes) {
    const StrictVerdict result = verdict(mode, true, false);
    const bool raises =
        mode == Strict::assume_ok_unexpected || mode == Strict::raise_unexpected || mode == Strict::raise_all;
    const bool reports = mode == Strict::log_unexpected || mode == Strict::log_all;
    const bool returns = mode == Strict::return_unexpected || mode == Strict::return_all;
    EXPECT_EQ(result.error, raises ? text : "") << name(mode);
    EXPECT_EQ(result.problem, reports ? text : "") << name(mode);
    EXPECT_EQ(result.given_back.unexpected.contains("y"), returns) << name(mode);
    EXPECT_FALSE(result.given_back.unexpected.contains("x")) << "that of another rank";
    EXPECT_THAT(result.given_back.missing, IsEmpty());
  }
}

TEST(StrictJudge, DoesWithMissingKeysWhatTheModeSays) {
  const std::string text = "Missing keys (stored, asked for by no rank): 'z'";
  for (const Strict mode : kModes) {
    const StrictVerdict result = verdict(mode, false, true);
    EXPECT_EQ(result.error, mode == Strict::raise_all ? text : "") << name(mode);
    EXPECT_EQ(result.problem, mode == Strict::log_all ? text : "") << name(mode);
    EXPECT_EQ(result.given_back.missing.contains("z"), mode == Strict::return_all) << name(mode);
    EXPECT_THAT(result.given_back.unexpected, IsEmpty());
  }
}

TEST(StrictJudge, SaysBothInOneText) {
  const StrictVerdict result = verdict(Strict::raise_all, true, true);

  EXPECT_EQ(result.error,
            "Unexpected keys (not in run/100): 'x' (ranks 0, 1, 2 and 3), 'y' (rank 5). "
            "Missing keys (stored, asked for by no rank): 'z'");
  EXPECT_THAT(verdict(Strict::raise_unexpected, true, true).error, Not(HasSubstr("Missing keys")));
}

TEST(StrictJudge, NamesNoRankWhereOneLoadsAlone) {
  const StrictVerdict result = judge(Strict::log_all, {{{"x", {}}, {"y", {}}}, {}}, {"x", "y"}, "run/100");

  EXPECT_EQ(result.problem, "Unexpected keys (not in run/100): 'x', 'y'");
}

TEST(StrictJudge, NamesTwentyKeys) {
  FoundMismatch found;
  for (int i = 10; i < 40; ++i) {
    found.missing.insert("key" + std::to_string(i));
    found.unexpected.emplace("other" + std::to_string(i), ranks({0}));
  }

  const StrictVerdict result = judge(Strict::raise_all, found, {}, "c");

  EXPECT_THAT(result.error, HasSubstr("'other29' (rank 0) and 10 more. Missing keys"));
  EXPECT_THAT(result.error, HasSubstr("'key29' and 10 more"));
  EXPECT_THAT(result.error, Not(HasSubstr("'key30'")));
}

}  // namespace
}  // namespace cairn::megatron
