// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/observe/report.hpp"

#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "observe/internal/meter.hpp"
#include "observe/internal/trace_recorder.hpp"

namespace cairn {
namespace {

using nlohmann::json;
using observe::TraceRecorder;
using observe::TraceSpan;
using ::testing::AllOf;
using testing::Blob;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::kMebi;
using testing::make_blob;
using testing::read_text;

/// One complete event; times in nanoseconds.
struct Event {
  std::string name;
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  json arguments;
};

std::int64_t nanoseconds_of(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

std::vector<Event> events_of(const std::string& text) {
  std::vector<Event> events;
  const json whole = json::parse(text);
  for (const json& each : whole.at("traceEvents")) {
    if (each.at("ph") == "X") {
      const std::int64_t begin = nanoseconds_of(each.at("ts"));
      events.push_back({each.at("name"), each.at("tid"), begin, begin + nanoseconds_of(each.at("dur")),
                        each.value("args", json::object())});
    }
  }
  return events;
}

std::map<std::int64_t, std::string> rows_of(const std::string& text) {
  std::map<std::int64_t, std::string> rows;
  const json whole = json::parse(text);
  for (const json& each : whole.at("traceEvents")) {
    if (each.at("ph") == "M" && each.at("name") == "thread_name") {
      rows[each.at("tid")] = each.at("args").at("name");
    }
  }
  return rows;
}

std::uint64_t bytes_of(const std::vector<Event>& events, std::string_view name) {
  std::uint64_t bytes = 0;
  for (const Event& event : events) {
    if (event.name == name) {
      bytes += event.arguments.at("bytes").get<std::uint64_t>();
    }
  }
  return bytes;
}

/// Returns whether two events of one row lie apart, or one within the other.
bool are_nested(const Event& a, const Event& b) {
  const bool is_apart = a.end <= b.begin || b.end <= a.begin;
  const bool is_within = (a.begin <= b.begin && b.end <= a.end) || (b.begin <= a.begin && a.end <= b.end);
  return is_apart || is_within;
}

bool rows_are_nested(const std::vector<Event>& events) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (events[i].row == events[j].row && !are_nested(events[i], events[j])) {
        return false;
      }
    }
  }
  return true;
}

TraceSink into(std::string& text) {
  return [&text](std::string_view trace) { text = trace; };
}

class SaveTrace : public testing::Observed {
 protected:
  std::string trace_of(const Blob& blob, Snapshot snapshot = Snapshot::copy) {
    std::string text;
    SaveOptions options;
    options.snapshot = snapshot;
    options.trace = into(text);
    static_cast<void>(save(blob, options));
    return text;
  }
};

TEST_F(SaveTrace, ShowsEveryStepAndEveryKindOfWork) {
  std::set<std::string> names;
  for (const Event& event : events_of(trace_of(make_blob(9 * kMebi)))) {
    names.insert(event.name);
  }

  for (const char* expected :
       {"resolve", "stage", "background", "read_back", "describe", "sync_directories", "rename",
        "sync_parent", "retire", "create", "copy", "hash", "write", "sync"}) {
    EXPECT_THAT(names, Contains(expected));
  }
  EXPECT_THAT(names, Contains("save of " + target().string()));
}

TEST_F(SaveTrace, AccountsForEveryByteOfTheFiles) {
  const auto events = events_of(trace_of(make_blob(21 * kMebi + 5)));

  EXPECT_EQ(bytes_of(events, "copy"), 21 * kMebi + 5);
  EXPECT_EQ(bytes_of(events, "hash"), 21 * kMebi + 5);
  EXPECT_EQ(bytes_of(events, "write"), 21 * kMebi + 5);
}

TEST_F(SaveTrace, OfBorrowedMemoryAccountsForItToo) {
  const auto events = events_of(trace_of(make_blob(21 * kMebi + 5), Snapshot::borrow));

  EXPECT_EQ(bytes_of(events, "hash"), 21 * kMebi + 5);
  EXPECT_EQ(bytes_of(events, "write"), 21 * kMebi + 5);
}

TEST_F(SaveTrace, NestsTheSpansOfEachRow) {
  EXPECT_TRUE(rows_are_nested(events_of(trace_of(make_blob(40 * kMebi)))));
}

TEST_F(SaveTrace, HasNoNegativeDurations) {
  for (const Event& event : events_of(trace_of(make_blob(9 * kMebi)))) {
    EXPECT_GE(event.end, event.begin) << event.name;
  }
}

TEST_F(SaveTrace, NamesTheRowOfEveryEvent) {
  const std::string text = trace_of(make_blob(9 * kMebi));
  const auto rows = rows_of(text);

  for (const Event& event : events_of(text)) {
    EXPECT_TRUE(rows.contains(event.row)) << event.name;
  }
}

TEST_F(SaveTrace, NamesFileAndOffsetOfATransfer) {
  std::set<std::uint64_t> offsets;
  for (const Event& event : events_of(trace_of(make_blob(9 * kMebi)))) {
    if (event.name == "write") {
      EXPECT_EQ(event.arguments.at("file"), "blob/blob.bin");
      offsets.insert(event.arguments.at("offset").get<std::uint64_t>());
    }
  }

  EXPECT_THAT(offsets, ElementsAre(0, 4 * kMebi, 8 * kMebi));
}

TEST_F(SaveTrace, NamesOffsetsThatFollowEachOther) {
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>>
      parts;  // Of each kind of work: offset -> end.
  for (const Event& event : events_of(trace_of(make_blob(9 * kMebi)))) {
    if (event.arguments.value("file", "") == "blob/blob.bin") {
      const auto offset = event.arguments.at("offset").get<std::uint64_t>();
      parts[event.name][offset] = offset + event.arguments.at("bytes").get<std::uint64_t>();
    }
  }

  for (const char* work : {"create", "copy", "hash", "write", "sync"}) {
    std::uint64_t end = 0;
    for (const auto& [offset, part_end] : parts[work]) {
      EXPECT_EQ(offset, end) << work;
      end = part_end;
    }
    EXPECT_FALSE(parts[work].empty()) << work;
  }
}

TEST_F(SaveTrace, GoesIntoAFile) {
  SaveOptions options;
  options.trace = trace_to_file(directory_ / "trace.json");

  static_cast<void>(save(make_blob(kMebi), options));

  EXPECT_FALSE(events_of(read_text(directory_ / "trace.json")).empty());
}

TEST(TraceToFile, SaysWhyItCannotBeWritten) {
  const TraceSink sink = trace_to_file("/dev/full");

  EXPECT_THAT([&] { sink("{}"); }, testing::FailsWithErrno(ENOSPC, HasSubstr("/dev/full")));
}

TEST_F(SaveTrace, ThatCannotBeWrittenIsAProblemAndNoFailure) {
  const Blob blob = make_blob(kMebi);
  SaveOptions options;
  options.trace = trace_to_file(directory_ / "nowhere/trace.json");

  const SaveResult result = save(blob, options);

  EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("trace"), HasSubstr("nowhere"))));
  EXPECT_EQ(load().take<Blob>("blob"), blob);
}

TEST_F(SaveTrace, WhoseSinkThrowsWhateverItLikesIsAProblemAndNoFailure) {
  SaveOptions options;
  options.trace = [](std::string_view) { throw 42; };

  EXPECT_THAT(save(make_blob(kMebi), options).problems, ElementsAre(HasSubstr("the trace is lost")));
}

RegistrySnapshot broken_registry() {
  HandlerRegistry registry;
  registry.add<testing::LateFailure>();
  return registry.snapshot();
}

TEST_F(SaveTrace, IsDeliveredAfterAFailure) {
  const Blob blob = make_blob(kMebi);
  std::string text;
  SaveOptions options;
  options.trace = into(text);

  EXPECT_THAT(
      [&] {
        core::start_save(target(), {{"blob", blob}}, broken_registry(), options, *context_).wait();
      },
      Fails(Errc::shape_mismatch));
  EXPECT_FALSE(events_of(text).empty());
}

TEST_F(SaveTrace, ThatIsLostAfterAFailureIsMentionedByTheError) {
  const Blob blob = make_blob(kMebi);
  SaveOptions options;
  options.trace = [](std::string_view) { throw std::runtime_error("sink is full"); };

  EXPECT_THAT(
      [&] {
        core::start_save(target(), {{"blob", blob}}, broken_registry(), options, *context_).wait();
      },
      Fails(Errc::shape_mismatch, HasSubstr("sink is full")));
}

class LoadTrace : public testing::Observed {};

TEST_F(LoadTrace, NamesTheFileOfARead) {
  static_cast<void>(save(make_blob(5 * kMebi)));
  std::string text;
  LoadOptions options;
  options.trace = into(text);

  static_cast<void>(load(options));

  std::set<std::string> files;
  for (const Event& event : events_of(text)) {
    if (event.name == "read") {
      files.insert(event.arguments.at("file").get<std::string>());
    }
  }
  EXPECT_THAT(files, ElementsAre("blob/blob.bin"));
}

TEST_F(LoadTrace, ShowsReadsAndChecksOfEveryByte) {
  static_cast<void>(save(make_blob(21 * kMebi + 5)));
  std::string text;
  LoadOptions options;
  options.trace = into(text);

  static_cast<void>(load(options));

  const auto events = events_of(text);
  EXPECT_EQ(bytes_of(events, "read"), 21 * kMebi + 5);
  EXPECT_EQ(bytes_of(events, "verify"), 21 * kMebi + 5);
  EXPECT_TRUE(rows_are_nested(events));
}

TEST_F(LoadTrace, ThatIsLostIsAProblemAndNoFailure) {
  static_cast<void>(save(make_blob(kMebi)));
  LoadOptions options;
  options.trace = [](std::string_view) { throw std::runtime_error("sink is full"); };

  EXPECT_THAT(load(options).result().problems, ElementsAre(HasSubstr("sink is full")));
}

TEST(MeterWithoutASink, RecordsNothing) {
  const testing::TickingClock clock;
  const observe::Meter meter(clock, clock.steady_now(), "save", nullptr);

  EXPECT_EQ(meter.trace(), nullptr);
}

TraceSpan span(std::string_view name, int begin, int end) {
  using std::chrono::steady_clock;
  TraceSpan span;
  span.name = name;
  span.begin = steady_clock::time_point(std::chrono::nanoseconds(begin));
  span.end = steady_clock::time_point(std::chrono::nanoseconds(end));
  return span;
}

TEST(TraceRecorderTransfers, LieInAsManyRowsAsOverlap) {
  TraceRecorder recorder("save");
  recorder.add_transfer(span("write", 0, 10));
  recorder.add_transfer(span("write", 5, 15));
  recorder.add_transfer(span("write", 10, 20));

  const auto events = events_of(recorder.json());

  std::set<std::int64_t> rows;
  for (const Event& event : events) {
    rows.insert(event.row);
  }
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows_are_nested(events));
}

TEST(TraceRecorder, WritesNamesThatAreNoText) {
  TraceRecorder recorder("save of \xff\"\n");
  TraceSpan odd = span("write", 0, 1);
  odd.file = "a\\\xfe";
  recorder.add_transfer(std::move(odd));

  EXPECT_EQ(events_of(recorder.json()).size(), 1u);
}

TEST(TraceRecorder, NamesTheRowOfAThreadOnce) {
  TraceRecorder recorder("save");
  recorder.add_work(span("copy", 0, 1));
  recorder.add_work(span("hash", 1, 2));

  const auto trace = json::parse(recorder.json());
  std::map<std::int64_t, int> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") {
      ++names[event.at("tid").get<std::int64_t>()];
    }
  }

  EXPECT_EQ(names.at(::gettid()), 1);
}

TEST(TraceRecorder, GivesEachThreadARow) {
  TraceRecorder recorder("save");
  constexpr int kThreads = 4;
  constexpr int kSpans = 1000;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&recorder] {
        for (int at = 0; at < kSpans; ++at) {
          recorder.add_work(span("copy", at, at + 1));
        }
      });
    }
  }

  std::map<std::int64_t, int> spans;
  for (const Event& event : events_of(recorder.json())) {
    ++spans[event.row];
  }
  std::size_t full = 0;
  for (const auto& [row, count] : spans) {
    full += static_cast<std::size_t>(count) / kSpans;
  }
  EXPECT_EQ(full, kThreads);
}

}  // namespace
}  // namespace cairn
