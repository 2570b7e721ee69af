// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/array_reader.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/internal/reader.hpp"
#include "async/internal/event.hpp"
#include "async/internal/start.hpp"
#include "formats/internal/index.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"
#include "tools/source_files.hpp"

namespace cairn {
namespace {

using array_store::StoredFiles;

using FileLayoutPointer = std::shared_ptr<const array_store::FileLayout>;

/// Finds the elements of what is wanted, where the layout of another program's files has not said yet where they lie.
Awaitable<> locate(std::shared_ptr<const StoredFiles> files, FileLayoutPointer layout, formats::Index index,
                   std::vector<array_store::WantedArray> wanted, std::optional<formats::Index>* located) {
  Awaitable<formats::Index> locating = array_store::locate_wanted(std::move(files), std::move(layout),
                                                                  std::move(index), std::move(wanted), {});
  located->emplace(co_await std::move(locating));
}

/// Returns whether a checkpointable may have arrays: files of other programs have no index of ours.
bool may_have_arrays(const store::Source& source, const store::SourceItem& item) {
  return source.manifest() == nullptr ||
         source.file_bytes(fmt::format("{}/{}", item.directory, array_store::kIndexFile)).has_value();
}

}  // namespace

struct ArrayReader::State {
  State(const std::filesystem::path& path, const std::string& name, const ArrayReaderOptions& options)
      : source(store::open_source(io::posix_syscalls(), path)),
        own(io::posix_syscalls(), std::max<std::size_t>(std::thread::hardware_concurrency(), 1)) {
    if (source->manifest() == nullptr) {
      layout = array_store::find_layout(source->files(""), options.layouts, options.layout);
    }
    std::vector<std::string_view> names;
    std::vector<std::string_view> chosen;
    for (const store::SourceItem& item : source->items()) {
      names.emplace_back(item.name);
      if (name.empty() ? may_have_arrays(*source, item) : item.name == name) {
        open(item, name.empty(), chosen);
      }
    }
    if (chosen.empty()) {
      throw Error(Errc::not_found, fmt::format("{} has no checkpointable '{}' with arrays; it has: {}",
                                               source->path().string(), name, fmt::join(names, ", ")));
    }
    if (chosen.size() > 1) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{} has several checkpointables with arrays, choose one: {}",
                              source->path().string(), fmt::join(chosen, ", ")));
    }
    index->check_numbers();
  }

  /// Opens the index of a checkpointable, and keeps it unless it has to have arrays and has none.
  void open(const store::SourceItem& item, bool must_have_arrays, std::vector<std::string_view>& chosen) {
    auto opened = std::make_shared<const tools::SourceFiles>(own.plane(), source, item.directory);
    formats::Index its_index = tools::open_index(own, opened, layout);
    if (!must_have_arrays || its_index.array_count() > 0) {
      chosen.emplace_back(item.name);
      files = std::move(opened);
      index = std::move(its_index);
    }
  }

  [[nodiscard]] formats::IndexEntry entry(std::string_view array) const {
    const std::optional<std::size_t> found = index->find(array);
    if (!found || index->entry(*found).kind != formats::EntryKind::array) {
      throw Error(Errc::not_found,
                  fmt::format("{} has no array {}", files->directory().string(), formats::shown(array)));
    }
    return index->entry(*found);
  }

  const std::shared_ptr<const store::Source> source;
  staging::OwnPlane own;
  FileLayoutPointer layout;  // Of files of other programs.
  std::shared_ptr<const StoredFiles> files;
  std::optional<formats::Index> index;
};

struct ArrayReading::State {
  State() = default;
  ~State() { static_cast<void>(ended.wait_for(std::chrono::nanoseconds::max())); }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::shared_ptr<const void> reader;  // Whose threads read.
  std::vector<Array> arrays;           // What they read to.
  async::Event ended = async::Event::happened();
};

ArrayReading::ArrayReading(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

const std::vector<Array>& ArrayReading::wait() const& {
  state_->ended.get();
  return state_->arrays;
}

ArrayReader::ArrayReader(const std::filesystem::path& path, const std::string& checkpointable,
                         const ArrayReaderOptions& options)
    : state_(std::make_shared<const State>(path, checkpointable, options)) {}

std::vector<std::string> ArrayReader::names() const {
  std::vector<std::string> names;
  formats::IndexArray array;
  for (std::size_t i = 0; state_->index->next_array(i, array); ++i) {
    names.emplace_back(array.name);
  }
  return names;
}

AbstractArray ArrayReader::form(std::string_view array) const {
  const formats::IndexArray stored = state_->index->array(state_->entry(array));
  return {Shape(stored.dims), stored.dtype};
}

Array ArrayReader::read(std::string_view array) const {
  return read(array, Box::whole(form(array).shape));
}

Array ArrayReader::read(std::string_view array, const Box& box) const {
  const AbstractArray stored = form(array);
  WantedBoxes boxes;
  boxes.try_emplace(std::string(array), stored.shape, stored.dtype).first->second.want(box);
  return start(boxes).wait().front();
}

ArrayReading ArrayReader::start(const WantedBoxes& boxes) const {
  std::vector<array_store::WantedArray> wanted;
  for (const auto& [name, of_array] : boxes) {
    wanted.push_back({state_->entry(name), nullptr, &of_array});
  }
  std::optional<formats::Index> located;
  async::start(state_->own.strand(), locate(state_->files, state_->layout, *state_->index, wanted, &located))
      .get();
  array_store::ReadPlan plan = array_store::plan_read(*located, wanted, {}, *state_->files);
  const auto reading = std::make_shared<ArrayReading::State>();
  reading->reader = state_;
  reading->arrays = std::move(plan.arrays);
  reading->ended = async::start(
      state_->own.strand(), array_store::read(state_->files, std::move(plan.pieces), std::move(plan.notes)));
  return ArrayReading(reading);
}

}  // namespace cairn
