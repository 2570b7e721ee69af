// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/maintenance.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/blocking_call.hpp"
#include "core/services.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/verify.hpp"

namespace cairn {

store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options,
                              const Context& context) {
  const auto report = std::make_shared<store::RecoveryReport>();
  std::function<void()> work = [report, root, how = options.recovery, services = core::services_of(context)] {
    *report = store::recover(services->disk.engine().syscalls(), root, how);
  };
  core::run_within(context, fmt::format("recovery of {}", root.string()), options.deadline, std::move(work));
  return std::move(*report);
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
