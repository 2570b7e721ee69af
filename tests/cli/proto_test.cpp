// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/proto.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/wrappers.pb.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"

#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_cli;
using testing::TempDir;

/// A checkpoint whose checkpointable `settings` is a protobuf message.
class CliProto : public ::testing::Test {
 protected:
  CliProto() { save(path(), "fast"); }

  static void save(const std::filesystem::path& path, const std::string& value) {
    google::protobuf::StringValue settings;
    settings.set_value(value);
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.registry.add<ProtoHandler>();
    const Context context(options);
    save_checkpointables(path, {{"settings", settings}}, context);
  }

  [[nodiscard]] std::filesystem::path path() const { return directory_ / "7"; }

  TempDir directory_;
};

TEST_F(CliProto, InspectShowsTheHandlerAndTheTypeOfTheMessage) {
  const testing::CliResult result = run_cli({"inspect", path()});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("settings  cairn.proto/1"),
                                HasSubstr("protobuf message google.protobuf.StringValue\n")));
}

TEST_F(CliProto, InspectGivesTheHandlerAndTheTypeOfTheMessageAsJson) {
  const testing::CliResult result = run_cli({"inspect", path(), "--json"});

  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json item = nlohmann::json::parse(result.out)["checkpointables"]["settings"];
  EXPECT_EQ(item["handler"], "cairn.proto/1");
  EXPECT_EQ(item["message_type"], "google.protobuf.StringValue");
}

TEST_F(CliProto, DiffShowsTheLinesOfTheMessageThatDiffer) {
  save(directory_ / "8", "slow");

  const testing::CliResult result = run_cli({"diff", path(), directory_ / "8"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("settings, line 2  value: \"fast\" | value: \"slow\"\n"));
}

}  // namespace
}  // namespace cairn::cli
