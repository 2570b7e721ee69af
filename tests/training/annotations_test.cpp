// SPDX-License-Identifier: Apache-2.0
#include "training/internal/annotations.hpp"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "support/fails.hpp"

namespace cairn::training {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Annotations, GiveMetricsBack) {
  const Metrics metrics = {{"loss", 0.1}, {"count", 3}, {"Genauigkeit in %", -1e300}, {"\"\\", 5e-324}};

  EXPECT_EQ(notes_of(annotate("{}", 100, metrics), "c").metrics, metrics);
  EXPECT_THAT(notes_of(annotate("{}", 100, {}), "c").metrics, IsEmpty());
}

TEST(Annotations, GiveTheStepBack) {
  EXPECT_EQ(notes_of(annotate("{}", std::numeric_limits<std::uint64_t>::max(), {}), "c").step,
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(notes_of("{}", "c").step, std::nullopt);
}

TEST(Annotations, HoldTheStepAndWhatOthersKeep) {
  const auto text = nlohmann::json::parse(annotate(R"({"mine": {"a": [1]}})", 7, {{"loss", 0.5}}));

  EXPECT_EQ(text, nlohmann::json::parse(
                      R"({"cairn.training": {"step": 7, "metrics": {"loss": 0.5}}, "mine": {"a": [1]}})"));
}

TEST(Annotations, KeepMetricsThatAreNoFiniteNumbersBesideTheOthers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Metrics metrics = {
      {"loss", std::numeric_limits<double>::quiet_NaN()}, {"low", -kInfinity}, {"ok", 1}, {"up", kInfinity}};
  const std::string text = annotate("{}", 1, metrics);

  EXPECT_EQ(nlohmann::json::parse(text),
            nlohmann::json::parse(R"({"cairn.training": {"step": 1, "metrics": {"ok": 1},
                           "not_finite": {"loss": "nan", "low": "-inf", "up": "inf"}}})"));
  Metrics read = notes_of(text, "c").metrics;
  EXPECT_TRUE(std::isnan(read.at("loss")));
  read.erase("loss");
  EXPECT_EQ(read, (Metrics{{"low", -kInfinity}, {"ok", 1}, {"up", kInfinity}}));
}

TEST(Annotations, RefuseNamesThatAreNoText) {
  for (const std::string& name : {std::string(), std::string("\xff"), std::string(201, 'x')}) {
    EXPECT_THAT(
        [&] {
          static_cast<void>(annotate("{}", 1, {{name, 1}}));
        },
        Fails(Errc::invalid_argument, HasSubstr("metric '")));
  }
}

TEST(Annotations, RefuseTenThousandMetrics) {
  Metrics metrics;
  for (int i = 0; i < 10'000; ++i) {
    metrics["m" + std::to_string(i)] = i;
  }

  EXPECT_THAT([&] { static_cast<void>(annotate("{}", 1, metrics)); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("10000 metrics"), HasSubstr("1000"))));
}

TEST(Annotations, RefuseToOverwriteTheirOwnMember) {
  EXPECT_THAT([] { static_cast<void>(annotate(R"({"cairn.training": 1})", 1, {})); },
              Fails(Errc::invalid_argument, HasSubstr("cairn.training")));
  EXPECT_THAT([] { static_cast<void>(annotate("[]", 1, {})); },
              Fails(Errc::invalid_argument, HasSubstr("not an object")));
}

TEST(Annotations, OfOtherProgramsHaveNoMetrics) {
  EXPECT_THAT(notes_of("{}", "c").metrics, IsEmpty());
  EXPECT_THAT(notes_of(R"({"other": {"metrics": {"loss": 1}}})", "c").metrics, IsEmpty());
  EXPECT_THAT(notes_of(R"({"cairn.training": {"later": [1, {}]}})", "c").metrics, IsEmpty());
}

TEST(Annotations, ThatAreNotWhatWeWriteAreRefusedByPath) {
  for (const char* text :
       {R"({"cairn.training": 3})", R"({"cairn.training": {"metrics": []}})",
        R"({"cairn.training": {"step": "x"}})", R"({"cairn.training": {"step": -1}})",
        R"({"cairn.training": {"metrics": {"loss": "low"}}})",
        R"({"cairn.training": {"metrics": {"loss": {}}}})",
        R"({"cairn.training": {"not_finite": {"loss": "low"}}})",
        R"({"cairn.training": {"not_finite": {"loss": 1}}})", R"({"cairn.training": {"not_finite": []}})",
        R"({"cairn.training": {"metrics": {"loss": 1, "loss": 2}}})", "[]", "", "{"}) {
    EXPECT_THAT([&] { static_cast<void>(notes_of(text, "run/7/checkpoint.json")); },
                Fails(Errc::malformed_metadata, HasSubstr("run/7/checkpoint.json")))
        << text;
  }
}

}  // namespace
}  // namespace cairn::training
