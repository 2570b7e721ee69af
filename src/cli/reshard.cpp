// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/reshard.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/recut_policy.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

using tools::RecutItem;
using tools::WrittenFile;

void print_answer(Output& out, const Arguments& arguments, const ShardingPolicy& policy,
                  const std::vector<RecutItem>& items) {
  out.print("{}: {}\n", path_text(arguments.other), policy.description());
  const std::array<Column, 3> columns{{{"FILE"}, {"PARTS", true}, {"SIZE", true}}};
  for (const RecutItem& item : items) {
    out.print("'{}':\n", printable(item.name));
    print_table(out, "  ", columns, [&](const RowVisitor& row) {
      for (const WrittenFile& file : item.files) {
        row({printable(file.name), count_text(file.parts), size_text(file.bytes)});
      }
    });
    for (const std::string& one : item.left_out) {
      out.print("  left out: {}\n", printable(one));
    }
    print_notes(out, item.notes, "  ");
  }
}

void write_answer(JsonWriter json, const Arguments& arguments, const ShardingPolicy& policy,
                  const std::vector<RecutItem>& items) {
  json.begin_object().key("path").value(arguments.other.string()).key("policy").value(policy.description());
  json.key("checkpointables").begin_list();
  for (const RecutItem& item : items) {
    json.begin_object().key("name").value(item.name).key("files").begin_list();
    for (const WrittenFile& file : item.files) {
      json.begin_object(JsonLayout::line).key("name").value(file.name);
      json.key("parts").value(file.parts).key("bytes").value(file.bytes).end();
    }
    json.end();
    if (!item.left_out.empty()) {
      json.key("left_out").begin_list();
      for (const std::string& one : item.left_out) {
        json.value(one);
      }
      json.end();
    }
    write_notes(json, item.notes);
    json.end();
  }
  json.end().end();
}

std::vector<RecutItem> reshard_with_bar(const Arguments& arguments,
                                        const std::shared_ptr<const ShardingPolicy>& policy) {
  const StopSignals signals(arguments.other);
  ProgressBar bar(stderr);
  std::vector<RecutItem> items =
      tools::reshard(arguments.path, arguments.other, policy, arguments.name, arguments.layout,
                     [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
                       bar.update(done_bytes, total_bytes);
                       signals.check();
                     });
  signals.finish();
  return items;
}

}  // namespace

int reshard(const Arguments& arguments, Output& out) {
  const std::shared_ptr<const ShardingPolicy> policy = policy_of(arguments.recutting);
  const std::vector<RecutItem> items = reshard_with_bar(arguments, policy);
  if (arguments.is_json) {
    write_answer(json_to(out), arguments, *policy, items);
  } else {
    print_answer(out, arguments, *policy, items);
  }
  return 0;
}

}  // namespace cairn::cli
