// SPDX-License-Identifier: Apache-2.0
// A program that is forbidden to enter its ring while it has a context: `sandboxed ROOT`. It saves, locks itself in,
// saves and loads again, and says after each what the result says of the engine; then "done". `sandboxed ROOT links`
// forbids itself hard links and renames that refuse to replace, as on gcsfuse, saves and overwrites, and says what it
// finds.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

#include "kill/program.hpp"

namespace cairn::kill {
namespace {

/// Lets the kernel answer EPERM to io_uring_enter, in every thread of this process.
bool forbid_the_ring() {
  std::array<sock_filter, 4> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/// Lets the kernel answer EOPNOTSUPP to linkat and EINVAL to renameat2.
bool forbid_links() {
  std::array<sock_filter, 6> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 2, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

int save_without_links(const std::filesystem::path& root) {
  if (!forbid_links()) {
    say("may not");
    return 0;
  }
  SaveOptions options;
  options.overwrite = true;
  for (const int step : {1, 2, 3}) {
    save(root / "step", {{"step", step}}, options);
    say(std::to_string(load(root / "step").get<int>("step")));
  }
  const store::RecoveryReport left = recover(root);
  say(std::to_string(left.entries.size()));
  return 0;
}

void say_engine(const Report& report) {
  say(report.engine);
  for (const std::string& fallback : report.fallbacks) {
    say(fallback);
  }
}

int run(const std::filesystem::path& root) {
  const Tree tree = {{"large", std::vector<float>(std::size_t{4} << 20, 1.5F)}, {"step", 7}};
  const Context context;
  say_engine(save(root / "before", tree, {}, context));
  if (!forbid_the_ring()) {
    say("may not");
    return 0;
  }
  say_engine(save(root / "after", tree, {}, context));
  const TreeResponse response = load_async(root / "before", std::nullopt, {}, context);
  const bool is_equal = response.wait() == tree;
  say_engine(response.result());
  say(is_equal ? "equal" : "different");
  return 0;
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  try {
    const int result = argc == 3 ? cairn::kill::save_without_links(argv[1]) : cairn::kill::run(argv[1]);
    cairn::kill::say("done");
    return result;
  } catch (const std::exception& error) {
    cairn::kill::say(error.what());
    return 1;
  }
}
