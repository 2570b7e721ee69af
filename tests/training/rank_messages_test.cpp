// SPDX-License-Identifier: Apache-2.0
// What the ranks of a training send to each other.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"
#include "cairn/training/step_options.hpp"

#include "training/ranks.hpp"

namespace cairn {
namespace {

using std::chrono::seconds;
using testing::ManualClock;
using testing::RanksOfATraining;

/// Counts what is sent through it.
class CountingWire final : public coord::Transport {
 public:
  CountingWire(std::unique_ptr<coord::Transport> wire, std::atomic<int>& packets)
      : wire_(std::move(wire)), packets_(packets) {}

  [[nodiscard]] std::size_t rank() const noexcept override { return wire_->rank(); }
  [[nodiscard]] std::size_t size() const noexcept override { return wire_->size(); }
  [[nodiscard]] std::span<const std::uint32_t> hosts() const noexcept override { return wire_->hosts(); }
  [[nodiscard]] Hash128 job() const noexcept override { return wire_->job(); }
  void send(std::size_t to, coord::Packet packet) override {
    ++packets_;
    wire_->send(to, std::move(packet));
  }
  void listen(Receiver receiver, std::function<void()> ended) override {
    wire_->listen(std::move(receiver), std::move(ended));
  }
  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    wire_->call_after(delay, std::move(work));
  }
  [[nodiscard]] Time now() const override { return wire_->now(); }

 private:
  const std::unique_ptr<coord::Transport> wire_;
  std::atomic<int>& packets_;
};

class MessagesOfATraining : public RanksOfATraining {
 protected:
  static constexpr std::size_t kRanks = 8;
  static constexpr std::uint64_t kApart = 10;  // Steps, and seconds.

  /// How a step is saved: by a Checkpointer, or by a call of the API.
  using Save = std::function<void(Checkpointer& run, const Context& context, std::uint64_t step)>;

  /// How many packets all ranks send while they come to so many steps.
  int packets_of(std::uint64_t steps, const SavePolicy& policy, const Save& save) {
    std::filesystem::remove_all(root());
    std::filesystem::create_directories(root());
    std::atomic<int> packets{0};
    int sent = 0;
    testing::LocalRanks job(kRanks);
    std::barrier all(kRanks);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        coord::CoordinatorOptions silent;  // A sign of life is no message of a training.
        silent.heartbeat = std::chrono::hours(1);
        silent.lost_after = std::chrono::hours(2);
        silent.fan_out = 3;
        auto clock = std::make_shared<ManualClock>();
        ContextOptions options = with_clock(clock);
        options.coordinator = std::make_shared<coord::Coordinator>(
            std::make_unique<CountingWire>(job.transport(rank), packets), silent);
        Context context(options);
        CheckpointerOptions how;
        how.save = policy;
        how.preemption = guard_;
        Checkpointer run(root(), how, context);
        for (std::uint64_t step = 0; step < steps; ++step) {
          save(run, context, step);
          clock->advance(seconds(1));
          all.arrive_and_wait();
        }
        run.close();
        all.arrive_and_wait();
        if (rank == 0) {
          sent = packets;  // Before ranks say goodbye, as they end.
        }
        all.arrive_and_wait();
      });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
    return sent;
  }

  const PreemptionGuard* guard_ = nullptr;  // Of all ranks.

  Save by_checkpointer() {
    return [this](Checkpointer& run, const Context&, std::uint64_t step) {
      const StepResponse response = run.save(step, {{"state", tree_}});
      response.wait();
      while (!response.is_done()) {  // Its last words.
        std::this_thread::yield();
      }
    };
  }

  Save by_call() {
    return [this](Checkpointer&, const Context& context, std::uint64_t step) {
      if (step % kApart == 0) {
        save_checkpointables_async(root() / std::to_string(step), {{"state", tree_}}, {}, context)
            .wait_done();
      }
    };
  }
};

TEST_F(MessagesOfATraining, AreThoseOfTheSavesWhereAPolicyGoesByTheStepAlsoWhileASignalMayCome) {
  const PreemptionGuard guard;
  guard_ = &guard;
  const SavePolicy policy = save_when::any_of({save_when::every_steps(kApart), save_when::preempted()});

  const int sent = packets_of(5 * kApart, policy, by_checkpointer());

  EXPECT_GT(sent, 0);
  EXPECT_EQ(sent, packets_of(5 * kApart, policy, by_call()));
}

TEST_F(MessagesOfATraining, AreOneForARankAndStepBesideThoseOfTheSavesWhereAPolicyGoesByTheTime) {
  const SavePolicy policy = save_when::continuously(seconds(kApart));
  const int begun = packets_of(2 * kApart, policy, by_checkpointer());  // All ranks meet at the first step.

  const int sent = packets_of(7 * kApart, policy, by_checkpointer()) - begun;

  EXPECT_GT(sent, 0);
  EXPECT_EQ(sent, packets_of(7 * kApart, policy, by_call()) - packets_of(2 * kApart, policy, by_call()) +
                      5 * static_cast<int>(kApart * (kRanks - 1)));
}

}  // namespace
}  // namespace cairn
