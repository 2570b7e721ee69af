// SPDX-License-Identifier: Apache-2.0
#include "training/step_save.hpp"

#include <system_error>

#include <optional>
#include <utility>

#include "cairn/base/error.hpp"

namespace cairn::training {

StepSave::StepSave(std::uint64_t step, AsyncResponse response, std::unique_ptr<StepUser> user, OnEnd on_end)
    : step_(step), response_(std::move(response)), user_(std::move(user)), on_end_(std::move(on_end)) {}

void StepSave::end(const std::exception_ptr& failure) {
  std::call_once(ended_, [&] {
    user_.reset();
    on_end_(*this, failure);
  });
}

bool StepSave::settle() {
  std::exception_ptr failure;
  try {
    response_.wait();
  } catch (...) {
    failure = std::current_exception();
  }
  end(failure);
  return !failure;
}

SaveResult StepSave::wait() {
  return tell_result([](const AsyncResponse& response, Timeout) { return response.wait(); }, {});
}

SaveResult StepSave::wait(Timeout timeout) {
  return tell_result([](const AsyncResponse& response, Timeout time) { return response.wait(time); },
                     timeout);
}

SaveResult StepSave::tell_result(SaveResult (*result_of)(const AsyncResponse&, Timeout), Timeout timeout) {
  try {
    SaveResult result = result_of(response_, timeout);
    end(nullptr);
    return result;
  } catch (...) {
    if (is_failure_of_save()) {
      tell();
      end(std::current_exception());
    }
    throw;
  }
}

void StepSave::wait_staged() {
  tell_stage([](const AsyncResponse& response, Timeout) { response.wait_staged(); }, {});
}

void StepSave::wait_staged(Timeout timeout) {
  tell_stage([](const AsyncResponse& response, Timeout time) { response.wait_staged(time); }, timeout);
}

void StepSave::tell_stage(void (*wait_for)(const AsyncResponse&, Timeout), Timeout timeout) {
  try {
    wait_for(response_, timeout);
  } catch (...) {
    if (is_failure_of_save()) {
      tell();
    }
    throw;
  }
}

bool StepSave::is_failure_of_save() {
  const std::optional<std::error_code> code = code_of(std::current_exception());
  // Two that say nothing of the save: it goes on, or this thread may not wait for it.
  return code != make_error_code(Errc::still_running) && code != make_error_code(Errc::invalid_argument);
}

}  // namespace cairn::training
