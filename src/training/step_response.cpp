// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "cairn/base/error.hpp"
#include "cairn/training/checkpointer.hpp"

#include "training/step_load.hpp"
#include "training/step_save.hpp"

namespace cairn {

StepResponse::StepResponse(std::shared_ptr<training::StepSave> save) noexcept : save_(std::move(save)) {}

SaveResult StepResponse::wait() const {
  return save_ ? save_->wait() : SaveResult();
}

SaveResult StepResponse::wait(Timeout timeout) const {
  return save_ ? save_->wait(timeout) : SaveResult();
}

void StepResponse::wait_staged() const {
  if (save_) {
    save_->wait_staged();
  }
}

void StepResponse::wait_staged(Timeout timeout) const {
  if (save_) {
    save_->wait_staged(timeout);
  }
}

bool StepResponse::is_staged() const {
  return !save_ || save_->response().is_staged();
}

bool StepResponse::is_done() const {
  return !save_ || save_->response().is_done();
}

SaveProgress StepResponse::progress() const {
  return save_ ? save_->response().progress() : SaveProgress();
}

void StepResponse::cancel() const {
  if (save_) {
    save_->response().cancel();
  }
}

namespace {

/// The result of `act`; a failure is judged.
template <class Act>
auto judged(const std::shared_ptr<const training::StepLoad>& load, const Act& act) {
  try {
    return act();
  } catch (...) {
    std::rethrow_exception(load ? load->judge(std::current_exception()) : std::current_exception());
  }
}

Awaitable<Loaded> await_judged(Awaitable<Loaded> loading, std::shared_ptr<const training::StepLoad> load) {
  std::optional<Loaded> loaded;
  std::exception_ptr failure;
  try {
    loaded = co_await std::move(loading);
  } catch (...) {
    failure = std::current_exception();
  }
  if (loaded) {
    co_return std::move(*loaded);
  }
  const std::optional<std::error_code> code = code_of(failure);
  if (code && *code == std::errc::no_such_file_or_directory) {  // Asks the disk, and blocks.
    std::function<std::exception_ptr()> judge = [load, failure] { return load->judge(failure); };
    failure = co_await load->calls.await_answer("a look at what could not be loaded",
                                                std::chrono::nanoseconds::zero(), std::move(judge));
  } else {
    failure = load->judge(failure);
  }
  std::rethrow_exception(failure);
}

}  // namespace

StepLoadResponse::StepLoadResponse(LoadResponse response,
                                   std::shared_ptr<const training::StepLoad> load) noexcept
    : LoadResponse(std::move(response)), load_(std::move(load)) {}

StepLoadResponse::~StepLoadResponse() {
  LoadResponse::operator=(LoadResponse());  // Stops it where it must; only then the step may be removed.
}

Loaded StepLoadResponse::wait() const {
  return judged(load_, [this] { return LoadResponse::wait(); });
}

Loaded StepLoadResponse::wait(Timeout timeout) const {
  return judged(load_, [this, timeout] { return LoadResponse::wait(timeout); });
}

LoadResult StepLoadResponse::result() const {
  return judged(load_, [this] { return LoadResponse::result(); });
}

Awaitable<Loaded> StepLoadResponse::loaded() const {
  return load_ ? await_judged(LoadResponse::loaded(), load_) : LoadResponse::loaded();
}

}  // namespace cairn
