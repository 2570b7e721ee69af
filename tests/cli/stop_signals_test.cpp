// SPDX-License-Identifier: Apache-2.0
// A signal in the midst of a command that writes: nothing half-written stays, and the tool ends by the signal.
#include "cli/stop_signals.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempDir;

/// A checkpoint that takes long enough to write, and a folder for what the commands make of it.
class CliStop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    source_ = std::make_unique<TempDir>();
    save(*source_ / "large", Tree{{"w", Array(Shape{std::uint64_t{40} << 20}, DType::int32)}});
  }
  static void TearDownTestSuite() { source_.reset(); }

  /// Runs the tool, and sends it a signal as soon as a temporary directory is there. Returns how it has ended, as
  /// waitpid(2) says.
  int stop_in_the_midst(std::vector<std::string> words, int number, bool is_ignored = false) {
    words.insert(words.begin(), CAIRN_CLI);
    std::vector<char*> pointers;
    for (std::string& word : words) {
      pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    const std::string err = log_ / "err";
    const pid_t child = ::fork();
    if (child == 0) {
      for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
        std::signal(each, SIG_DFL);
      }
      if (is_ignored) {
        std::signal(number, SIG_IGN);
      }
      ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
      ::execv(CAIRN_CLI, pointers.data());
      ::_exit(127);
    }
    int status = 0;
    while (temporaries().empty()) {
      if (::waitpid(child, &status, WNOHANG) == child) {
        return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // It sleeps while the signal is sent, so the signal comes in the midst however quick the machine is.
    ::kill(child, SIGSTOP);
    ::waitpid(child, &status, WUNTRACED);
    ::kill(child, number);
    ::kill(child, SIGCONT);
    ::waitpid(child, &status, 0);
    return status;
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(targets_.path())) {
      found.push_back(entry.path().filename());
    }
    return found;
  }

  [[nodiscard]] std::vector<std::string> temporaries() const {
    std::vector<std::string> found = names();
    std::erase_if(found, [](const std::string& name) { return !name.starts_with('.'); });
    return found;
  }

  [[nodiscard]] std::string source() const { return *source_ / "large"; }
  [[nodiscard]] std::string err() const { return testing::read_text(log_ / "err"); }

  inline static std::unique_ptr<TempDir> source_;
  const TempDir targets_;
  const TempDir log_;
};

TEST_F(CliStop, ExportLeavesNothingAndEndsBySigint) {
  const int status = stop_in_the_midst({"export", source(), targets_ / "out.safetensors"}, SIGINT);

  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(err(), HasSubstr("cairn: stopped by SIGINT: what was written of "));
}

TEST_F(CliStop, ExportOfAFolderLeavesNothingToo) {
  const int status = stop_in_the_midst({"export", source(), targets_ / "out"}, SIGHUP);

  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGHUP);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(CliStop, ReshardLeavesNothingAndEndsBySigterm) {
  const int status = stop_in_the_midst({"reshard", source(), targets_ / "cut", "--parts", "2"}, SIGTERM);

  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(err(), HasSubstr("stopped by SIGTERM"));
}

TEST_F(CliStop, CopyLeavesNoTemporaryAndSaysWhatBecameOfIt) {
  const int status = stop_in_the_midst({"copy", source(), targets_ / "copy"}, SIGINT);

  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_THAT(temporaries(), IsEmpty());
  // A copy that was past the point of no return is there.
  EXPECT_THAT(err(), HasSubstr(names().empty() ? "is removed" : "was written already"));
}

TEST_F(CliStop, GoesOnWhereTheSignalIsIgnored) {
  const int status = stop_in_the_midst({"export", source(), targets_ / "out.safetensors"}, SIGHUP, true);

  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0) << err();
  EXPECT_THAT(names(), ElementsAre("out.safetensors"));
  EXPECT_THAT(err(), Not(HasSubstr("SIGHUP")));
}

/// For as long as the signals are awaited they do not end the process.
TEST(StopSignals, TakesTheFirstSignalAndThrowsWhereItIsAsked) {
  const StopSignals signals("target");
  EXPECT_NO_THROW(signals.check());

  ::kill(::getpid(), SIGTERM);
  while (!signals.has_come()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  EXPECT_THROW(signals.check(), Interrupted);
  try {
    signals.finish();
    FAIL() << "nothing was thrown";
  } catch (const Interrupted& stop) {
    EXPECT_EQ(stop.number(), SIGTERM);
    EXPECT_STREQ(stop.what(), "stopped by SIGTERM, when target was written already");
  }
}

}  // namespace
}  // namespace cairn::cli
