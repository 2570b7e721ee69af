// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/maintain.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "api/internal/look.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/paths.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/verify.hpp"

namespace cairn {
namespace {

using core::DiskCalls;

std::string title_of_recovery(const std::filesystem::path& root) {
  return fmt::format("recovery of {}", root.string());
}

/// `root` is where the recovery is to be, whenever it begins.
std::function<store::RecoveryReport()> recovery(DiskCalls calls, const std::filesystem::path& root,
                                                const RecoverOptions& options) {
  return [calls = std::move(calls), root, how = options.recovery] {
    const auto clean = [&] { return store::recover(calls.syscalls(), root, how); };
    return api::look_if_made(root, clean).value_or(store::RecoveryReport());
  };
}

}  // namespace

store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options,
                              const Context& context) {
  const DiskCalls calls(context);
  return calls.ask(title_of_recovery(root), options.deadline, recovery(calls, root, options));
}

Awaitable<store::RecoveryReport> recover_async(const std::filesystem::path& root,
                                               const RecoverOptions& options, const Context& context) {
  const DiskCalls calls(context);
  return calls.await_answer(title_of_recovery(root), options.deadline,
                            recovery(calls, core::absolute_path(root), options));
}

store::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options,
                           const Context& context) {
  const DiskCalls calls(context);
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  store::VerifyOptions how = options.verification;
  how.progress = [is_over, path,
                  tell = options.verification.progress](const store::VerifyProgress& progress) {
    if (*is_over) {
      throw Error(Errc::timed_out, path.string());
    }
    if (tell) {
      tell(progress);
    }
  };
  std::function<store::VerifyReport()> check = [calls, path, how = std::move(how)] {
    return store::verify(calls.syscalls(), path, how, calls.checkpoint_store());
  };
  try {
    return calls.ask(fmt::format("check of {}", path.string()), options.deadline, std::move(check));
  } catch (...) {
    *is_over = true;
    throw;
  }
}

}  // namespace cairn
