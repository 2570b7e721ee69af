// SPDX-License-Identifier: Apache-2.0
#include "verdicts/program.hpp"

#include <array>
#include <numeric>

#include <fmt/format.h>

#include "support/number_from.hpp"

namespace cairn::verdicts {
namespace {

struct Kind {
  std::string_view name;
  std::size_t weight;  ///< How often, among others.
};

/// In the order of Theme.
constexpr std::array<std::string_view, 3> kThemes = {"mixed", "memory", "order"};

/// In the order of Focus.
constexpr std::array<std::string_view, 3> kFocuses = {"all", "transfers", "commit"};

/// In the order of Act.
constexpr std::array<Kind, kActs> kKinds = {{
    {"save", 10},
    {"save_async", 8},
    {"save_accepted", 8},
    {"save_borrowed", 8},
    {"save_shared", 4},
    {"save_moved", 4},
    {"save_coalescing", 6},
    {"save_slothful", 3},
    {"wait_save", 8},
    {"wait_save_a_while", 6},
    {"cancel_save", 6},
    {"cancel_waiting", 4},
    {"wait_for_event", 3},
    {"drop_save", 4},
    {"move_save", 3},
    {"load", 5},
    {"load_into", 4},
    {"load_async", 3},
    {"load_async_into", 6},
    {"wait_load", 4},
    {"wait_load_a_while", 3},
    {"cancel_load", 3},
    {"drop_load", 3},
    {"describe", 3},
    {"remove", 4},
    {"together", 4},
    {"maintain", 3},
    {"rest", 8},
    {"look", 3},
    {"look_for_remains", 2},
    {"close", 1},
    {"close_meanwhile", 1},
    {"await_staged", 3},
    {"await_committed", 3},
    {"await_loaded", 3},
    {"await_frame", 3},
    {"lose_frame", 1},
}};

Act pick_act(Theme theme, Dice& dice) {
  constexpr std::array<Act, 10> kOfMemory = {
      Act::save_borrowed, Act::save_borrowed, Act::load_async_into, Act::load_async_into, Act::drop_save,
      Act::drop_load,     Act::cancel_save,   Act::cancel_load,     Act::await_committed, Act::await_loaded};
  constexpr std::array<Act, 9> kOfOrder = {Act::save_async,  Act::save_accepted, Act::save,
                                           Act::cancel_save, Act::wait_save,     Act::cancel_waiting,
                                           Act::drop_save,   Act::remove,        Act::together};
  if (theme == Theme::memory && dice.one_in(2)) {
    return dice.pick(kOfMemory);
  }
  if (theme == Theme::order && dice.one_in(2)) {
    return dice.pick(kOfOrder);
  }
  static const std::size_t all =
      std::accumulate(kKinds.begin(), kKinds.end(), std::size_t{0},
                      [](std::size_t sum, const Kind& kind) { return sum + kind.weight; });
  std::size_t left = dice.below(all);
  std::size_t at = 0;
  while (left >= kKinds[at].weight) {
    left -= kKinds[at++].weight;
  }
  return static_cast<Act>(at);
}

}  // namespace

std::string_view name(Act act) noexcept {
  return kKinds[static_cast<std::size_t>(act)].name;
}

Program::Program(std::uint64_t seed_in) : seed(seed_in) {
  constexpr std::array<std::size_t, 4> kLimits = {0, 1, 2, 8};
  constexpr std::array<std::size_t, 5> kSlow = {0, 300, 100, 30, 12};
  constexpr std::array<std::size_t, 4> kFailing = {0, 0, 1'000, 150};
  constexpr int kFewSlow = 2;
  constexpr int kManySlow = 16;  // More than the library has threads for one operation.
  Dice dice(seed);
  // In real time few acts take long: one program in a hundred, and a tenth of its acts.
  is_manual = testing::number_from("CAIRN_VERDICTS_REAL_TIME", dice.one_in(100) ? 1 : 0) == 0;
  engine = dice.one_in(4) ? io::EngineKind::automatic : io::EngineKind::threads;
  is_large = dice.one_in(6);
  saves_in_flight = dice.pick(kLimits);
  grace = dice.one_in(2) ? longest(*this) * 2 / 3 : longest(*this) / 10;
  worker_threads = 1 + dice.below(2);
  staging_bytes = (dice.one_in(4) ? std::size_t{8} : std::size_t{256}) << 20;
  close_timeout = dice.one_in(2) ? Duration::zero() : Duration(std::chrono::seconds(1 + dice.below(5)));
  disturbances.slow = dice.pick(kSlow);
  disturbances.focus = static_cast<Focus>(dice.below(3));
  disturbances.failing = dice.pick(kFailing);
  theme = dice.one_in(2) ? Theme::mixed : dice.one_in(2) ? Theme::memory : Theme::order;
  if (theme != Theme::mixed) {
    constexpr std::size_t kOften = 10;
    disturbances.slow = kOften;
    disturbances.focus = theme == Theme::memory ? Focus::transfers : Focus::commit;
    is_large = theme == Theme::memory;
  }
  if (is_large && dice.one_in(2)) {  // A few saves have all there is for long, and nobody is to hear of it.
    saves_in_flight = 0;
    staging_bytes = std::size_t{8} << 20;
  }
  disturbances.lost_answers = disturbances.failing / 20;
  disturbances.odd = disturbances.failing;
  disturbances.longest = longest(*this);
  disturbances.most_slow = dice.one_in(3) ? kManySlow : kFewSlow;
  acts.resize((50 + dice.below(150)) / (is_manual ? 1 : 10));
  for (Act& act : acts) {
    act = pick_act(theme, dice);
  }
}

std::size_t Program::element_count(std::size_t target) const {
  // A few bytes; a page; files that are written past the page cache; one whose second part needs no copy.
  constexpr std::array<std::size_t, 4> kCounts = {3, 512, 9'000, 40'000};
  constexpr std::size_t kLarge = 1'200'000;
  return is_large && target == 3 ? kLarge : kCounts[target % kCounts.size()];
}

std::string Program::describe() const {
  return fmt::format(
      "{}, {} clock, engine {}, {} targets, {} saves at once, {} workers, {} MiB of staging, slow one in {} "
      "({}), failing "
      "one in {}",
      kThemes[static_cast<std::size_t>(theme)], is_manual ? "manual" : "real",
      engine == io::EngineKind::threads ? "threads" : "automatic", is_large ? "large" : "small",
      saves_in_flight, worker_threads, staging_bytes >> 20, disturbances.slow,
      kFocuses[static_cast<std::size_t>(disturbances.focus)], disturbances.failing);
}

Duration longest(const Program& program) {
  return program.is_manual ? Duration(std::chrono::seconds(3)) : Duration(std::chrono::milliseconds(30));
}

}  // namespace cairn::verdicts
