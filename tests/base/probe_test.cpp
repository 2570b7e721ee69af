// SPDX-License-Identifier: Apache-2.0
#include "base/internal/probe.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>

#include "support/temp_dir.hpp"

namespace cairn {
namespace {

TEST(Probes, AppendTheirNamesOnceToTheFileThatIsAskedFor) {
  const testing::TempDir directory;
  const std::string path = (directory.path() / "probes").string();
  const auto pass_by = [&path] {
    ::setenv("CAIRN_PROBES", path.c_str(), 1);
    static constinit Probe first("test.first");
    static constinit Probe second("test.second");
    for (int i = 0; i < 3; ++i) {
      first.pass();
      second.pass();
    }
    ::_exit(0);
  };

  EXPECT_EXIT(pass_by(), ::testing::ExitedWithCode(0), "");

  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "test.first\ntest.second\n");
}

}  // namespace
}  // namespace cairn
