// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/maintenance.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/blocking_call.hpp"
#include "core/paths.hpp"
#include "core/services.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/verify.hpp"

namespace cairn {

namespace {

std::string title_of_recovery(const std::filesystem::path& root) {
  return fmt::format("recovery of {}", root.string());
}

/// `root` is where the recovery is to be, whenever it begins.
std::function<store::RecoveryReport()> recovery(const std::filesystem::path& root,
                                                const RecoverOptions& options, const Context& context) {
  const std::shared_ptr<core::Services>& services = core::services_of(context);
  services->require_own_process();
  return [root, how = options.recovery, services] {
    return store::recover(services->disk.engine().syscalls(), root, how);
  };
}

}  // namespace

store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options,
                              const Context& context) {
  return core::answer_within(context, title_of_recovery(root), options.deadline,
                             recovery(root, options, context));
}

Awaitable<store::RecoveryReport> recover_async(const std::filesystem::path& root,
                                               const RecoverOptions& options, const Context& context) {
  return core::await_answer(core::services_of(context), title_of_recovery(root), options.deadline,
                            recovery(core::absolute_path(root), options, context));
}

store::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options,
                           const Context& context) {
  const auto report = std::make_shared<store::VerifyReport>();
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
  std::function<void()> work = [report, path, how = std::move(how), services = core::services_of(context)] {
    *report = store::verify(services->disk.engine().syscalls(), path, how);
  };
  try {
    core::run_within(context, fmt::format("check of {}", path.string()), options.deadline, std::move(work));
  } catch (...) {
    *is_over = true;
    throw;
  }
  return std::move(*report);
}

}  // namespace cairn
