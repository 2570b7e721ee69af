// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/first_bytes.hpp"

#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string told(std::string_view text) {
  return told_by_first_bytes(as_bytes(text));
}

constexpr std::string_view kPointer =
    "version https://git-lfs.github.com/spec/v1\noid "
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 4976698672\n";

TEST(FirstBytes, TellAPointerOfGitLfsAndWhatToDo) {
  EXPECT_THAT(told(kPointer), AllOf(HasSubstr("pointer of Git LFS"), HasSubstr("'git lfs pull'")));
}

TEST(FirstBytes, TellTheAnswerOfAServer) {
  for (const char* answer : {"<!DOCTYPE html><html>", "\n  <!doctype html>", "\xef\xbb\xbf<HTML lang=\"en\">",
                             "<?xml version=\"1.0\"?><Error>", "<Error><Code>AccessDenied",
                             "{\"error\":\"gated\"}", "Entry not found"}) {
    EXPECT_THAT(told(answer), HasSubstr("download the file again")) << answer;
  }
}

TEST(FirstBytes, TellFilesOfOtherPrograms) {
  EXPECT_THAT(told(std::string("PK\x03\x04\0\0", 6)), HasSubstr("torch.save"));
  EXPECT_THAT(told("\x80\x02}q"), HasSubstr("torch.save"));
  EXPECT_THAT(told("\x89HDF\r\n\x1a\n"), HasSubstr("HDF5"));
  EXPECT_THAT(told("GGUF\x03"), HasSubstr("GGUF, which is not read yet; export it as safetensors"));
  EXPECT_THAT(told(std::string("\x08\x07\x12\x07pytorch", 11)), HasSubstr("ONNX"));
  EXPECT_THAT(told("\x1f\x8b\x08"), HasSubstr("gzip"));
}

TEST(FirstBytes, TellATarArchive) {
  std::string tar(512, '\0');
  tar.replace(0, 7, "weights");
  tar.replace(257, 5, "ustar");

  EXPECT_THAT(told(tar), HasSubstr("tar archive: unpack it"));
}

TEST(FirstBytes, TellAnNpzFromAnArchiveOfTorch) {
  std::string zip(30, '\0');
  zip.replace(0, 4, std::string("PK\x03\x04", 4));
  zip[26] = 5;

  EXPECT_THAT(told(zip + "w.npy" + "elements"), HasSubstr(".npz of numpy, which is not read yet"));
  EXPECT_THAT(told(zip + "a/b.p" + "elements"), HasSubstr("torch.save"));
}

TEST(FirstBytes, TellThatItIsATextAndNotWhatItSays) {
  EXPECT_EQ(told("# Weights\nare elsewhere"), "a text lies in its place");
}

TEST(FirstBytes, TellNothingOfASafetensorsFile) {
  EXPECT_EQ(told(make_file(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)), "");
  EXPECT_EQ(told(make_file(std::string(0x280, ' '), 0)), "") << "its length begins as a pickle does";
  EXPECT_EQ(told(""), "");
  EXPECT_EQ(told(std::string(64, '\0')), "");
}

TEST(SafetensorsHeader, SaysWhatTheFileIsInsteadOfAHugeHeader) {
  EXPECT_THAT(
      [] {
        static_cast<void>(safetensors_prefix_size(as_bytes(kPointer), kPointer.size(), "m.safetensors"));
      },
      Fails(Errc::malformed_metadata, StartsWith("m.safetensors: a pointer of Git LFS")));
}

}  // namespace
}  // namespace cairn::formats
