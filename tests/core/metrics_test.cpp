// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/metrics.hpp"

#include <system_error>

#include <cerrno>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cairn/core/context.hpp"

#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "observe/internal/exposition.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Blob;
using ::testing::Contains;
using testing::Fails;
using testing::kMebi;
using testing::make_blob;
using ::testing::Pair;

/// What a text in Prometheus' format says: sample with labels -> value, and family -> type.
struct Exposition {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
};

/// The family that a sample belongs to: histograms have three kinds of samples.
std::string family_of(const std::string& name, const std::map<std::string, std::string>& types) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(suffix)) {
      const std::string family = name.substr(0, name.size() - suffix.size());
      if (types.contains(family) && types.at(family) == "histogram") {
        return family;
      }
    }
  }
  return name;
}

/// Reads the text format, version 0.0.4; throws at the first line that breaks its rules.
Exposition parse(const std::string& text) {
  static const std::regex help(R"(# HELP ([a-zA-Z_:][\w:]*) [^\n]+)");
  static const std::regex type(R"(# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram))");
  static const std::regex sample(
      R"re(([a-zA-Z_:][\w:]*)(\{([a-zA-Z_]\w*="([^"\\\n]|\\\\|\\"|\\n)*",?)+\})? ([-+0-9.e]+|\+Inf|NaN))re");
  Exposition found;
  std::set<std::string> helped;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (std::regex_match(line, parts, help)) {
      if (!helped.insert(parts[1]).second) {
        throw std::runtime_error("a family comes twice: " + line);
      }
    } else if (std::regex_match(line, parts, type)) {
      current = parts[1];
      if (!helped.contains(current) || !found.types.emplace(current, parts[2]).second) {
        throw std::runtime_error("HELP does not come once before: " + line);
      }
    } else if (std::regex_match(line, parts, sample)) {
      if (family_of(parts[1], found.types) != current) {
        throw std::runtime_error("belongs to another family: " + line);
      }
      if (!found.samples.emplace(parts[1].str() + parts[2].str(), std::stod(parts[5])).second) {
        throw std::runtime_error("a sample comes twice: " + line);
      }
    } else {
      throw std::runtime_error("no line of the format: " + line);
    }
  }
  if (!text.ends_with('\n')) {
    throw std::runtime_error("the last line does not end");
  }
  return found;
}

class PrometheusText : public testing::Observed {
 protected:
  [[nodiscard]] Exposition exposition() const { return parse(prometheus_text(*context_)); }
};

TEST_F(PrometheusText, OfAFreshContextCountsNothing) {
  const Exposition found = exposition();

  EXPECT_EQ(found.samples.at("cairn_saves_started_total"), 0);
  EXPECT_EQ(found.samples.at("cairn_save_duration_seconds_count"), 0);
  EXPECT_EQ(found.samples.at("cairn_engine_info{engine=\"threads\"}"), 1);
  EXPECT_EQ(found.samples.at("cairn_staging_used_bytes"), 0);
  EXPECT_EQ(found.samples.at("cairn_staging_allocated_bytes"), 0);
}

TEST_F(PrometheusText, SaysWhatStagingMemoryWasTakenAndGivenBack) {
  static_cast<void>(save(make_blob(5 * kMebi)));

  const Exposition found = exposition();

  EXPECT_EQ(found.samples.at("cairn_staging_used_bytes"), 0);
  EXPECT_EQ(found.samples.at("cairn_staging_allocated_bytes"), static_cast<double>(context_->pool_bytes()));
  EXPECT_GE(context_->pool_bytes(), 4 * kMebi);
}

TEST_F(PrometheusText, CountsASave) {
  const SaveResult result = save(make_blob(5 * kMebi));

  const Exposition found = exposition();

  EXPECT_EQ(found.samples.at("cairn_saves_started_total"), 1);
  EXPECT_EQ(found.samples.at("cairn_saves_committed_total"), 1);
  EXPECT_EQ(found.samples.at("cairn_save_bytes_total"), 5 * kMebi);
  EXPECT_DOUBLE_EQ(found.samples.at("cairn_save_duration_seconds_sum"),
                   std::chrono::duration<double>(result.durable_time).count());
  EXPECT_EQ(found.samples.at("cairn_save_work_bytes_total{work=\"copy\"}"), 5 * kMebi);
  EXPECT_EQ(found.samples.at("cairn_save_work_count_total{work=\"write\"}"),
            static_cast<double>(result.work(Work::write).count));
  EXPECT_DOUBLE_EQ(found.samples.at("cairn_save_work_seconds_total{work=\"hash\"}"),
                   std::chrono::duration<double>(result.work(Work::hash).time).count());
  EXPECT_FALSE(found.samples.contains("cairn_save_work_count_total{work=\"read\"}")) << "there was none";
  EXPECT_DOUBLE_EQ(found.samples.at("cairn_save_step_duration_seconds_sum{step=\"stage\"}"),
                   std::chrono::duration<double>(result.time(Step::stage)).count());
}

TEST_F(PrometheusText, CountsALoad) {
  static_cast<void>(save(make_blob(5 * kMebi)));
  static_cast<void>(load());

  const Exposition found = exposition();

  EXPECT_EQ(found.samples.at("cairn_loads_started_total"), 1);
  EXPECT_EQ(found.samples.at("cairn_loads_loaded_total"), 1);
  EXPECT_EQ(found.samples.at("cairn_load_bytes_total"), 5 * kMebi);
}

TEST_F(PrometheusText, CountsFailedSavesByTheirCode) {
  const Blob blob = make_blob(1);
  static_cast<void>(save(blob));

  EXPECT_THAT(
      [&] {
        core::start_save(target(), {{"blob", blob}}, registry_, {}, *context_).wait();
      },
      Fails(Errc::already_exists));
  EXPECT_EQ(exposition().samples.at("cairn_saves_failed_total{code=\"already_exists\"}"), 1);
}

TEST_F(PrometheusText, CountsSavesThatAreRefusedAtOnce) {
  EXPECT_THAT([&] { core::start_save(target(), {}, registry_, {}, *context_).wait(); },
              Fails(Errc::invalid_argument));

  const Exposition found = exposition();
  EXPECT_EQ(found.samples.at("cairn_saves_started_total"), 1);
  EXPECT_EQ(found.samples.at("cairn_saves_failed_total{code=\"invalid_argument\"}"), 1);
}

TEST_F(PrometheusText, CountsFailedLoadsByTheirCode) {
  EXPECT_THAT([&] { static_cast<void>(load()); }, Fails(Errc::not_found));

  EXPECT_EQ(exposition().samples.at("cairn_loads_failed_total{code=\"not_found\"}"), 1);
}

TEST_F(PrometheusText, DoesNotCountQuestionsForMetadata) {
  static_cast<void>(save(make_blob(1)));
  static_cast<void>(core::read_metadata(target(), {}, registry_, {}, *context_));

  EXPECT_EQ(exposition().samples.at("cairn_loads_started_total"), 0);
}

TEST_F(PrometheusText, GivesEveryCounterAndTimeItsSuffix) {
  for (const auto& [family, type] : exposition().types) {
    if (type == "counter") {
      EXPECT_TRUE(family.ends_with("_total")) << family;
    } else if (type == "histogram") {
      EXPECT_TRUE(family.ends_with("_seconds")) << family;
    }
  }
}

TEST_F(PrometheusText, HasBucketsThatGrowUpToTheCount) {
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(save(make_blob(1)));
  }

  const Exposition found = exposition();

  double below = 0;
  for (const double bound : observe::Histogram::kBounds) {
    std::ostringstream label;
    label << "cairn_save_duration_seconds_bucket{le=\"" << bound << "\"}";
    EXPECT_GE(found.samples.at(label.str()), below);
    below = found.samples.at(label.str());
  }
  EXPECT_EQ(found.samples.at("cairn_save_duration_seconds_bucket{le=\"+Inf\"}"), 3);
  EXPECT_EQ(found.samples.at("cairn_save_duration_seconds_count"), 3);
}

/// What happened twice, as its report says it.
template <class Result>
Result eventful() {
  Result result;
  result.bytes = 3;
  result.transfers.retried = 5;
  result.transfers.shortened = 7;
  return result;
}

TEST(Metrics, AddUpWhatTheReportsOfSavesSay) {
  observe::Metrics metrics;
  SaveResult result = eventful<SaveResult>();
  result.durable_time = std::chrono::milliseconds(11);
  result.blocking_time = std::chrono::milliseconds(2);
  result.steps[static_cast<std::size_t>(Step::rename)] = std::chrono::milliseconds(1);

  metrics.end_save(result);
  metrics.end_save(result);

  const observe::OperationMetrics saves = metrics.saves();
  EXPECT_EQ(saves.done, 2u);
  EXPECT_EQ(saves.bytes, 6u);
  EXPECT_EQ(saves.retried, 10u);
  EXPECT_EQ(saves.shortened, 14u);
  EXPECT_EQ(saves.whole.sum(), std::chrono::milliseconds(22));
  EXPECT_EQ(saves.blocking.sum(), std::chrono::milliseconds(4));
  EXPECT_EQ(saves.steps.at(Step::rename).sum(), std::chrono::milliseconds(2));
  EXPECT_EQ(saves.steps.count(Step::fetch), 0u);  // A step of loads.
  EXPECT_EQ(metrics.loads().done, 0u);
}

TEST(Metrics, AddUpWhatTheReportsOfLoadsSay) {
  observe::Metrics metrics;
  LoadResult result = eventful<LoadResult>();
  result.load_time = std::chrono::milliseconds(11);
  result.steps[static_cast<std::size_t>(Step::fetch)] = std::chrono::milliseconds(1);

  metrics.begin_load();
  metrics.end_load(result);
  metrics.fail_load(std::make_exception_ptr(Error(Errc::not_found, "x")));
  metrics.fail_load(std::make_exception_ptr(std::runtime_error("without a code")));

  const observe::OperationMetrics loads = metrics.loads();
  EXPECT_EQ(loads.begun, 1u);
  EXPECT_EQ(loads.done, 1u);
  EXPECT_EQ(loads.retried, 5u);
  EXPECT_EQ(loads.shortened, 7u);
  EXPECT_EQ(loads.whole.sum(), std::chrono::milliseconds(11));
  EXPECT_EQ(loads.steps.at(Step::fetch).sum(), std::chrono::milliseconds(1));
  EXPECT_THAT(loads.failed, ::testing::UnorderedElementsAre(Pair("not_found", 1u), Pair("other", 1u)));
  EXPECT_EQ(metrics.saves().done, 0u);
}

TEST(Histogram, CountsABoundItselfAsWithin) {
  observe::Histogram histogram;

  histogram.observe(std::chrono::milliseconds(1));
  histogram.observe(std::chrono::hours(1));

  EXPECT_EQ(histogram.buckets().front(), 1u);
  EXPECT_EQ(histogram.buckets().back(), 1u);
}

TEST(MetricsLabel, EscapesWhatWouldEndIt) {
  EXPECT_EQ(observe::label_value("a\"b\\c\nd"), R"("a\"b\\c\nd")");
}

TEST(MetricsCode, HasTheNameThatProgramsKnow) {
  EXPECT_EQ(observe::code_name(Errc::checksum_mismatch), "checksum_mismatch");
  EXPECT_EQ(observe::code_name(Errc::io_failure), "io_failure");
  EXPECT_EQ(observe::code_name(std::error_code(ENOSPC, std::system_category())), "ENOSPC");
  EXPECT_EQ(observe::code_name(std::error_code(7, std::iostream_category())), "iostream:7");
}

}  // namespace
}  // namespace cairn
