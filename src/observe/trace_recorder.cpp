// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/trace_recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "base/internal/json_writer.hpp"

namespace cairn::observe {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

/// Rows that are not threads; the kernel's thread numbers stay below (PID_MAX_LIMIT is 2^22).
constexpr std::int64_t kStepsRow = std::int64_t{1} << 23;
constexpr std::int64_t kFirstTransferRow = kStepsRow + 1;

/// Microseconds, exact to the nanosecond: a double would lose some after days of uptime.
std::string microseconds(std::chrono::nanoseconds time) {
  return fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000);
}

/// Events as lines of a list, in the form that chrome://tracing and Perfetto read.
class Writer {
 public:
  Writer() { json_.begin_object().key("displayTimeUnit").value("ms").key("traceEvents").begin_list(); }

  void name_row(std::int64_t row, std::string_view what, std::int64_t place) {
    begin_event("M", "thread_name", row).key("args").begin_object().key("name").value(what).end().end();
    begin_event("M", "thread_sort_index", row)
        .key("args")
        .begin_object()
        .key("sort_index")
        .value(place)
        .end()
        .end();
  }

  void add(const TraceSpan& span, std::int64_t row) {
    begin_event("X", span.name, row);
    json_.key("ts").raw(microseconds(span.begin.time_since_epoch()));
    json_.key("dur").raw(microseconds(span.end - span.begin));
    if (!span.file.empty() || span.bytes != 0) {
      json_.key("args").begin_object();
      if (!span.file.empty()) {
        json_.key("file").value(span.file).key("offset").value(span.offset_bytes);
      }
      json_.key("bytes").value(span.bytes).end();
    }
    json_.end();
  }

  [[nodiscard]] std::string finish() && {
    json_.end().end();
    return std::move(text_);
  }

 private:
  JsonWriter& begin_event(std::string_view phase, std::string_view name, std::int64_t row) {
    json_.begin_object(JsonLayout::compact).key("ph").value(phase).key("name").value(name);
    return json_.key("pid").value(pid_).key("tid").value(row);
  }

  std::int64_t pid_ = ::getpid();
  std::string text_;
  JsonWriter json_{text_, {JsonLayout::block, 0, JsonEscapes::unprintable}};
};

void write_transfers(Writer& writer, std::vector<const TraceSpan*> spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan* a, const TraceSpan* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::vector<TimePoint> free_at;  // Of each row.
  for (const TraceSpan* span : spans) {
    auto row =
        std::find_if(free_at.begin(), free_at.end(), [&](TimePoint end) { return end <= span->begin; });
    if (row == free_at.end()) {
      row = free_at.insert(free_at.end(), span->end);
    }
    *row = span->end;
    writer.add(*span, kFirstTransferRow + (row - free_at.begin()));
  }
  for (std::size_t i = 0; i < free_at.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    writer.name_row(kFirstTransferRow + place, fmt::format("in flight {}", i + 1), 1000 + place);
  }
}

}  // namespace

struct TraceRecorder::Buffer {
  std::thread::id thread = std::this_thread::get_id();
  std::int64_t number = ::gettid();
  std::string name;
  std::vector<TraceSpan> work;
  std::vector<TraceSpan> transfers;
  Buffer* next = nullptr;
};

TraceRecorder::~TraceRecorder() {
  for (Buffer* each = buffers_.load(); each != nullptr;) {
    delete std::exchange(each, each->next);
  }
}

void TraceRecorder::add_work(TraceSpan span) {
  buffer().work.push_back(std::move(span));
}

void TraceRecorder::add_transfer(TraceSpan span) {
  buffer().transfers.push_back(std::move(span));
}

TraceRecorder::Buffer& TraceRecorder::buffer() {
  const auto self = std::this_thread::get_id();
  // Acquire: the owner's fields of a buffer were written before it was put into the list.
  for (Buffer* each = buffers_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    if (each->thread == self) {
      return *each;
    }
  }
  auto fresh = std::make_unique<Buffer>();
  std::array<char, 16> text{};
  ::pthread_getname_np(::pthread_self(), text.data(), text.size());
  fresh->name = text.data();
  fresh->next = buffers_.load(std::memory_order_relaxed);
  while (!buffers_.compare_exchange_weak(fresh->next, fresh.get(), std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
  return *fresh.release();
}

std::string TraceRecorder::json() const {
  Writer writer;
  writer.name_row(kStepsRow, title_, 0);
  if (!steps_.empty()) {
    TraceSpan whole;
    whole.name = title_;
    whole.begin = steps_.front().begin;
    whole.end = steps_.back().end;
    writer.add(whole, kStepsRow);
  }
  for (const TraceSpan& step : steps_) {
    writer.add(step, kStepsRow);
  }
  std::vector<const TraceSpan*> transfers;
  for (const Buffer* each = buffers_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    for (const TraceSpan& span : each->transfers) {
      transfers.push_back(&span);
    }
    if (each->work.empty()) {
      continue;
    }
    writer.name_row(each->number, each->name, each->number % 100);
    for (const TraceSpan& span : each->work) {
      writer.add(span, each->number);
    }
  }
  write_transfers(writer, std::move(transfers));
  return std::move(writer).finish();
}

}  // namespace cairn::observe
