// SPDX-License-Identifier: Apache-2.0
#include "training/step_save.hpp"

#include <system_error>

#include <optional>
#include <utility>

#include "cairn/base/error.hpp"

#include "core/internal/busy_here.hpp"
#include "core/internal/settle.hpp"

namespace cairn::training {

StepSave::StepSave(std::uint64_t step, AsyncResponse response, std::shared_ptr<core::Services> services,
                   std::unique_ptr<StepUser> user, std::vector<std::string> problems, OnEnd on_end)
    : step_(step),
      response_(std::move(response)),
      services_(std::move(services)),
      user_(std::move(user)),
      problems_(std::move(problems)),
      on_end_(std::move(on_end)) {}

void StepSave::end(const std::exception_ptr& failure) {
  std::call_once(ended_, [&] {
    user_.reset();
    on_end_(*this, failure);
  });
}

bool StepSave::settle() {
  const Code invalid_argument = refusal_to_wait();
  std::exception_ptr failure;
  try {
    core::settle(response_);  // Its result is the user's, or the context's to tell of, where that is dropped.
  } catch (...) {
    if (!is_failure_of_save(Code::of_save, invalid_argument)) {
      throw;
    }
    failure = std::current_exception();
  }
  end(failure);
  return !failure;
}

SaveResult StepSave::wait() {
  return tell_result([](const AsyncResponse& response, Timeout) { return response.wait(); }, {},
                     Code::of_save);
}

SaveResult StepSave::wait(Timeout timeout) {
  return tell_result([](const AsyncResponse& response, Timeout time) { return response.wait(time); }, timeout,
                     Code::of_wait);
}

SaveResult StepSave::tell_result(SaveResult (*result_of)(const AsyncResponse&, Timeout), Timeout timeout,
                                 Code still_running) {
  const Code invalid_argument = refusal_to_wait();
  try {
    SaveResult result = result_of(response_, timeout);
    end(nullptr);
    result.problems.insert(result.problems.end(), problems_.begin(), problems_.end());
    return result;
  } catch (...) {
    if (is_failure_of_save(still_running, invalid_argument)) {
      tell();
      end(std::current_exception());
    }
    throw;
  }
}

void StepSave::wait_staged() {
  tell_stage([](const AsyncResponse& response, Timeout) { response.wait_staged(); }, {}, Code::of_save);
}

void StepSave::wait_staged(Timeout timeout) {
  tell_stage([](const AsyncResponse& response, Timeout time) { response.wait_staged(time); }, timeout,
             Code::of_wait);
}

void StepSave::tell_stage(void (*wait_for)(const AsyncResponse&, Timeout), Timeout timeout,
                          Code still_running) {
  const Code invalid_argument = refusal_to_wait();
  try {
    wait_for(response_, timeout);
  } catch (...) {
    if (is_failure_of_save(still_running, invalid_argument)) {
      tell();
    }
    throw;
  }
}

StepSave::Code StepSave::refusal_to_wait() const {
  // One that has ended keeps nobody waiting.
  return core::is_busy_here(*services_) && !response_.is_done() ? Code::of_wait : Code::of_save;
}

bool StepSave::is_failure_of_save(Code still_running, Code invalid_argument) {
  const std::optional<std::error_code> code = code_of(std::current_exception());
  return (code != make_error_code(Errc::still_running) || still_running == Code::of_save) &&
         (code != make_error_code(Errc::invalid_argument) || invalid_argument == Code::of_save);
}

}  // namespace cairn::training
