// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/step_response.hpp"

#include <utility>

#include "training/step_save.hpp"
#include "training/step_uses.hpp"

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

StepLoadResponse::StepLoadResponse(LoadResponse response,
                                   std::shared_ptr<const training::StepUser> user) noexcept
    : LoadResponse(std::move(response)), user_(std::move(user)) {}

StepLoadResponse::~StepLoadResponse() {
  LoadResponse::operator=(LoadResponse());  // Stops it where it must; only then the step may be removed.
}

}  // namespace cairn
