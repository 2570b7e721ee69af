// SPDX-License-Identifier: Apache-2.0
#include "cli/rewound.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/timestamp.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::cli {
namespace {

using training::Rewound;
using training::RewoundLine;

io::Directory open_root(const std::filesystem::path& path) {
  return store::open_root(io::posix_syscalls(), path);
}

std::uint64_t bytes_of(const RewoundLine& line) {
  std::uint64_t bytes = 0;
  for (const store::FoundCheckpoint& each : line.checkpoints) {
    bytes += each.bytes;
  }
  return bytes;
}

/// "900 to 1000".
std::string checkpoints_text(const RewoundLine& line) {
  if (!line.problem.empty()) {
    return "unreadable";
  }
  if (line.checkpoints.empty()) {
    return "-";
  }
  const std::string first = printable(line.checkpoints.front().name);
  return line.checkpoints.size() == 1
             ? first
             : fmt::format("{} to {}", first, printable(line.checkpoints.back().name));
}

void write_rewound(JsonWriter& json, const Rewound& rewound) {
  json.key("rewound").begin_object().key("lines").begin_list();
  for (const RewoundLine& line : rewound.lines) {
    json.begin_object().key("name").value(line.name).key("rewound").value(store::utc(line.time));
    json.key("checkpoints").begin_list();
    for (const store::FoundCheckpoint& each : line.checkpoints) {
      json.begin_object(JsonLayout::line).key("name").value(each.name).key("class").value(name(each.kind));
      json.key("bytes").value(each.bytes).end();
    }
    json.end();
    if (!line.problem.empty()) {
      json.key("problem").value(line.problem);
    }
    json.end();
  }
  json.end().key("notes").begin_list();
  for (const std::string& note : rewound.notes) {
    json.value(note);
  }
  json.end().end();
}

/// Holds what lies in a directory, and what of it goes.
struct RewoundAnswer {
  Rewound rewound;
  std::size_t lines = 0;  ///< That go, or are gone.
  std::uint64_t bytes = 0;
  std::vector<std::string> kept;  ///< Why the others are not.
  bool is_dry = true;
};

RewoundAnswer answer_of(const Arguments& arguments) {
  RewoundAnswer answer;
  answer.rewound = find_rewound(arguments.path);
  answer.is_dry = !arguments.removes;
  const io::Directory root = open_root(arguments.path);
  ProgressBar bar(stderr);
  std::uint64_t total_bytes = 0;
  for (const RewoundLine& line : answer.rewound.lines) {
    total_bytes += bytes_of(line);
  }
  for (const RewoundLine& line : answer.rewound.lines) {
    bar.update(answer.bytes, total_bytes);
    std::vector<std::string> kept;
    try {
      if (!answer.is_dry) {
        kept = training::remove_rewound(root, line.name, store::system_random);
      }
    } catch (const Error& error) {
      kept.emplace_back(error.what());
    }
    if (kept.empty()) {
      ++answer.lines;
      answer.bytes += bytes_of(line);
    }
    answer.kept.insert(answer.kept.end(), kept.begin(), kept.end());
  }
  return answer;
}

Report report_of(const std::filesystem::path& path, const RewoundAnswer& answer) {
  Report report;
  report.line(path_text(path));
  report.member("path", text_cell(path.string()));
  report.member("is_dry_run", flag_cell(answer.is_dry, ""));
  add_rewound(report, answer.rewound);
  report.line(fmt::format("{} {}, {}", answer.is_dry ? "would remove" : "removed",
                          count_text(answer.lines, "rewound line"), size_text(answer.bytes)));
  if (answer.is_dry && answer.lines != 0) {
    report.line("nothing was changed; use --remove to apply");
  }
  report.member("removed", count_cell(answer.lines));
  report.member("removed_bytes", size_cell(answer.bytes));
  report.members([&answer](JsonWriter& json) {
    json.key("kept").begin_list();
    for (const std::string& each : answer.kept) {
      json.value(each);
    }
    json.end();
  });
  return report;
}

}  // namespace

Rewound find_rewound(const std::filesystem::path& path) {
  return training::list_rewound(open_root(path));
}

void add_rewound(Report& report, const Rewound& rewound) {
  ReportTable table{{{"REWOUND LINE"}, {"REWOUND"}, {"CHECKPOINTS"}, {"COUNT", true}, {"SIZE", true}}, {}};
  for (const RewoundLine& each : rewound.lines) {
    table.rows.push_back({"",
                          {{each.name},
                           {store::utc(each.time)},
                           {checkpoints_text(each)},
                           {count_text(each.checkpoints.size())},
                           {size_text(bytes_of(each))}}});
  }
  report.table(std::move(table));
  for (const std::string& note : rewound.notes) {
    report.line(printable(note));
  }
  report.members([rewound](JsonWriter& json) { write_rewound(json, rewound); });
}

int prune_rewound(const Arguments& arguments, Output& out) {
  const RewoundAnswer answer = answer_of(arguments);
  report_of(arguments.path, answer).answer(out, arguments.is_json);
  if (answer.kept.empty()) {
    return 0;
  }
  out.flush();
  const std::size_t others = answer.kept.size() - 1;
  complain(fmt::format("{}{}", answer.kept.front(),
                       others == 0 ? "" : fmt::format(" (and {})", count_text(others, "more problem"))));
  return 1;
}

int unrewind(const Arguments& arguments, Output& out) {
  std::string line = arguments.name;
  const Rewound rewound = find_rewound(arguments.path);
  if (line.empty()) {
    const auto last = std::find_if(rewound.lines.rbegin(), rewound.lines.rend(),
                                   [](const RewoundLine& each) { return !each.checkpoints.empty(); });
    if (last == rewound.lines.rend()) {
      throw Error(Errc::not_found, fmt::format("nothing of {} was rewound", path_text(arguments.path)));
    }
    line = last->name;
  }
  const training::BroughtBack back = training::bring_back(open_root(arguments.path), line);
  if (arguments.is_json) {
    JsonWriter json = json_to(out);
    json.begin_object().key("path").value(arguments.path.string()).key("line").value(line);
    json.key("checkpoints").begin_list();
    for (const std::string& each : back.checkpoints) {
      json.value(each);
    }
    json.end();
    if (back.images_given_up_from) {
      json.key("images_given_up_from").value(*back.images_given_up_from);
    }
    json.end();
    return 0;
  }
  for (const std::string& each : back.checkpoints) {
    out.print("brought back  {}\n", path_text(arguments.path / each));
  }
  if (back.images_given_up_from) {
    out.print("discarded     all earlier steps in memory from {} on\n", *back.images_given_up_from);
  }
  return 0;
}

}  // namespace cairn::cli
