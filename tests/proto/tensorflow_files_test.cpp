// SPDX-License-Identifier: Apache-2.0
// Files that TensorFlow's proto splitters have written.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <graph_splitter.hpp>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/proto/merger.hpp"
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

std::unique_ptr<example::GraphSplitter> splitter_of(const Message& message, example::GraphCuts cuts) {
  if (const auto* graph = dynamic_cast<const tensorflow::GraphDef*>(&message)) {
    return std::make_unique<example::GraphSplitter>(*graph, cuts);
  }
  return std::make_unique<example::GraphSplitter>(dynamic_cast<const tensorflow::SavedModel&>(message), cuts);
}

/// Describes each chunk by its kind, size and path.
std::vector<std::string> listed(const chunked::ChunkMetadata& stored) {
  const ChunkPaths paths(stored);
  std::vector<std::string> chunks;
  for (int i = 0; i < stored.chunks_size(); ++i) {
    chunks.push_back(fmt::format("{} {} {}", chunked::ChunkInfo::Type_Name(stored.chunks(i).type()),
                                 stored.chunks(i).size(), paths.text(static_cast<std::size_t>(i)).value()));
  }
  return chunks;
}

/// The splitter in C++ leaves empty messages of two bytes where it has taken all out.
void drop_empty_messages(chunked::ChunkMetadata& theirs, const chunked::ChunkMetadata& ours) {
  for (int i = 0; i < std::min(theirs.chunks_size(), ours.chunks_size()); ++i) {
    if (theirs.chunks(i).size() == ours.chunks(i).size() + 2) {
      theirs.mutable_chunks(i)->set_size(ours.chunks(i).size());
    }
  }
}

TEST(GraphSplitter, CutsAsTensorFlowDoes) {
  const std::map<std::string, std::uint64_t> limits = {
      {"small", 2000},          {"large_constants", 600},
      {"large_nodes", 300},     {"many_nodes", 700},
      {"functions", 500},       {"all_at_once", 700},
      {"saved_model", 9000},    {"saved_model_small_limit", 2500},
      {"several_blocks", 70000}};
  const testing::TempDir temp;
  for (const auto& [name, limit] : limits) {
    const std::filesystem::path folder = testing::test_data() / "proto_splitter" / name;
    const Message& prototype = name.starts_with("saved_model")
                                   ? static_cast<const Message&>(tensorflow::SavedModel::default_instance())
                                   : tensorflow::GraphDef::default_instance();
    const std::unique_ptr<Message> input(prototype.New());
    ASSERT_TRUE(input->ParseFromString(testing::read_text(folder / "input.pb")));
    for (const char* const language : {"cpp", "python"}) {
      SCOPED_TRACE(name + " " + language);
      example::GraphCuts cuts;
      cuts.max_size = limit;
      cuts.as_in_python = language == std::string("python");
      const auto splitter = splitter_of(*input, cuts);

      const Written written = splitter->write(temp / name / language);

      ASSERT_EQ(std::filesystem::exists(folder / (std::string(language) + ".cpb")),
                written.path.extension() == ".cpb");
      const std::unique_ptr<Message> merged(prototype.New());
      read(temp / name / language, *merged);
      EXPECT_EQ(serialised(*merged), serialised(*input));
      if (written.path.extension() == ".cpb" && records::is_built_in(records::Codec::brotli)) {
        const auto ours = read_metadata(temp / name / language);
        const auto theirs = read_metadata(folder / language);
        if (!cuts.as_in_python) {
          drop_empty_messages(*theirs, *ours);
        }
        EXPECT_EQ(listed(*ours), listed(*theirs));
      }
    }
  }
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
