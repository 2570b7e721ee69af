// SPDX-License-Identifier: Apache-2.0
#include "core/save_turn.hpp"

#include <functional>

#include "base/internal/assert.hpp"
#include "core/save_job.hpp"

namespace cairn::core {

async::Event SaveTurn::enter(const std::shared_ptr<SaveJob>& save, const store::Destination* target,
                             bool publishes) {
  CAIRN_ASSERT(!ticket_, "a save takes one ticket of its target");
  CAIRN_ASSERT(target != nullptr || !publishes, "who publishes has looked at the target");
  SaveQueue::Entered entered;
  const std::function<void()> enter_queue = [&] {
    // Only rank 0 is certain to know the directory now. The others need it for nothing: their saves do not coalesce.
    entered = queue_.enter(save, target != nullptr ? target->directory() : io::FileId());
  };
  if (publishes) {
    // Both in one step: two saves that had opposite orders in the two queues would wait for each other for ever.
    ticket_ = store::PublicationOrder::enter(store::PublicationOrder::of_process(), target->directory(),
                                             target->name(), enter_queue);
  } else {
    enter_queue();
  }
  for (const std::shared_ptr<SaveJob>& earlier : entered.passed) {
    if (earlier) {
      earlier->yield_to(*save);
    }
  }
  accepted_.set();
  return entered.turn;
}

}  // namespace cairn::core
