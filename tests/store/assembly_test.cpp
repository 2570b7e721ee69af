// SPDX-License-Identifier: Apache-2.0
#include "store/internal/assembly.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class AssemblyTest : public ::testing::Test {
 protected:
  AssemblyTest() { save_sample(own_.plane().engine, source_path(), text_); }

  [[nodiscard]] fs::path source_path() const { return directory_ / "source"; }
  [[nodiscard]] fs::path target() const { return directory_ / "target"; }
  [[nodiscard]] std::shared_ptr<const Source> source() const {
    return open_committed_source(io::posix_syscalls(), source_path());
  }
  [[nodiscard]] StagedDirectory stage() { return StagedDirectory::create(own_.plane().engine, target()); }

  testing::TempDir directory_;
  staging::OwnPlane own_{io::posix_syscalls(), 2};
  const std::string text_ = std::string(5'000'000, 'x') + "end";
};

TEST_F(AssemblyTest, LinksAFileOfAnotherCheckpoint) {
  StagedDirectory staged = stage();
  Assembly assembly(own_, staged);
  const auto from = source();

  assembly.link(from, from->manifest()->files.front());
  assembly.publish(sample_manifest());

  EXPECT_EQ(load_sample(target()), text_);
  EXPECT_EQ(fs::hard_link_count(target() / "state" / "data"), 2u);
}

TEST_F(AssemblyTest, LinksNoFileThatLiesInNoCheckpointablesDirectory) {
  StagedDirectory staged = stage();

  EXPECT_THAT([&] { static_cast<void>(staged.link_file("data", *source()->directory())); },
              Fails(Errc::malformed_metadata, HasSubstr("'data' lies in no checkpointable's directory")));
}

TEST_F(AssemblyTest, CopiesAFileOfAnotherCheckpoint) {
  StagedDirectory staged = stage();
  Assembly assembly(own_, staged);
  const auto from = source();

  assembly.copy(from, from->manifest()->files.front());
  assembly.publish(sample_manifest());

  EXPECT_EQ(load_sample(target()), text_);
  EXPECT_EQ(fs::hard_link_count(target() / "state" / "data"), 1u);
}

TEST_F(AssemblyTest, RefusesToCopyWhatIsDamaged) {
  std::string altered = text_;
  altered[4'500'000] = 'y';
  testing::write_text(source_path() / "state" / "data", altered);
  const auto from = source();
  {
    StagedDirectory staged = stage();
    Assembly assembly(own_, staged);

    EXPECT_THAT([&] { assembly.copy(from, from->manifest()->files.front()); },
                Fails(Errc::checksum_mismatch, AllOf(HasSubstr("state/data"), HasSubstr("chunk 4 "))));
  }
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(AssemblyTest, WritesFilesAtOnceOrPieceByPieceHoweverDeep) {
  StagedDirectory staged = stage();
  Assembly assembly(own_, staged);

  AssembledFile file = assembly.create("state/data", 6);
  file.append(bytes_of("abc"));
  file.append(bytes_of("def"));
  file.finish();
  assembly.write("state/deep/below/more", bytes_of("xyz"));
  assembly.publish(sample_manifest());

  EXPECT_EQ(load_sample(target()), "abcdef");
  EXPECT_EQ(testing::read_text(target() / "state/deep/below/more"), "xyz");
}

}  // namespace
}  // namespace cairn::store
