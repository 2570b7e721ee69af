// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "cairn/core/context.hpp"

#include "core/services.hpp"
#include "observe/internal/exposition.hpp"

namespace cairn {

std::string prometheus_text(const Context& context) {
  const std::shared_ptr<core::Services> owner = core::services_of(context);
  const core::Services& services = *owner;
  observe::Exposition out;
  const observe::OperationMetrics saves = services.metrics.saves();
  out.operations(saves, "save", "committed");
  out.family("cairn_saves_given_up_total", "counter",
             "Saves that were answered although something of them still ran.");
  out.sample("", "", saves.given_up);
  out.family("cairn_saves_left_to_recovery_total", "counter",
             "Saves that failed and could not remove what they had made.");
  out.sample("", "", saves.left_to_recovery);
  out.family("cairn_save_blocking_duration_seconds", "histogram", "From the call until the caller was free.");
  out.histogram(saves.blocking, "");
  out.family("cairn_save_policy_files_total", "counter", "Files that each sharding policy has made.");
  for (const auto& [description, figures] : saves.policies) {
    out.sample("", "policy=" + observe::label_value(description), figures.count);
  }
  out.family("cairn_save_policy_bytes_total", "counter", "Bytes that each sharding policy has divided.");
  for (const auto& [description, figures] : saves.policies) {
    out.sample("", "policy=" + observe::label_value(description), figures.bytes);
  }
  out.operations(services.metrics.loads(), "load", "loaded");
  out.family("cairn_staging_used_bytes", "gauge", "Staging memory in use.");
  out.sample("", "", context.staged_bytes());
  out.family("cairn_staging_allocated_bytes", "gauge", "Staging memory taken from the system.");
  out.sample("", "", context.pool_bytes());
  out.family("cairn_engine_info", "gauge", "The engine that reads and writes.");
  out.sample("", "engine=" + observe::label_value(context.engine()), 1);
  return std::move(out).finish();
}

}  // namespace cairn
