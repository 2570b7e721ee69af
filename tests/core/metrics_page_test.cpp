// SPDX-License-Identifier: Apache-2.0
// docs/metrics.md names all that is reported, and nothing else.
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/core/context.hpp"

#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "support/document.hpp"

namespace cairn {
namespace {

using testing::Blob;
using testing::documented;
using testing::Fails;
using testing::make_blob;
using ::testing::UnorderedElementsAreArray;

constexpr std::string_view kPage = "metrics.md";

/// Name, type and labels of a family, as a row of the table has them.
using Family = std::vector<std::string>;

/// The families of a text in Prometheus' format; `le`, which belongs to the type, is none of their labels.
std::vector<Family> families_of(const std::string& text) {
  static const std::regex label(R"re([{,](\w+)=")re");
  std::vector<Family> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark, kind, name, type;
    if (words >> mark >> kind >> name >> type; mark == "#") {
      if (kind == "TYPE") {
        families.push_back({name, type, ""});
      }
      continue;
    }
    for (std::sregex_iterator found(line.begin(), line.end(), label), end; found != end; ++found) {
      if ((*found)[1] != "le") {
        families.back()[2] = (*found)[1];
      }
    }
  }
  return families;
}

/// The names of all members, those of objects within after a dot.
void add_names(const nlohmann::json& object, const std::string& prefix, std::set<std::string>& names) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      add_names(value, prefix + name + ".", names);
    } else {
      names.insert(prefix + name);
    }
  }
}

std::set<std::string> names_of(const std::string& json) {
  std::set<std::string> names;
  add_names(nlohmann::json::parse(json), "", names);
  return names;
}

/// A name of the table with each of `values` in the place of `mark`; the name alone where it does not have that.
template <class Values>
std::vector<std::string> expanded(const std::string& name, std::string_view mark, const Values& values) {
  const auto at = name.find(mark);
  if (at == std::string::npos) {
    return {name};
  }
  std::vector<std::string> names;
  for (const auto& value : values) {
    names.push_back(fmt::format("{}{}{}", name.substr(0, at), value, name.substr(at + mark.size())));
  }
  return names;
}

std::set<std::string> documented_results(const std::string& kind) {
  std::set<std::string> names;
  for (const std::vector<std::string>& row : documented(kPage, "Results")) {
    if (row.at(1) != kind && row.at(1) != "both") {
      continue;
    }
    for (const std::string& half : expanded(row.at(0), "<step>", documented(kPage, "Steps", 0))) {
      for (const std::string& name : expanded(half, "<work>", documented(kPage, "Kinds of work", 0))) {
        names.insert(name);
      }
    }
  }
  return names;
}

class MetricsPage : public testing::Observed {};

/// Says that a policy divided the blob.
class DividedBlob final : public testing::BlobHandler {
 public:
  // outlives: the caller keeps the blob during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    WorkFigures figures;
    figures.count = 2;
    figures.bytes = 30;
    context.add_policy("Cuts \"all\".", figures);
    context.add_policy("Cuts \"all\".", figures);
    return BlobHandler::save(std::move(context), blob);
  }
};

TEST_F(MetricsPage, NamesPoliciesInResultsAndMetrics) {
  HandlerRegistry registry;
  registry.add<DividedBlob>();
  SaveResult result;
  for (const char* name : {"first", "second"}) {
    result = core::start_save(directory_ / name, {{"blob", make_blob(1)}}, registry.snapshot(), {}, *context_)
                 .wait();
  }

  ASSERT_EQ(result.policies.size(), 1u);
  EXPECT_EQ(result.policies[0].description, "Cuts \"all\".");
  EXPECT_EQ(result.policies[0].work.count, 4u);
  EXPECT_EQ(result.work(Work::divide).count, 4u);
  EXPECT_THAT(to_text(result), ::testing::HasSubstr("divided by \"Cuts \"all\".\": 60 bytes in 4 files"));
  EXPECT_EQ(nlohmann::json::parse(to_json(result)).at("policies").at(0).at("bytes"), 60);
  EXPECT_THAT(prometheus_text(*context_),
              ::testing::HasSubstr("cairn_save_policy_files_total{policy=\"Cuts \\\"all\\\".\"} 8\n"));
}

TEST_F(MetricsPage, HasEveryFamilyWithTypeAndLabel) {
  HandlerRegistry registry;
  registry.add<DividedBlob>();
  core::start_save(directory_ / "divided", {{"blob", make_blob(1)}}, registry.snapshot(), {}, *context_)
      .wait();
  static_cast<void>(save(make_blob(1)));
  static_cast<void>(load());
  EXPECT_THAT([&] { core::start_save(target(), {}, registry_, {}, *context_).wait(); },
              Fails(Errc::invalid_argument));
  std::filesystem::remove_all(target());
  EXPECT_THAT([&] { static_cast<void>(load()); }, Fails(Errc::not_found));

  std::vector<Family> rows = documented(kPage, "Saves and loads");
  for (Family& row : rows) {
    row.resize(3);
  }
  EXPECT_THAT(families_of(prometheus_text(*context_)), UnorderedElementsAreArray(rows));
}

TEST(MetricsPageWords, AreTheStepsInTheirOrder) {
  std::vector<std::vector<std::string>> steps;
  for (std::size_t i = 0; i < kSteps; ++i) {
    const auto step = static_cast<Step>(i);
    steps.push_back({std::string(name(step)), step < Step::find ? "save" : "load"});
  }

  std::vector<std::vector<std::string>> rows = documented(kPage, "Steps");
  for (std::vector<std::string>& row : rows) {
    row.resize(2);
  }
  EXPECT_EQ(rows, steps);
}

TEST(MetricsPageWords, AreTheKindsOfWorkInTheirOrder) {
  std::vector<std::string> works;
  for (std::size_t i = 0; i < kWorks; ++i) {
    works.emplace_back(name(static_cast<Work>(i)));
  }

  EXPECT_EQ(documented(kPage, "Kinds of work", 0), works);
}

TEST(MetricsPageResults, AreTheMembersOfTheObjects) {
  EXPECT_EQ(names_of(to_json(SaveResult())), documented_results("save"));
  EXPECT_EQ(names_of(to_json(LoadResult())), documented_results("load"));
}

}  // namespace
}  // namespace cairn
