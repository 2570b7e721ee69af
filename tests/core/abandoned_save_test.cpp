// SPDX-License-Identifier: Apache-2.0
// Saves that fail and cannot remove what they have made.
#include <cerrno>
#include <memory>
#include <utility>

#include <gmock/gmock.h>

#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "io/faulty_syscalls.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Blob;
using testing::Fails;
using ::testing::HasSubstr;
using testing::make_blob;

class AbandonedSave : public testing::Observed {
 protected:
  static ContextOptions on(std::shared_ptr<io::Syscalls> syscalls) {
    ContextOptions options = ticking();
    options.syscalls = std::move(syscalls);
    return options;
  }

  void save_badly() const {
    const Blob blob = make_blob(1);
    const RegistrySnapshot registry = HandlerRegistry().add<testing::LateFailure>().snapshot();
    core::start_save(target(), {{"blob", blob}}, registry, {}, *context_).wait();
  }
};

TEST_F(AbandonedSave, LeavesNothing) {
  EXPECT_THAT([&] { save_badly(); }, Fails(Errc::shape_mismatch));

  context_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(AbandonedSave, SaysWhatItCouldNotRemove) {
  const auto faulty = std::make_shared<io::FaultySyscalls>();
  faulty->plan({io::Call::unlink, 1, io::kForEver, -EIO});
  context_.emplace(on(faulty));

  EXPECT_THAT([&] { save_badly(); },
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("a blob that nobody likes"), HasSubstr("unlink"))));
}

}  // namespace
}  // namespace cairn
