// SPDX-License-Identifier: Apache-2.0
#include "mpi/shared_loads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "cairn/base/error.hpp"
#include "cairn/contract/handler.hpp"

#include "core/internal/start.hpp"
#include "core/rank_parts.hpp"
#include "mpi/require.hpp"
#include "mpi/saver.hpp"
#include "mpi/transport_scenes.hpp"
#include "support/noise.hpp"

namespace cairn::testing {
namespace {

constexpr std::size_t kRows = 1024;
constexpr std::size_t kRowBytes = 3072;  // Two, three and four ranks have columns of one width.

/// What a rank has of files, by their names.
struct Slices {
  std::map<std::string, std::string> by_file;
};

std::string name_of(std::size_t rank) {
  return fmt::format("slice-{}", rank);
}

std::string content_of(std::size_t rank) {
  const std::vector<std::byte> bytes = noise(kRows * kRowBytes, static_cast<unsigned>(rank + 1));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Each rank saves one file, and loads what it wants of all.
class SlicesHandler final : public CheckpointableHandler<Slices> {
 public:
  explicit SlicesHandler(bool has_columns) : has_columns_(has_columns) {}

  std::string_view id() const noexcept override { return "test.slices/1"; }
  Participation participation() const noexcept override { return Participation::all; }

  // outlives: the caller keeps the slices during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Slices& own) const override {
    const auto& file = *own.by_file.begin();
    co_return write(std::move(context), file.first, file.second);
  }

  Awaitable<Background<Slices>> load(LoadContext context, std::optional<Slices>) const override {
    co_return read(std::move(context), has_columns_);
  }

  Awaitable<Slices> metadata(LoadContext) const override { co_return Slices(); }

 private:
  static Background<> write(SaveContext context, std::string name, std::string text) {
    co_await context.write_file(std::move(name), std::move(text));
  }

  static Background<Slices> read(LoadContext context, bool has_columns) {
    const std::size_t rows = has_columns ? kRows : 1;
    const std::size_t row_bytes = kRows * kRowBytes / rows;
    const std::size_t width = has_columns ? row_bytes / context.coordinator().size() : row_bytes;
    const std::size_t first = has_columns ? width * context.coordinator().rank() : 0;
    Slices slices;
    PiecesByFile pieces;
    for (const std::string& file : context.files()) {
      std::string& text = slices.by_file[file];
      text.resize(rows * width);
      for (std::size_t row = 0; row < rows; ++row) {
        DestinationPiece piece;
        piece.offset_bytes = row * row_bytes + first;
        piece.size_bytes = width;
        piece.data = reinterpret_cast<std::byte*>(text.data()) + row * width;
        pieces[file].push_back(std::move(piece));
      }
    }
    co_await context.read_files(std::move(pieces));
    co_return slices;
  }

  const bool has_columns_;
};

/// What a rank finds of a file of which it wants all, or its columns.
std::string wanted_of(const std::string& content, bool has_columns, const coord::Coordinator& coordinator) {
  if (!has_columns) {
    return content;
  }
  const std::size_t width = kRowBytes / coordinator.size();
  std::string wanted;
  for (std::size_t row = 0; row < kRows; ++row) {
    wanted += content.substr(row * kRowBytes + width * coordinator.rank(), width);
  }
  return wanted;
}

class SlicesOfRank {
 public:
  explicit SlicesOfRank(std::shared_ptr<coord::Coordinator> coordinator)
      : coordinator_(std::move(coordinator)) {
    ContextOptions options;
    options.coordinator = coordinator_;
    options.engine = io::EngineKind::threads;
    options.syscalls = syscalls_;
    context_.emplace(std::move(options));
  }

  [[nodiscard]] RankSyscalls& syscalls() { return *syscalls_; }

  void save(const std::filesystem::path& target) const {
    Slices own;
    own.by_file.emplace(name_of(coordinator_->rank()), content_of(coordinator_->rank()));
    core::start_save(target, {{"slices", own}}, registry(false), SaveOptions(), *context_).wait();
  }

  /// Returns what was not to be had.
  std::vector<std::string> load(const std::filesystem::path& target, bool has_columns) const {
    LoadOptions options;
    options.together = true;
    options.deadline = 2 * kLostAfter;
    Loaded loaded = core::start_load(target, {}, registry(has_columns), options, *context_).wait();
    const Slices slices = loaded.take<Slices>("slices");
    require(slices.by_file.size() == coordinator_->size(), "it has loaded the files of all");
    for (std::size_t rank = 0; rank < coordinator_->size(); ++rank) {
      require(slices.by_file.at(name_of(rank)) == wanted_of(content_of(rank), has_columns, *coordinator_),
              fmt::format("it has loaded what rank {} has saved", rank));
    }
    return loaded.result().fallbacks;
  }

 private:
  static RegistrySnapshot registry(bool has_columns) {
    HandlerRegistry handlers;
    handlers.add(std::make_shared<const SlicesHandler>(has_columns));
    return handlers.snapshot();
  }

  const std::shared_ptr<coord::Coordinator> coordinator_;
  const std::shared_ptr<RankSyscalls> syscalls_ = std::make_shared<RankSyscalls>();
  std::optional<Context> context_;
};

bool has_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:cairn-") != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

void load_shared(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  SlicesOfRank slices(coordinator);
  slices.save(directory.target());
  std::atomic<bool> has_shared{false};
  slices.syscalls().before_large_read = [&] {
    if (has_shared_memory()) {
      has_shared = true;
    }
  };
  for (const bool has_columns : {false, true}) {
    has_shared = false;
    const std::vector<std::string> fallbacks = slices.load(directory.target(), has_columns);
    require(has_shared == !is_each_apart, "ranks of one machine share memory, and others do not");
    require(std::none_of(fallbacks.begin(), fallbacks.end(),
                         [](const std::string& text) { return text.find("share") != std::string::npos; }),
            "nothing was refused");
  }
  require(!has_shared_memory(), "nothing is left of it");
  MPI_Barrier(MPI_COMM_WORLD);
}

void load_shared_killed(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  const std::size_t last = coordinator->size() - 1;
  SlicesOfRank slices(coordinator);
  slices.save(directory.target());
  std::atomic<int> reads{0};
  if (coordinator->rank() == last) {
    slices.syscalls().before_large_read = [&] {
      if (++reads == 2) {
        ::raise(SIGKILL);
      }
    };
  }
  const auto begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    slices.load(directory.target(), true);
  } catch (const Error& error) {
    require(error.code() == Errc::peer_lost, error.what());
    text = error.what();
  }
  require(text.find(fmt::format("rank {} is lost", last)) != std::string::npos, text);
  require(std::chrono::steady_clock::now() - begin < 4 * kSoonLostAfter, "in time");
  if (coordinator->rank() == 0) {
    std::filesystem::remove_all(directory.path());
  }
  survive(coordinator->rank());
}

}  // namespace cairn::testing
