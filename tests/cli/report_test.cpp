// SPDX-License-Identifier: Apache-2.0
#include "cli/report.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What an answer prints into a file, in so many columns; 0: as many as it has.
std::string printed(const Report& report, bool is_json, std::size_t columns = 0) {
  const testing::TempDir directory;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen((directory / "out").c_str(), "w"),
                                                               &std::fclose);
    Output out(file.get());
    out.set_width(columns);
    report.answer(out, is_json);
    out.flush();
  }
  return testing::read_text(directory / "out");
}

Report example() {
  Report report;
  report.line("run");
  report.member("path", text_cell("run"));
  ReportTable table{
      {{"NAME", false, "name"}, {"SIZE", true, "bytes", 1}, {"PINNED", false, "is_pinned", 2}, {"METRICS"}},
      {"kept", "others"}};
  table.rows.push_back({"kept", {text_cell("a"), size_cell(2048), flag_cell(true, "pinned")}});
  table.rows.push_back({"kept", {text_cell("a-long-name-of-a-step"), size_cell(1), {}}});
  table.rows.push_back({"", {{"total"}, {"2.0 KiB"}}, "", true, true});
  report.table(table);
  report.line("end");
  return report;
}

TEST(Report, PrintsLinesAndTablesForPeople) {
  EXPECT_EQ(printed(example(), false),
            "run\n\n"
            "NAME                      SIZE  PINNED\n"
            "a                      2.0 KiB  pinned\n"
            "a-long-name-of-a-step      1 B  -\n"
            "total                  2.0 KiB  \n"
            "\nend\n");
}

TEST(Report, WritesMembersAndListsForPrograms) {
  EXPECT_EQ(nlohmann::json::parse(printed(example(), true)), nlohmann::json::parse(R"({
    "path": "run",
    "kept": [{"name": "a", "bytes": 2048, "is_pinned": true}, {"name": "a-long-name-of-a-step", "bytes": 1}],
    "others": []})"));
}

TEST(Report, LeavesOutExpendableColumnsWhereTheTerminalIsNarrow) {
  EXPECT_THAT(printed(example(), false, 31), Not(HasSubstr("PINNED")));
  EXPECT_THAT(printed(example(), false, 31), HasSubstr("SIZE"));
  EXPECT_THAT(printed(example(), false, 25), Not(HasSubstr("SIZE")));
}

TEST(Report, ShortensNamesWhereColumnsDoNotFit) {
  EXPECT_THAT(printed(example(), false, 12), HasSubstr("\na-long…-step\n"));
}

}  // namespace
}  // namespace cairn::cli
