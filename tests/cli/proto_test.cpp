// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/proto.hpp"

#include <cmath>
#include <cstddef>
#include <string>

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
    save_message(path, settings);
  }

  template <class Message>
  static void save_message(const std::filesystem::path& path, const Message& settings) {
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
  EXPECT_EQ(item["kind"], "protobuf message google.protobuf.StringValue");
}

TEST_F(CliProto, DiffShowsTheLinesOfTheMessageThatDiffer) {
  save(directory_ / "8", "slow");

  const testing::CliResult result = run_cli({"diff", path(), directory_ / "8"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("settings, line 2  value: \"fast\" | value: \"slow\"\n"));
}

TEST_F(CliProto, DiffFindsWhatTheTextFormDoesNotShow) {
  google::protobuf::DoubleValue value;
  value.set_value(std::nan("1"));
  save_message(directory_ / "8", value);
  value.set_value(std::nan("2"));  // The text form says "nan" of both.
  save_message(directory_ / "9", value);

  const testing::CliResult result = run_cli({"diff", directory_ / "8", directory_ / "9"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("file    settings/message.binpb  9 B | 9 B\n"));
}

TEST_F(CliProto, DiffComparesMessagesThatAreTooLongForATextForm) {
  const std::size_t size = std::size_t{2} << 20;
  save(directory_ / "8", std::string(size, 'x'));
  save(directory_ / "9", std::string(size - 1, 'x') + "y");

  const testing::CliResult result = run_cli({"diff", directory_ / "8", directory_ / "9"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("settings/message.binpb"));
}

TEST_F(CliProto, DiffTellsTypesApartThatHaveTheSameBytes) {
  google::protobuf::BytesValue other;
  other.set_value("fast");
  save_message(directory_ / "8", other);

  const testing::CliResult result = run_cli({"diff", path(), directory_ / "8", "--metadata"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "protobuf message google.protobuf.StringValue | protobuf message google.protobuf.BytesValue\n"));
}

}  // namespace
}  // namespace cairn::cli
