// SPDX-License-Identifier: Apache-2.0
#include "cli/steps.hpp"

#include <system_error>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "io/internal/file.hpp"
#include "training/internal/annotations.hpp"
#include "training/internal/pins.hpp"

namespace cairn::cli {

namespace {

/// The number in which a name ends; nothing where it does not.
std::optional<std::uint64_t> number_at_the_end(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::string_view digits = name.substr(last == std::string_view::npos ? 0 : last + 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && !digits.empty() ? std::optional(number) : std::nullopt;
}

/// Pins are of numbers. A step that no Checkpointer has saved (a PartialSave has, say) has its number only in its
/// name, whose format is the program's: it is shown where it is pinned and no other checkpoint says that it is that
/// step.
void find_pinned_by_name(std::set<std::uint64_t> pins, const std::vector<store::FoundCheckpoint>& checkpoints,
                         std::vector<StepFacts>& all) {
  for (const StepFacts& facts : all) {
    if (facts.step) {
      pins.erase(*facts.step);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::optional<std::uint64_t> number = number_at_the_end(checkpoints[i].name);
    if (!all[i].step && checkpoints[i].counts() && number && pins.contains(*number)) {
      all[i].step = number;
      all[i].is_pinned = true;
    }
  }
}

}  // namespace

std::vector<StepFacts> step_facts(const std::filesystem::path& root,
                                  const std::vector<store::FoundCheckpoint>& checkpoints) {
  const std::set<std::uint64_t> pins = training::read_pins(io::Directory::open(io::posix_syscalls(), root));
  std::vector<StepFacts> all;
  for (const store::FoundCheckpoint& each : checkpoints) {
    StepFacts facts;
    try {
      training::StepNotes notes = training::notes_of(each.annotations, each.path.string());
      facts.step = notes.step;
      facts.metrics = std::move(notes.metrics);
    } catch (const Error&) {  // Another program's: not a step, but it can be loaded.
    }
    facts.is_pinned = facts.step && pins.contains(*facts.step);
    all.push_back(std::move(facts));
  }
  find_pinned_by_name(pins, checkpoints, all);
  return all;
}

Cell metrics_cell(const Metrics& metrics) {
  if (metrics.empty()) {
    return {};
  }
  std::string text;
  for (const auto& [name, value] : metrics) {
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : " ", printable(name), value);
  }
  return {std::move(text), [metrics](JsonWriter& json) { training::write_metrics(json, metrics); }};
}

}  // namespace cairn::cli
