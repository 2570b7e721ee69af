// SPDX-License-Identifier: Apache-2.0
#include "digits/history.hpp"

#include <limits>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

namespace digits {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

std::string refusal(const std::string& lines) {
  try {
    History::parse_csv("step,loss,accuracy\n" + lines);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(History, ReadsBackWhatItWroteToTheBit) {
  History history;
  history.add({1, 0.1F, 1.0 / 3});
  history.add({std::numeric_limits<std::int64_t>::max(), std::numeric_limits<float>::denorm_min(), 1e-300});

  EXPECT_EQ(History::parse_csv(history.to_csv()), history.measurements());
}

TEST(History, MayBeEmpty) {
  EXPECT_THAT(History::parse_csv(History().to_csv()), IsEmpty());
}

TEST(HistoryParsing, RefusesAnotherHeader) {
  EXPECT_THAT([] { History::parse_csv("step,loss\n"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("history.csv:1: expected 'step,loss,accuracy'")));
}

TEST(HistoryParsing, RefusesALineThatIsCutOff) {
  EXPECT_THAT(refusal("1,2,3"), HasSubstr("'1,2,3' has no line end"));
}

TEST(HistoryParsing, RefusesTooFewNumbersAndNamesTheLine) {
  EXPECT_THAT(refusal("1,2,3\n1,2\n"), HasSubstr("history.csv:3: expected three numbers"));
}

TEST(HistoryParsing, RefusesTooManyNumbers) {
  EXPECT_THAT(refusal("1,2,3,4\n"), HasSubstr("expected three numbers"));
}

TEST(HistoryParsing, RefusesWhatIsNoNumber) {
  EXPECT_THAT(refusal("1,two,3\n"), HasSubstr("expected three numbers"));
}

}  // namespace
}  // namespace digits
