// SPDX-License-Identifier: Apache-2.0
// Has TensorFlow's merger read each <case>.cpb or .pb of a folder, and compares with <case>.expected. It is compiled
// with the headers and the library of TensorFlow's package for Python, and with nothing of Cairn.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <tensorflow/core/framework/graph.pb.h>
#include <tensorflow/core/protobuf/saved_model.pb.h>
#include <tensorflow/tools/proto_splitter/merge.h>

namespace {

std::string serialised(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

template <class M>
bool is_same(const std::string& prefix, const std::string& expected_bytes) {
  M expected;
  M merged;
  const auto status = tensorflow::tools::proto_splitter::Merger::Read(prefix, &merged);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", prefix.c_str(), std::string(status.message()).c_str());
  }
  return status.ok() && expected.ParseFromString(expected_bytes) &&
         serialised(merged) == serialised(expected);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  int same = 0;
  int different = 0;
  for (const auto& file : std::filesystem::directory_iterator(argv[1])) {
    if (file.path().extension() != ".expected") {
      continue;
    }
    const std::string prefix = (file.path().parent_path() / file.path().stem()).string();
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    const bool is_model = file.path().filename().string().rfind("saved_model", 0) == 0;
    if (is_model ? is_same<tensorflow::SavedModel>(prefix, bytes)
                 : is_same<tensorflow::GraphDef>(prefix, bytes)) {
      ++same;
    } else {
      ++different;
      std::fprintf(stderr, "%s: TensorFlow gives another message\n", prefix.c_str());
    }
  }
  std::printf("tensorflow: its merger read %d files as they are, %d otherwise\n", same, different);
  return same > 0 && different == 0 ? 0 : 1;
}
