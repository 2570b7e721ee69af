// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/training/save_policy.hpp"

#include "support/document.hpp"
#include "support/fails.hpp"
#include "training/fixture.hpp"
#include "training/internal/save_costs.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::Checkpointers;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::SizeIs;

double seconds_of(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

PeriodCosts costs_of(nanoseconds blocking, nanoseconds durable, nanoseconds mtbf) {
  PeriodCosts costs;
  costs.blocking = blocking;
  costs.durable = durable;
  costs.mtbf = mtbf;
  return costs;
}

TEST(Period, IsThatOfYoung) {
  EXPECT_DOUBLE_EQ(seconds_of(young_period(50s, 1h)), 600);
  EXPECT_EQ(young_period(0s, 1h), 0s);
}

/// A save of 5 minutes and a failure a day, by hand: sqrt(2 * 300 * 86400) * (1 + sqrt(300 / 172800) / 3 + 300 /
/// 172800 / 9) - 300.
TEST(Period, IsThatOfDaly) {
  EXPECT_NEAR(seconds_of(daly_period(5min, 24h)), 7001.4, 0.1);
  EXPECT_EQ(daly_period(2h, 1h), 1h);  // Saves cost more than they may save.
  EXPECT_EQ(daly_period(0s, 1h), 0s);
}

/// The time that a job takes whose failures come by chance, with Daly's own model: e^(R/M) M (e^((T+C)/M) - 1) / T
/// for each second of work.
TEST(Period, IsNearTheBestByDalysModel) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double m = std::exp(std::uniform_real_distribution(std::log(600.0), std::log(1e6))(random));
    const double c = m * std::exp(std::uniform_real_distribution(std::log(1e-6), std::log(0.1))(random));
    const auto cost_of = [&](double t) { return m * std::expm1((t + c) / m) / t; };
    double best = cost_of(std::sqrt(2 * c * m));
    for (double t = c; t < m * 2; t *= 1.01) {
      best = std::min(best, cost_of(t));
    }
    const nanoseconds period = daly_period(nanoseconds(static_cast<std::int64_t>(c * 1e9)),
                                           nanoseconds(static_cast<std::int64_t>(m * 1e9)));
    EXPECT_LT(cost_of(seconds_of(period)), best * 1.002) << "C " << c << ", M " << m;
  }
}

TEST(Period, IsNeverShorterThanADurableSave) {
  EXPECT_EQ(best_period(costs_of(1ms, 90s, 1h)), 90s);
  EXPECT_EQ(best_period(costs_of(1s, 10s, 24h)), daly_period(1s, 24h));
}

TEST(Period, LosesTimeToSavesToWhatIsDoneAgainAndToRestarts) {
  PeriodCosts costs = costs_of(1s, 10s, 1000s);
  costs.restart = 5s;
  EXPECT_DOUBLE_EQ(expected_loss(100s, costs), 0.01 + 0.06 + 0.005);
  EXPECT_EQ(expected_loss(0s, costs), 1);
  EXPECT_EQ(expected_loss(1h, costs), 1);
}

TEST(Period, RefusesTimesThatMakeNoSense) {
  EXPECT_THAT([] { static_cast<void>(daly_period(1s, 0s)); },
              Fails(Errc::invalid_argument, HasSubstr("0 s between")));
  EXPECT_THAT([] { static_cast<void>(young_period(-1s, 1s)); },
              Fails(Errc::invalid_argument, HasSubstr("-1 s")));
  EXPECT_THAT([] { static_cast<void>(save_when::automatic({})); },
              Fails(Errc::invalid_argument, HasSubstr("automatic")));
}

TEST(SaveCosts, CountTheLastSavesMost) {
  testing::ManualClock clock;
  training::SaveCosts costs(clock);
  for (const nanoseconds blocking : {6s, 0s, 3s}) {
    costs.add_blocking(blocking);
    costs.add_durable(10 * blocking);
  }
  clock.advance(90s);

  const PeriodReport report = costs.report(1h, 60s);

  EXPECT_NEAR(seconds_of(report.costs.blocking), 11. / 3, 1e-6);
  EXPECT_NEAR(seconds_of(report.costs.durable), 110. / 3, 1e-6);
  EXPECT_EQ(report.period, best_period(report.costs));
  EXPECT_DOUBLE_EQ(report.goodput, 0.9);
}

TEST_F(Checkpointers, SaveAsOftenAsItLosesLeast) {
  const auto run = make(when(save_when::automatic(1h)));
  EXPECT_TRUE(save(*run, 1));
  run->wait();  // The clock stands still: a save costs nothing.
  EXPECT_TRUE(save(*run, 2));
  run->wait();

  SaveMoment moment;
  moment.costs = costs_of(2s, 10s, 0s);
  moment.since_last_save = daly_period(2s, 1h) - 1ns;
  EXPECT_FALSE(save_when::automatic(1h)(moment));
  moment.since_last_save = daly_period(2s, 1h);
  EXPECT_TRUE(save_when::automatic(1h)(moment));
  moment.is_saving = true;
  EXPECT_FALSE(save_when::automatic(1h)(moment));
}

TEST_F(Checkpointers, ReportTheirPeriod) {
  const auto run = make();
  save(*run, 1).wait();
  clock_->advance(10s);

  const PeriodReport report = run->period(1h, 60s);

  EXPECT_EQ(report.costs.blocking, 0s);
  EXPECT_EQ(report.goodput, 1);
  const nlohmann::json json = nlohmann::json::parse(report.json());
  EXPECT_THAT(json, SizeIs(8));
  EXPECT_EQ(json.at("mtbf_from"), "caller");
  EXPECT_EQ(make(when(save_when::automatic(7h)))->period().costs.mtbf, 7h);
  EXPECT_EQ(json.at("mtbf_seconds"), 3600);
  EXPECT_EQ(json.at("restart_seconds"), 60);
  EXPECT_THAT(report.prometheus_text(),
              HasSubstr("# TYPE cairn_training_mtbf_seconds gauge\ncairn_training_mtbf_seconds 3600\n"));
}

TEST(PeriodReport, HasTheFiguresOfTheMetricsPage) {
  const std::string text = PeriodReport().prometheus_text();

  const nlohmann::json json = nlohmann::json::parse(PeriodReport().json());
  const auto rows = testing::documented("metrics.md", "Training");
  EXPECT_THAT(json, SizeIs(rows.size() + 1)) << "mtbf_from is no figure";
  for (const std::vector<std::string>& row : rows) {
    EXPECT_THAT(text, HasSubstr("# TYPE " + row.at(0) + ' ' + row.at(1) + '\n'));
    EXPECT_TRUE(json.contains(row.at(0).substr(std::string_view("cairn_training_").size()))) << row.at(0);
  }
}

}  // namespace
}  // namespace cairn
