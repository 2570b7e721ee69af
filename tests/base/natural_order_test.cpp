// SPDX-License-Identifier: Apache-2.0
#include "base/internal/natural_order.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"

namespace cairn {
namespace {

TEST(NaturalOrder, ComparesDigitsAsNumbers) {
  EXPECT_TRUE(is_naturally_less("step_9", "step_10"));
  EXPECT_FALSE(is_naturally_less("step_10", "step_9"));
}

TEST(NaturalOrder, PutsAPrefixFirst) {
  EXPECT_TRUE(is_naturally_less("step", "step_1"));
}

TEST(NaturalOrder, TellsNumbersWithLeadingZerosApart) {
  EXPECT_TRUE(is_naturally_less("07", "7"));
}

TEST(NaturalOrder, TakesEachRunOfDigitsForANumberOfItsOwn) {
  EXPECT_TRUE(is_naturally_less("1.9", "1.10"));
  EXPECT_TRUE(is_naturally_less("0.2", "0.15"));
}

/// Expects each to come before all that follow it.
void expect_decimal_order(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = 0; j < names.size(); ++j) {
      EXPECT_EQ(is_decimally_less(names[i], names[j]), i < j) << names[i] << " and " << names[j];
    }
  }
}

TEST(DecimalOrder, ComparesFractions) {
  expect_decimal_order({"0.05", "0.1", "0.125", "0.15", "0.2", "0.9", "1", "1.10", "1.9", "10", "10.5"});
}

TEST(DecimalOrder, HasExponents) {
  expect_decimal_order(
      {"1e-05", "0.0001", "9.9E-4", "0.001", "1", "99999.5", "1e5", "1e+06", "1e999999999999999999999"});
}

TEST(DecimalOrder, HasASignWhereNothingStandsBeforeIt) {
  expect_decimal_order({"-20", "-10.5", "-10", "-1e-3", "0", "+0.5", "1"});
  expect_decimal_order({"t-5", "t-10"});
}

TEST(DecimalOrder, HasFractionsAloneAtTheStart) {
  expect_decimal_order({"-.5", ".25", ".5", "1"});
}

TEST(DecimalOrder, ComparesOneNumberAfterTheOther) {
  expect_decimal_order({"epoch=9-loss=0.52", "epoch=10-loss=0.25", "epoch=10-loss=0.3"});
}

TEST(DecimalOrder, TellsNamesOfOneNumberApart) {
  expect_decimal_order({"1", "1.0", "1.00"});
  expect_decimal_order({"07", "7"});
}

TEST(DecimalOrder, IsOfNamesWithoutTheirNumbers) {
  EXPECT_EQ(without_decimals("t_-0.25-b"), "t_-#-b");
  EXPECT_EQ(without_decimals("-0.25"), "#");
  EXPECT_EQ(without_decimals("1.2.3"), "#.#");
  EXPECT_EQ(without_decimals("1e5x2e"), "#x#e");
  EXPECT_EQ(without_decimals(""), "");
}

/// A number as a name has it, and what it is in each reading.
struct Written {
  std::string text;
  std::int64_t billionths = 0;      ///< As a decimal.
  std::vector<std::int64_t> apart;  ///< Each run of digits.
};

std::string padded(std::uint64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  text.insert(0, width > text.size() ? width - text.size() : 0, '0');
  return text;
}

/// The form that all numbers at one place of a family share, so that the texts between them are alike: each has a
/// fraction or none, an exponent or none.
struct Form {
  bool has_fraction = false;
  bool has_exponent = false;
  std::size_t width = 0;  ///< Behind the point; 0: as many digits as it has.
};

Written number_of(const Form& form, testing::Dice& dice) {
  Written number;
  const std::uint64_t whole = dice.below(dice.one_in(2) ? 10 : 300);
  number.text = padded(whole, dice.one_in(8) ? 3 : 0);
  number.apart.push_back(static_cast<std::int64_t>(whole));
  number.billionths = static_cast<std::int64_t>(whole) * 1'000'000'000;
  if (form.has_fraction) {
    const std::size_t digits = form.width > 0 ? form.width : 1 + dice.below(3);
    const std::uint64_t fraction = dice.below(digits == 1 ? 10 : digits == 2 ? 100 : 1000);
    number.text += "." + padded(fraction, digits);
    number.apart.push_back(static_cast<std::int64_t>(fraction));
    number.billionths += static_cast<std::int64_t>(fraction) * (digits == 1   ? 100'000'000
                                                                : digits == 2 ? 10'000'000
                                                                              : 1'000'000);
  }
  if (form.has_exponent) {
    const std::uint64_t exponent = dice.below(6);
    number.text += "e" + std::to_string(exponent);
    number.apart.push_back(static_cast<std::int64_t>(exponent));
    for (std::uint64_t i = 0; i < exponent; ++i) {
      number.billionths *= 10;
    }
  }
  return number;
}

struct RandomName {
  std::string text;
  std::vector<std::int64_t> decimal;
  std::vector<std::int64_t> apart;
};

/// Names that differ in their numbers alone, and by how those are written only where the numbers differ, too.
std::vector<RandomName> family_of(testing::Dice& dice) {
  const char* const prefixes[] = {"", "step-", "t_", "run.", "v"};
  const std::string prefix = prefixes[dice.below(5)];
  std::vector<Form> forms(1 + dice.below(3));
  for (Form& form : forms) {
    form.has_fraction = dice.one_in(2);
    form.width = dice.one_in(2) ? 1 + dice.below(3) : 0;
    form.has_exponent = dice.one_in(5);
  }
  const bool is_negative = prefix.empty() && dice.one_in(4);
  std::vector<RandomName> names;
  for (std::uint64_t count = 2 + dice.below(5); count > 0; --count) {
    RandomName name;
    name.text = (is_negative ? "-" : "") + prefix;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const Written number = number_of(forms[i], dice);
      name.text += (i > 0 ? "_" : "") + number.text;
      name.decimal.push_back(i == 0 && is_negative ? -number.billionths : number.billionths);
      name.apart.insert(name.apart.end(), number.apart.begin(), number.apart.end());
    }
    names.push_back(std::move(name));
  }
  return names;
}

/// CAIRN_NAME_FAMILIES: how many.
TEST(Names, AreInBothReadingsAsASlowModelSays) {
  const std::uint64_t families = testing::number_from("CAIRN_NAME_FAMILIES", 5'000);
  const std::uint64_t first = testing::first_number();
  std::uint64_t differing = 0;
  for (std::uint64_t i = 0; i < families; ++i) {
    testing::Dice dice(first, i);
    for (const std::vector<RandomName> names = family_of(dice); const RandomName& a : names) {
      for (const RandomName& b : names) {
        if (a.apart != b.apart) {
          ASSERT_EQ(is_naturally_less(a.text, b.text), a.apart < b.apart) << a.text << " and " << b.text;
        }
        if (a.decimal != b.decimal) {
          ASSERT_EQ(is_decimally_less(a.text, b.text), a.decimal < b.decimal) << a.text << " and " << b.text;
        }
        differing += a.decimal != b.decimal && (a.apart < b.apart) != (a.decimal < b.decimal) ? 1 : 0;
      }
      ASSERT_EQ(without_decimals(a.text), without_decimals(names.front().text)) << a.text;
    }
  }
  EXPECT_GT(differing, families / 10) << "else the families are too tame";
}

}  // namespace
}  // namespace cairn
