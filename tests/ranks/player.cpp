// SPDX-License-Identifier: Apache-2.0
#include "ranks/player.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/handler.hpp"

#include "support/dice.hpp"
#include "support/holder.hpp"

namespace cairn::ranks {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kRows = 13;
constexpr std::uint64_t kColumns = 700;
/// Longer than anything may take that a story asks for.
constexpr auto kPatience = 60s;

Sharding rows_of(std::size_t ranks) {
  return Sharding::of_spec(Mesh({static_cast<std::uint32_t>(ranks)}, {"data"}), {{"data"}});
}

/// The element at a row and column of the array that the save of that number saves.
std::uint64_t element(JobHistory::Number number, std::uint64_t row, std::uint64_t column) {
  return number * 1'000'003 + row * kColumns + column;
}

/// The elements from a row on.
void put_elements(std::span<std::uint64_t> values, JobHistory::Number number, std::uint64_t first_row) {
  std::uint64_t i = 0;
  for (std::uint64_t& value : values) {
    value = element(number, first_row + i / kColumns, i % kColumns);
    ++i;
  }
}

/// Why a state is not that of a save; empty when it is.
std::string check(const Tree& state, JobHistory::Number number) {
  const auto values = state.get<std::span<const std::uint64_t>>("w");
  if (values.size() != kRows * kColumns) {
    return fmt::format("{} elements", values.size());
  }
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] != element(number, i / kColumns, i % kColumns)) {
      return fmt::format("element {} is not that of save {}", i, number);
    }
  }
  return {};
}

/// The same save in Megatron-Core's words, by ranks that divide it: what a factory cuts, a flat range, an object of
/// each rank, and a plain value.
megatron::StateDict dict_of(std::uint32_t rank, std::uint32_t ranks, JobHistory::Number number) {
  const auto filled = [number](const Shape& shape) {
    Array array(shape, DType::uint64);
    const auto values = array.data<std::uint64_t>();
    std::fill(values.begin(), values.end(), number);
    return array;
  };
  const std::uint64_t begin = std::uint64_t{rank} * kColumns;
  return {{"gate", megatron::swiglu_factory("gate", filled({2, kColumns}), 0, {{0, rank, ranks}})},
          {"flat", megatron::ShardedTensor::from_rank_offsets_flat(
                       "flat", filled({kColumns}), {ranks * kColumns}, {}, {begin, begin + kColumns})},
          {"object",
           megatron::ShardedObject{
               "object", std::string(200 + number % 100, static_cast<char>('a' + number)), {ranks}, {rank}}},
          {"n", number}};
}

/// Compares what a rank that loads alone gets of it, with what it has asked for as save 0.
std::string check_dict(const Tree& state, std::uint32_t rank, std::uint32_t ranks,
                       JobHistory::Number number) {
  const Tree expected =
      megatron::map(dict_of(rank, ranks, number), [](const megatron::StateDict& leaf) -> megatron::StateDict {
        if (const auto* tensor = leaf.leaf_if<megatron::ShardedTensor>()) {
          return *tensor->data;
        }
        if (const auto* gate = leaf.leaf_if<megatron::ShardedTensorFactory>()) {
          return *gate->data;
        }
        const auto* object = leaf.leaf_if<megatron::ShardedObject>();
        return object != nullptr ? megatron::StateDict(*object->data) : leaf;
      }).tree();
  return state == expected ? std::string() : fmt::format("the state dict is not that of save {}", number);
}

/// A value whose handler fails in the background phase.
struct Fragile {
  Fragile() = default;
  bool fails = false;
};

class FragileHandler final : public CheckpointableHandler<Fragile> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "test.fragile/1"; }
  [[nodiscard]] Participation participation() const noexcept override { return Participation::all; }

  // outlives: copied before the first suspension.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Fragile& value) const override {
    return begin(std::move(context), value);
  }
  [[nodiscard]] Awaitable<Background<Fragile>> load(LoadContext, std::optional<Fragile>) const override {
    co_return [](Fragile value) -> Background<Fragile> { co_return value; }(Fragile());
  }
  [[nodiscard]] Awaitable<Fragile> metadata(LoadContext) const override { co_return Fragile(); }

 private:
  static Awaitable<Background<>> begin(SaveContext context, Fragile value) {
    co_return finish(std::move(context), value);
  }
  static Background<> finish(SaveContext context, Fragile value) {
    if (value.fails) {
      throw Error(Errc::handler_failed, "as it was told to");
    }
    const std::string name = fmt::format("part-{}", context.coordinator().rank());
    co_await context.write_file(name, "whole");
  }
};

ContextOptions context_options(const Story& story) {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.queue_depth = 2;
  options.worker_threads = 1;
  options.staging_bytes = std::size_t{16} << 20;
  options.saves_in_flight = story.saves_in_flight;
  options.stop_grace = story.grace;
  options.on_problem = {};
  options.registry.add<FragileHandler>();
  options.registry.add<megatron::StateDictHandler>();
  return options;
}

coord::CoordinatorOptions coordinator_options(const Story& story) {
  coord::CoordinatorOptions options;
  options.fan_out = story.fan_out;
  options.heartbeat = 30ms;
  options.lost_after = story.lost_after;
  if (story.silence) {
    options.join_timeout = 1s;  // A rank that has not called yet is late, and may be so for ever.
  }
  return options;
}

}  // namespace

Player::Player(const Story& story, std::filesystem::path folder, JobHistory& history,
               std::shared_ptr<io::Syscalls> broken)
    : story_(story), folder_(std::move(folder)), history_(history), job_(story.ranks) {
  for (std::size_t rank = 0; rank < story.ranks; ++rank) {
    systems_.push_back(std::make_shared<testing::SlowCalls>(story.seed * 64 + rank, story.disturbances));
    ContextOptions options = context_options(story);
    options.syscalls = systems_[rank];
    if (rank == 0 && broken) {
      options.syscalls = broken;
    }
    options.coordinator =
        std::make_shared<coord::Coordinator>(job_.transport(rank), coordinator_options(story));
    contexts_.push_back(std::make_unique<Context>(std::move(options)));
  }
}

std::uint64_t Player::failures() const {
  std::uint64_t sum = 0;
  for (const auto& system : systems_) {
    sum += system->failures() + system->lost_answers();
  }
  return sum;
}

std::uint64_t Player::slow_calls() const {
  std::uint64_t sum = 0;
  for (const auto& system : systems_) {
    sum += system->slow_calls();
  }
  return sum;
}

void Player::play() {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < story_.ranks; ++rank) {
    threads.emplace_back([this, rank] { play_rank(rank); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  // One after the other would have each wait for those that are not there any more.
  threads.clear();
  for (std::unique_ptr<Context>& context : contexts_) {
    threads.emplace_back([&context] { context.reset(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  history_.settle();
  look_at_all();
  recover_and_look();
}

void Player::play_rank(std::size_t rank) {
  std::vector<Pending> pending;
  systems_[rank]->stir_up();
  for (JobHistory::Number number = 1; number <= story_.steps.size(); ++number) {
    save(rank, number, pending);
  }
  for (const Pending& left : pending) {
    wait(rank, left);
  }
  systems_[rank]->calm_down();
}

Contradiction Player::contradiction_of(std::size_t rank, JobHistory::Number number) const {
  const Step& step = story_.steps[number - 1];
  return rank == step.odd_rank ? step.contradiction : Contradiction::none;
}

Tree Player::state_of(std::size_t rank, JobHistory::Number number) const {
  const Contradiction contradiction = contradiction_of(rank, number);
  const Shape whole{kRows, kColumns + (contradiction == Contradiction::shape ? 1 : 0)};
  const DType dtype = contradiction == Contradiction::dtype ? DType::int64 : DType::uint64;
  const Sharding rows = rows_of(story_.ranks);
  std::vector<Shard> shards;
  for (const PlacedBox& placed : rows.boxes(static_cast<std::uint32_t>(rank), whole)) {
    Array part(placed.box.extents(), dtype);
    if (dtype == DType::uint64) {
      put_elements(part.data<std::uint64_t>(), number, placed.box.offsets()[0]);
    }
    shards.push_back({placed.box, std::move(part), placed.replica});
  }
  return {{"w", ShardedArray(whole, dtype, std::move(shards), std::make_shared<const Sharding>(rows))},
          {"n", number},
          {"note", contradiction == Contradiction::value ? "another" : "the same"}};
}

void Player::save(std::size_t rank, JobHistory::Number number, std::vector<Pending>& pending) {
  const Step& step = story_.steps[number - 1];
  const bool is_odd = rank == step.odd_rank;
  if (is_odd && step.is_late) {
    history_.await_others(rank, number);
  } else if (is_odd) {
    std::this_thread::sleep_for(step.pause);
  }
  const Contradiction contradiction = contradiction_of(rank, number);
  SaveOptions options;
  options.overwrite = step.overwrites != (contradiction == Contradiction::overwrite);
  options.custom_metadata = std::to_string(number);
  if (is_odd && step.manner == Manner::hurries) {
    options.deadline = step.moment;
  } else if (!is_odd && step.is_late) {
    options.deadline = kPatienceWithLate;
  }
  Fragile fragile;
  fragile.fails = is_odd && step.fails_by_handler;
  history_.begin(rank, number);
  silence(rank, number);
  Pending made{number, {}};
  try {
    const std::size_t target = contradiction == Contradiction::path ? 1 - step.target : step.target;
    const std::string name = contradiction == Contradiction::name ? "another" : "state";
    made.response = save_checkpointables_async(
        folder_ / fmt::format("t{}", target),
        {{name, state_of(rank, number)},
         {"dict",
          dict_of(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(story_.ranks), number)},
         {"fragile", fragile}},
        options, *contexts_[rank]);
  } catch (...) {
    history_.fail(rank, number, std::current_exception());
    return;
  }
  if (step.is_late) {
    wait(rank, made);  // Who is late waits for this answer.
  } else if (is_odd) {
    deal_with(rank, std::move(made), step, pending);
  } else {
    pending.push_back(std::move(made));
  }
}

void Player::deal_with(std::size_t rank, Pending made, const Step& step, std::vector<Pending>& later) {
  switch (step.manner) {
    case Manner::goes_on:
      later.push_back(std::move(made));
      return;
    case Manner::forgets:
      history_.forget(rank, made.number);
      return;
    case Manner::cancels:
      std::this_thread::sleep_for(step.moment);
      made.response.cancel();
      break;
    case Manner::loads:
      look(step.target, *contexts_[rank]);
      break;
    case Manner::waits:
    case Manner::hurries:
      break;
  }
  wait(rank, made);
}

void Player::wait(std::size_t rank, const Pending& pending) {
  SaveResult result;
  try {
    result = pending.response.wait(kPatience);
  } catch (const Error& error) {
    if (error.code() == Errc::still_running) {
      history_.lie("hang", fmt::format("rank {}: save {} has no answer", rank, pending.number));
      history_.forget(rank, pending.number);
      return;
    }
    history_.fail(rank, pending.number, std::current_exception());
    return;
  }
  history_.commit(rank, pending.number, result.problems);
}

void Player::silence(std::size_t rank, JobHistory::Number number) {
  if (story_.silence && story_.silence->rank == rank && story_.silence->step + 1 == number) {
    std::this_thread::sleep_for(story_.silence->moment);
    job_.cut(rank);
  }
}

void Player::look(std::size_t target, const Context& context) {
  const JobHistory::Tick since = history_.now(target);
  const std::filesystem::path path = folder_ / fmt::format("t{}", target);
  try {
    const auto ranks = static_cast<std::uint32_t>(story_.ranks);
    const std::uint32_t last = ranks - 1;
    Loaded loaded =
        load_checkpointables(path, {"state", {"dict", megatron::AbstractStateDict(dict_of(last, ranks, 0))}},
                             LoadOptions(), context);
    const Tree state = loaded.take<Tree>("state");
    const auto number = state.get<std::uint64_t>("n");
    history_.see(target, number, since);
    if (const std::string problem = check(state, number); !problem.empty()) {
      history_.lie("damage", fmt::format("t{}: {}", target, problem));
    }
    const Tree dict = loaded.take<megatron::StateDict>("dict").tree();
    if (const std::string problem = check_dict(dict, last, ranks, number); !problem.empty()) {
      history_.lie("damage", fmt::format("t{}: {}", target, problem));
    }
  } catch (const Error& error) {
    if (error.code() == Errc::not_found) {
      history_.see(target, std::nullopt, since);
    } else if (error.code().category() != std::system_category()) {  // Those may be the story's.
      history_.lie("damage", fmt::format("t{}: {}", target, error.what()));
    }
  }
}

void Player::look_at_all() {
  ContextOptions quiet;
  quiet.engine = io::EngineKind::threads;
  quiet.worker_threads = 1;
  quiet.staging_bytes = std::size_t{16} << 20;
  quiet.registry.add<megatron::StateDictHandler>();
  const Context context(quiet);
  for (std::size_t target = 0; target < kTargets; ++target) {
    look(target, context);
    if (const std::filesystem::path path = folder_ / fmt::format("t{}", target);
        std::filesystem::exists(path)) {
      const store::VerifyReport report = verify(path);
      if (!report.is_sound()) {
        history_.lie("damage", fmt::format("t{} does not verify", target));
      }
    }
  }
}

void Player::recover_and_look() {
  static_cast<void>(recover(folder_));
  look_at_all();
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (name != "t0" && name != "t1") {
      history_.lie("remains", name);
    }
  }
}

}  // namespace cairn::ranks
