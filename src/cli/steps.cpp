// SPDX-License-Identifier: Apache-2.0
#include "cli/steps.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "io/internal/file.hpp"
#include "training/internal/annotations.hpp"
#include "training/internal/pins.hpp"

namespace cairn::cli {

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
  return all;
}

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : " ", printable(name), value);
  }
  return text.empty() ? "-" : text;
}

void write_metrics(JsonWriter& json, const Metrics& metrics) {
  if (metrics.empty()) {
    return;
  }
  json.key("metrics").begin_object();
  for (const auto& [name, value] : metrics) {
    json.key(name).value(value);
  }
  json.end();
}

}  // namespace cairn::cli
