// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/context.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "core/check_options.hpp"
#include "core/internal/busy_here.hpp"
#include "core/internal/close_at_exit.hpp"
#include "core/internal/shared_context.hpp"
#include "core/services.hpp"
#include "store/internal/uuid.hpp"

namespace cairn {
namespace {

/// Bounds the wait for operations that have ended and still let go of what they hold, so that as a rule no thread
/// is left after the destructor; a response that the caller keeps holds the services for longer.
constexpr std::chrono::milliseconds kLetGo{100};

/// In one call, so that lines of several threads do not mix. Where nobody reads a pipe any more the program must not
/// end by SIGPIPE.
void write_to_stderr(std::string_view line) noexcept {
  sigset_t broken_pipe;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  ::sigpending(&pending);
  const bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  if (written < 0 && errno == EPIPE && !was_pending) {
    const timespec no_time{};
    ::sigtimedwait(&broken_pipe, nullptr, &no_time);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void print_problem(const std::string& path, const std::string& problem) noexcept {
  try {
    const std::string where = problem.find(path) == std::string::npos ? path + ": " : "";
    write_to_stderr(fmt::format("cairn: {}{}\n", printable(where), printable(problem)));
  } catch (...) {  // No memory for a line.
  }
}

void print_lost_failure(const std::string& path, const std::exception_ptr& failure) noexcept {
  try {
    print_problem(path, describe(failure));
  } catch (...) {  // Likewise.
  }
}

Context::Context(ContextOptions options) {
  core::check_options(options);
  if (!options.random) {
    options.random = store::system_random;
  }
  services_ = core::Services::create(std::move(options));
}

Context::Context(const Context& owner) noexcept : services_(owner.services_), is_owner_(false) {}

Context::Context(Context&&) noexcept = default;

Context::~Context() {
  if (is_owner_ && services_ && services_->is_own_process()) {
    services_->operations.close();  // Lost failures were reported to on_lost_failure when they happened.
    const async::Event gone = services_->gone;
    services_.reset();
    static_cast<void>(gone.wait_for(kLetGo));
  }
}

void Context::close() {
  if (!services_->is_own_process()) {
    return;
  }
  core::refuse_here(*services_, "a close");
  if (const std::exception_ptr lost = services_->operations.close()) {
    std::rethrow_exception(lost);
  }
}

Context core::shared_context(const Context& context) noexcept {
  return ContextServices::shared(context);
}

void core::close_at_exit(const Context& context) noexcept {
  const std::shared_ptr<Services> services = services_of(context);
  if (services->is_own_process()) {
    services->operations.close();  // What it returns is for nobody.
  }
}

void Context::require_own_process() const {
  services_->require_own_process();
}

std::string_view Context::engine() const noexcept {
  return services_->disk.engine().name();
}

const std::string& Context::engine_reason() const noexcept {
  return services_->disk.choice.reason;
}

std::size_t Context::staged_bytes() const {
  return services_->memory.buffers.leased_bytes();
}

std::size_t Context::pool_bytes() const {
  return services_->memory.buffers.allocated_bytes();
}

const ContextOptions& Context::options() const noexcept {
  return services_->options;
}

}  // namespace cairn
