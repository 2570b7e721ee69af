// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/step_response.hpp"

#include <exception>
#include <memory>
#include <utility>

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

using training::StepLoad;

template <class Ask>
auto explained(const std::shared_ptr<const StepLoad>& load, Ask ask) {
  try {
    return ask();
  } catch (...) {
    std::rethrow_exception(load->explain(std::current_exception()));
  }
}

Awaitable<Loaded> await_explained(std::shared_ptr<const StepLoad> load, Awaitable<Loaded> loaded) {
  std::exception_ptr failure;
  try {
    co_return co_await std::move(loaded);
  } catch (...) {
    failure = std::current_exception();
  }
  std::rethrow_exception(load->explain(failure));
}

}  // namespace

StepLoadResponse::StepLoadResponse(LoadResponse response, std::shared_ptr<const StepLoad> load) noexcept
    : LoadResponse(std::move(response)), load_(std::move(load)) {}

Loaded StepLoadResponse::wait() const {
  return explained(load_, [this] { return LoadResponse::wait(); });
}

Loaded StepLoadResponse::wait(Timeout timeout) const {
  return explained(load_, [this, timeout] { return LoadResponse::wait(timeout); });
}

Awaitable<Loaded> StepLoadResponse::loaded() const {
  return await_explained(load_, LoadResponse::loaded());
}

LoadResult StepLoadResponse::result() const {
  return explained(load_, [this] { return LoadResponse::result(); });
}

StepLoadResponse::~StepLoadResponse() {
  LoadResponse::operator=(LoadResponse());  // Stops it where it must; only then the step may be removed.
}

}  // namespace cairn
