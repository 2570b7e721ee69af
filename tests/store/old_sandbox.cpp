// SPDX-License-Identifier: Apache-2.0
// A program in a sandbox that answers EPERM to calls which it does not know, as those of older container runtimes do:
// `old_sandbox ROOT` saves, replaces, loads, recovers and removes. 0: done; 77: it may not make the sandbox.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>

#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/sample_checkpoint.hpp"

namespace cairn::store {
namespace {

constexpr int kNotAllowed = 77;

bool enter_sandbox() {
  std::array<sock_filter, 7> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

int run(const std::filesystem::path& root) {
  if (!enter_sandbox()) {
    return kNotAllowed;
  }
  const std::unique_ptr<io::Engine> engine = io::make_engine(io::EngineKind::threads).engine;
  for (const char* text : {"one", "two", "three"}) {
    save_sample(*engine, root / "step", text, overwriting());
    recover(io::posix_syscalls(), root);
    if (load_sample(root / "step") != text) {
      std::fputs("another checkpoint was loaded\n", stderr);
      return 1;
    }
  }
  remove_checkpoint(io::posix_syscalls(), root / "step");
  return 0;
}

}  // namespace
}  // namespace cairn::store

int main(int, char** argv) {
  try {
    return cairn::store::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
