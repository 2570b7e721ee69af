// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "digits/classifier.hpp"
#include "support/temp_dir.hpp"

namespace digits {
namespace {

using cairn::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Dataset& dataset() {
  static const Dataset dataset = split(read_images(DIGITS_CSV), 1);
  return dataset;
}

TrainingState trained(int steps, const Settings& settings = {}) {
  TrainingState state = initial_state(settings, dataset().train.size());
  for (int step = 0; step < steps; ++step) {
    train_step(state, dataset().train, settings);
  }
  return state;
}

std::string header() {
  const std::string text = cairn::testing::read_text(DIGITS_CSV);
  return text.substr(0, text.find('\n') + 1);
}

std::string row_of_zeros(std::size_t commas) {
  std::string row = "0";
  for (std::size_t comma = 0; comma < commas; ++comma) {
    row += ",0";
  }
  return row;
}

void expect_refused(const std::string& text, const std::string& why) {
  TempDir folder;
  cairn::testing::write_text(folder / "digits.csv", text);
  EXPECT_THAT([&] { read_images(folder / "digits.csv"); }, ThrowsMessage<std::runtime_error>(HasSubstr(why)));
}

TEST(ReadImages, FindsEveryImageOfTheFile) {
  const Images images = read_images(DIGITS_CSV);
  std::array<int, kClasses> counts{};
  for (const std::uint8_t label : images.labels) {
    ++counts[label];
  }

  EXPECT_EQ(std::accumulate(images.pixels.begin(), images.pixels.end(), 0.0) * 16, 561718);
  EXPECT_THAT(counts, ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
}

TEST(ReadImages, NamesAFileThatIsMissing) {
  EXPECT_THAT([] { read_images("no/digits.csv"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no/digits.csv")));
}

TEST(ReadImages, RefusesAnotherHeader) {
  expect_refused("p00,label\n", "digits.csv:1: expected the header");
}

TEST(ReadImages, RefusesAFileWithoutImages) {
  expect_refused(header(), "no images");
}

TEST(ReadImages, RefusesAShortRow) {
  expect_refused(header() + row_of_zeros(64) + '\n' + row_of_zeros(63) + '\n',
                 "digits.csv:3: expected 65 numbers");
}

TEST(ReadImages, RefusesALongRow) {
  expect_refused(header() + row_of_zeros(65) + '\n', "digits.csv:2: expected 65 numbers");
}

TEST(ReadImages, RefusesAGreyValueAboveSixteen) {
  expect_refused(header() + "17" + row_of_zeros(64).substr(1) + '\n', "a number from 0 to 16");
}

TEST(ReadImages, RefusesALabelAboveNine) {
  expect_refused(header() + row_of_zeros(63) + ",10\n", "a number from 0 to 9");
}

TEST(ReadImages, RefusesWhatIsNoNumber) {
  expect_refused(header() + "x" + row_of_zeros(64).substr(1) + '\n', "a number from 0 to 16 at 'x,0");
}

TEST(ReadImages, RefusesAFileThatIsCutOff) {
  expect_refused(header() + row_of_zeros(64) + '\n' + row_of_zeros(64), "digits.csv:3: the last line");
}

TEST(Split, PutsAFifthAsideAndLosesNothing) {
  const Images images = read_images(DIGITS_CSV);
  const Dataset parts = split(images, 1);

  EXPECT_EQ(parts.test.size(), images.size() / 5);
  EXPECT_EQ(parts.train.size() + parts.test.size(), images.size());
}

TEST(Split, IsTheSameForTheSameSeedOnly) {
  const Images images = read_images(DIGITS_CSV);

  EXPECT_EQ(split(images, 1).test.pixels, split(images, 1).test.pixels);
  EXPECT_NE(split(images, 1).test.pixels, split(images, 2).test.pixels);
}

TEST(Shuffled, HoldsEveryNumberOnce) {
  RandomState random = seeded(3);
  std::vector<std::uint32_t> order = shuffled(100, random);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));

  std::sort(order.begin(), order.end());

  EXPECT_TRUE(std::adjacent_find(order.begin(), order.end()) == order.end() && order.back() == 99);
}

TEST(TrainStep, GivesTheSameStateForTheSameSeed) {
  EXPECT_EQ(trained(100), trained(100));
}

TEST(TrainStep, GivesAnotherStateForAnotherSeed) {
  Settings settings;
  settings.seed = 8;

  EXPECT_NE(trained(1).weights, trained(1, settings).weights);
}

TEST(TrainStep, ContinuesACopyOfTheStateAsIfNothingHadHappened) {
  const Settings settings;
  TrainingState copy = trained(40);  // Less than an epoch, so that a shuffle follows.
  for (int step = 40; step < 100; ++step) {
    train_step(copy, dataset().train, settings);
  }

  EXPECT_EQ(copy, trained(100));
}

TEST(TrainStep, RefusesAStateOfOtherImages) {
  TrainingState state = initial_state({}, 100);

  EXPECT_THAT([&] { train_step(state, dataset().train, {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("trained on 100 images")));
}

TEST(TrainStep, RefusesAStateOfAnotherNetwork) {
  TrainingState state = initial_state({}, dataset().train.size());
  state.second_moment.b1.pop_back();

  EXPECT_THAT([&] { train_step(state, dataset().train, {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("another network")));
}

TEST(Accuracy, ReachesNinetyFivePercentInTwoThousandSteps) {
  EXPECT_GE(accuracy(trained(2000), dataset().test), 0.95);
}

}  // namespace
}  // namespace digits
