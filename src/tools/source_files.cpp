// SPDX-License-Identifier: Apache-2.0
#include "tools/source_files.hpp"

#include <functional>

#include <fmt/format.h>

#include "async/internal/start.hpp"
#include "staging/internal/range_reader.hpp"

namespace cairn::tools {
namespace {

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

// outlives: the caller waits for this.
Awaitable<> open_into(std::shared_ptr<const SourceFiles> files,
                      std::shared_ptr<const array_store::FileLayout> layout,
                      std::optional<formats::Index>* index) {
  array_store::OpenOptions options;
  options.layout = std::move(layout);
  Awaitable<formats::Index> opening = array_store::open_index(std::move(files), std::move(options));
  index->emplace(co_await std::move(opening));
}

}  // namespace

Awaitable<std::string> SourceFiles::read(std::string file) const {
  return read_text(&plane_, source_, relative(file));
}

Awaitable<> SourceFiles::read_pieces(std::string file, std::vector<DestinationPiece> pieces) const {
  return read_ranges(&plane_, source_, relative(file), std::move(pieces));
}

std::string SourceFiles::relative(std::string_view file) const {
  return directory_.empty() ? std::string(file) : fmt::format("{}/{}", directory_, file);
}

formats::Index open_index(const staging::OwnPlane& own, std::shared_ptr<const SourceFiles> files,
                          std::shared_ptr<const array_store::FileLayout> layout) {
  std::optional<formats::Index> index;
  async::start(own.strand(), open_into(std::move(files), std::move(layout), &index)).get();
  return std::move(*index);
}

}  // namespace cairn::tools
