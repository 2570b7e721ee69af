// SPDX-License-Identifier: Apache-2.0
#include "store/internal/program_claim.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "io/internal/syscalls.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::FailsWithErrno;
using ::testing::HasSubstr;

ClaimRecord some_record() {
  ClaimRecord record;
  record.rank = 3;
  record.pid = 4711;
  record.start_time = 123'456'789'012;
  record.program.bytes.fill(std::byte{0xab});
  record.left_step = (std::uint64_t{1} << 24) + 1;
  record.has_ended = true;
  return record;
}

TEST(ClaimRecords, AreReadAsTheyWereWritten) {
  EXPECT_EQ(encode_claim(some_record()).size(), 128u);
  EXPECT_EQ(parse_claim(encode_claim(some_record())), some_record());
  EXPECT_EQ(parse_claim(encode_claim(ClaimRecord())), ClaimRecord());
}

TEST(ClaimRecords, AreRefusedWhereAByteDiffers) {
  for (std::size_t at = 0; at < 128; ++at) {
    std::string bytes = encode_claim(some_record());
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_EQ(parse_claim(bytes), std::nullopt) << at;
  }
  EXPECT_EQ(parse_claim(encode_claim(some_record()).substr(0, 127)), std::nullopt);
  EXPECT_EQ(parse_claim(encode_claim(some_record()) + " "), std::nullopt);
  EXPECT_EQ(parse_claim(""), std::nullopt);
}

/// A process that has a claim until it is killed. It is forked from the test, so it calls nothing but the system.
class OtherProgram {
 public:
  explicit OtherProgram(const std::filesystem::path& root) {
    ClaimRecord record;
    record.pid = 1234;
    const std::string bytes = encode_claim(record);
    const std::string path = root / ".cairn-program";
    int ready[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    id_ = ::fork();
    if (id_ == 0) {
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      lock.l_whence = SEEK_SET;
      const bool is_locked = ::fcntl(fd, F_SETLK, &lock) == 0;
      const bool is_written = ::pwrite(fd, bytes.data(), bytes.size(), 0) == 128;
      if (is_locked && is_written && ::write(ready[1], "x", 1) == 1) {
        ::pause();
      }
      ::_exit(1);
    }
    ::close(ready[1]);
    char word = 0;
    EXPECT_EQ(::read(ready[0], &word, 1), 1) << "it has not got the claim";
    ::close(ready[0]);
  }
  ~OtherProgram() { kill(); }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;

  void kill() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
      id_ = 0;
    }
  }

 private:
  pid_t id_ = 0;
};

class ProgramClaims : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<ProgramClaim> claim() const {
    return std::make_unique<ProgramClaim>(root_, 2, system_random);
  }

  [[nodiscard]] std::optional<ClaimRecord> on_disk() const {
    return parse_claim(testing::read_text(temp_ / ".cairn-program"));
  }

  testing::TempDir temp_;
  io::Directory root_ = io::Directory::open(io::posix_syscalls(), temp_.path());
};

TEST_F(ProgramClaims, SayWhoHasThemAndHowItHasEnded) {
  const std::unique_ptr<ProgramClaim> held = claim();
  EXPECT_EQ(held->before(), std::nullopt);
  EXPECT_EQ(on_disk(), held->record());
  EXPECT_EQ(held->record().pid, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(held->record().rank, 2u);
  EXPECT_FALSE(held->record().has_ended);

  held->renew();
  held->end(17);

  EXPECT_TRUE(on_disk()->has_ended);
  EXPECT_EQ(on_disk()->left_step, 17u);
}

TEST_F(ProgramClaims, AreRefusedWhileAnotherProgramLivesAndSayWhich) {
  OtherProgram other(temp_.path());
  EXPECT_THAT(
      [&] { static_cast<void>(claim()); },
      FailsWithErrno(EBUSY, HasSubstr(fmt::format("process 1234 (rank 0) fills {}", temp_.path().string()))));

  other.kill();

  const std::unique_ptr<ProgramClaim> held = claim();
  ASSERT_TRUE(held->before());
  EXPECT_EQ(held->before()->pid, 1234u);
  EXPECT_FALSE(held->before()->has_ended);
}

TEST_F(ProgramClaims, AreLostWithAnyCloseAndNoticeThat) {
  const std::unique_ptr<ProgramClaim> held = claim();
  ::close(::open((temp_ / ".cairn-program").c_str(), O_RDONLY | O_CLOEXEC));
  held->renew();  // Nobody has taken it meanwhile.

  ::close(::open((temp_ / ".cairn-program").c_str(), O_RDONLY | O_CLOEXEC));
  OtherProgram other(temp_.path());
  EXPECT_THAT([&] { held->renew(); }, FailsWithErrno(EBUSY, HasSubstr("process 1234")));
  other.kill();

  EXPECT_THAT([&] { held->renew(); }, FailsWithErrno(EBUSY, HasSubstr("process 1234")));
}

TEST_F(ProgramClaims, AreLostWithTheirFile) {
  const std::unique_ptr<ProgramClaim> held = claim();

  std::filesystem::remove(temp_ / ".cairn-program");

  EXPECT_THAT([&] { held->renew(); }, FailsWithErrno(ENOENT, HasSubstr(".cairn-program")));
}

}  // namespace
}  // namespace cairn::store
