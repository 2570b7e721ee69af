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
#include "cairn/array_store/reader.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"

#include "async/internal/event.hpp"
#include "async/internal/start.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "staging/internal/range_reader.hpp"
#include "store/internal/source.hpp"

namespace cairn {
namespace {

using array_store::StoredFiles;

Awaitable<> read_ranges(staging::DataPlane* plane, std::shared_ptr<const store::Source> source,
                        std::string relative, std::vector<DestinationPiece> pieces) {
  staging::RangeReader reader(*plane, source->to_read(relative, true), std::move(pieces));
  co_await reader.read();
}

Awaitable<std::string> read_text(staging::DataPlane* plane, std::shared_ptr<const store::Source> source,
                                 std::string relative) {
  std::string text;
  std::function<void()> read = [&] { text = source->read_verified(plane->engine, relative); };
  co_await plane->run_call(std::move(read));
  co_return text;
}

/// The files of a checkpointable, as a source has them. The plane outlives what reads them.
class SourceFiles final : public StoredFiles {
 public:
  SourceFiles(staging::DataPlane& plane, std::shared_ptr<const store::Source> source, std::string directory)
      : plane_(plane), source_(std::move(source)), directory_(std::move(directory)) {}

  [[nodiscard]] std::filesystem::path directory() const override { return source_->root() / directory_; }
  [[nodiscard]] std::vector<std::string> names() const override { return source_->files(directory_); }
  [[nodiscard]] std::string named_file() const override { return source_->named_file(); }
  [[nodiscard]] std::optional<std::uint64_t> size_bytes(std::string_view file) const override {
    return source_->file_bytes(relative(file));
  }
  [[nodiscard]] Awaitable<std::string> read(std::string file) const override {
    return read_text(&plane_, source_, relative(file));
  }
  [[nodiscard]] Awaitable<> read_pieces(std::string file,
                                        std::vector<DestinationPiece> pieces) const override {
    return read_ranges(&plane_, source_, relative(file), std::move(pieces));
  }
  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map(std::string_view file) const override {
    return source_->map_file(relative(file));
  }

 private:
  [[nodiscard]] std::string relative(std::string_view file) const {
    return directory_.empty() ? std::string(file) : fmt::format("{}/{}", directory_, file);
  }

  staging::DataPlane& plane_;
  const std::shared_ptr<const store::Source> source_;
  const std::string directory_;
};

Awaitable<> open_index(std::shared_ptr<const StoredFiles> files, std::optional<formats::Index>* index) {
  index->emplace(co_await array_store::open_index(std::move(files)));
}

/// Finds the elements of what is wanted, where the layout of another program's files has not said yet where they lie.
Awaitable<> locate(std::shared_ptr<const StoredFiles> files, formats::Index index,
                   std::vector<array_store::WantedArray> wanted, std::optional<formats::Index>* located) {
  std::shared_ptr<const array_store::FileLayout> layout = array_store::find_layout(files->names(), {});
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
  State(const std::filesystem::path& path, const std::string& name)
      : source(store::open_source(io::posix_syscalls(), path)),
        own(io::posix_syscalls(), std::max<std::size_t>(std::thread::hardware_concurrency(), 1)) {
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
    auto opened = std::make_shared<const SourceFiles>(own.plane(), source, item.directory);
    std::optional<formats::Index> its_index;
    async::start(own.strand(), open_index(opened, &its_index)).get();
    if (!must_have_arrays || its_index->array_count() > 0) {
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

const std::vector<Array>& ArrayReading::wait() const {
  state_->ended.get();
  return state_->arrays;
}

ArrayReader::ArrayReader(const std::filesystem::path& path, const std::string& checkpointable)
    : state_(std::make_shared<const State>(path, checkpointable)) {}

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
  async::start(state_->own.strand(), locate(state_->files, *state_->index, wanted, &located)).get();
  array_store::ReadPlan plan = array_store::plan_read(*located, wanted, {}, *state_->files);
  const auto reading = std::make_shared<ArrayReading::State>();
  reading->reader = state_;
  reading->arrays = std::move(plan.arrays);
  reading->ended = async::start(
      state_->own.strand(), array_store::read(state_->files, std::move(plan.pieces), std::move(plan.notes)));
  return ArrayReading(reading);
}

}  // namespace cairn
