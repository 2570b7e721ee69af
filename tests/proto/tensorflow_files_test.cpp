// SPDX-License-Identifier: Apache-2.0
// Files that TensorFlow's proto splitters have written.
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/records/record_options.hpp"

#include "graph.pb.h"
#include "proto/random_message.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Message;
using ::testing::HasSubstr;
using testing::serialised;

std::filesystem::path without_ending(const std::filesystem::path& path) {
  return path.parent_path() / path.stem();
}

/// Returns the message as the C++ splitter leaves it.
std::string with_a_library(const Message& message) {
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  if (auto* graph = dynamic_cast<tensorflow::GraphDef*>(copy.get())) {
    graph->mutable_library();
  }
  return serialised(*copy);
}

TEST(FilesOfTensorFlow, GiveWhatWasCut) {
  int files = 0;
  for (const auto& folder : std::filesystem::directory_iterator(testing::test_data() / "proto_splitter")) {
    if (!folder.is_directory()) {
      continue;
    }
    const bool is_model = folder.path().filename().native().starts_with("saved_model");
    const Message& prototype = is_model
                                   ? static_cast<const Message&>(tensorflow::SavedModel::default_instance())
                                   : tensorflow::GraphDef::default_instance();
    const std::unique_ptr<Message> input(prototype.New());
    ASSERT_TRUE(input->ParseFromString(testing::read_text(folder.path() / "input.pb"))) << folder;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      SCOPED_TRACE(file.path());
      const std::string name = file.path().filename().native();
      const std::unique_ptr<Message> merged(prototype.New());
      if (name.find("transpose") != std::string::npos) {
        EXPECT_THAT([&] { read(without_ending(file.path()), *merged); },
                    testing::Fails(Errc::feature_missing, HasSubstr("transposed")));
        continue;
      }
      const bool has_codec = (name != "python_snappy.cpb" || records::is_built_in(records::Codec::snappy)) &&
                             (name != "python_zstd_3.cpb" || records::is_built_in(records::Codec::zstd)) &&
                             records::is_built_in(records::Codec::brotli);
      if (!has_codec) {
        continue;
      }
      const Merged notices = read(without_ending(file.path()), *merged);
      ++files;
      EXPECT_TRUE(notices.unused_chunks.empty());
      const std::string bytes = serialised(*merged);
      EXPECT_TRUE(bytes == serialised(*input) || (name == "cpp.cpb" && bytes == with_a_library(*input)));
    }
  }
  EXPECT_GT(files, 20);
}

TEST(FilesOfTensorFlow, GiveAPart) {
  const std::filesystem::path prefix = testing::test_data() / "proto_splitter/large_constants/python";
  tensorflow::GraphDef graph;
  read(prefix, graph);
  tensorflow::TensorProto tensor;

  read_part(prefix, *tensorflow::GraphDef::descriptor(), parse_path("node[2].attr[\"value\"].tensor"),
            tensor);

  EXPECT_EQ(tensor.tensor_content().size(), 1200U);
  EXPECT_EQ(serialised(tensor), serialised(graph.node(2).attr().at("value").tensor()));
  EXPECT_EQ(read_metadata(prefix)->chunks_size(), 3);
}

}  // namespace
}  // namespace cairn::proto
