// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are put together part by part where the file system has no hard links: their files are copied.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/api/maintain.hpp"

#include "support/fails.hpp"
#include "training/parts_fixture.hpp"

namespace cairn {
namespace {

using ::testing::Contains;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;

/// As gcsfuse has it: neither hard links nor a rename that refuses to replace.
class FilesWithoutLinks final : public testing::ForwardingSyscalls {
 public:
  int link_at(int, const char*, int, const char*) noexcept override { return -EOPNOTSUPP; }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    return mode == io::RenameMode::replace
               ? ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode)
               : -EINVAL;
  }
};

class PartsWithoutLinks : public testing::PartialSaves {
 protected:
  PartsWithoutLinks() {
    ContextOptions options = small();
    options.syscalls = std::make_shared<FilesWithoutLinks>();
    context_.emplace(std::move(options));
  }
};

TEST_F(PartsWithoutLinks, AreCopied) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  save.add({{"state", layer(1)}});

  save.finalize();

  expect_layers(2);
  EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  EXPECT_THAT(left(), Not(Contains(HasSubstr("partial"))));
}

TEST_F(PartsWithoutLinks, AreNotCopiedWhenTheirBytesHaveChanged) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(parts())) {
    if (entry.path().extension() == ".safetensors") {
      std::string text = testing::read_text(entry.path());
      text.back() = static_cast<char>(text.back() ^ 1);
      testing::write_text(entry.path(), text);
    }
  }

  EXPECT_THAT([&] { save.finalize(); }, Fails(Errc::checksum_mismatch, HasSubstr(".safetensors")));
  EXPECT_FALSE(std::filesystem::exists(target()));
}

}  // namespace
}  // namespace cairn
