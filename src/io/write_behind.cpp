// SPDX-License-Identifier: Apache-2.0
#include "io/internal/write_behind.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/aligned_memory.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/direct.hpp"
#include "io/internal/engine.hpp"

namespace cairn::io {
namespace {

constexpr std::size_t kBehindBytes = std::size_t{2} << 20;
constexpr std::size_t kMostBehind = 8;
// Smaller files are not worth the threads.
constexpr std::uint64_t kMinDirectBytes = std::uint64_t{16} << 20;
// Writes that make a file longer come one after the other, so it is made longer before.
constexpr std::uint64_t kReservedBytes = std::uint64_t{256} << 20;

}  // namespace

struct WriteBehind::State {
  struct Piece : Request {
    State* state = nullptr;
    AlignedMemory memory;
    bool is_at_work = false;
    std::int64_t result = 0;
  };

  State(const Directory& directory_, std::string name_, const FileHandle& file_, std::filesystem::path path_)
      : directory(directory_), name(std::move(name_)), file(file_), path(std::move(path_)) {}

  void append(std::span<const std::byte> data) {
    while (!data.empty()) {
      Piece& piece = pieces[next];
      CAIRN_ASSERT(filled < kBehindBytes, "a piece that is full was written");
      if (piece.memory.size() == 0) {
        piece.memory = AlignedMemory(kBehindBytes);
      }
      if (filled == 0) {
        wait(piece);
      }
      const auto part = data.first(std::min(data.size(), kBehindBytes - filled));
      std::copy(part.begin(), part.end(), piece.memory.data() + filled);
      filled += part.size();
      data = data.subspan(part.size());
      if (filled == kBehindBytes) {
        write(piece);
      }
    }
  }

  void finish() {
    write_through_cache(pieces[next], filled, bytes);
    bytes += std::exchange(filled, 0);
    for (Piece& piece : pieces) {
      wait(piece);
    }
    if (reserved > bytes) {
      require(uninterrupted([&] { return file.syscalls().truncate(file.fd(), bytes); }), "ftruncate", path);
    }
  }

 private:
  void write(Piece& piece) {
    const std::uint64_t offset = bytes;
    CAIRN_ASSERT(offset % kBehindBytes == 0, "pieces are written one behind the other, whole");
    if (offset == kMinDirectBytes) {
      begin_direct();
    }
    bytes += std::exchange(filled, 0);
    if (!engine) {
      return write_through_cache(piece, kBehindBytes, offset);
    }
    if (bytes > reserved) {
      reserved = bytes + kReservedBytes;  // Where that fails the writes will say why, or do without.
      static_cast<void>(uninterrupted([&] { return file.syscalls().allocate(file.fd(), reserved); }));
    }
    CAIRN_ASSERT(!piece.is_at_work, "the memory of a piece is not used while it is written");
    piece.operation = Operation::write;
    piece.fd = direct.fd();
    piece.data = piece.memory.data();
    piece.size = kBehindBytes;
    piece.offset = offset;
    piece.is_direct = true;
    piece.done = &written;
    piece.state = this;
    piece.is_at_work = true;
    engine->submit(piece);
    next = (next + 1) % kMostBehind;
  }

  void begin_direct() {
    std::string refusal;
    direct = open_direct(directory, name, file, refusal);
    if (!direct.is_open()) {
      CAIRN_PROBE("io.write_behind_through_cache");
      return;
    }
    EngineOptions options;
    options.threads = kMostBehind;
    options.syscalls = &file.syscalls();
    try {
      engine = make_engine(EngineKind::threads, options).engine;
    } catch (const Error&) {
      CAIRN_PROBE("io.write_behind_without_threads");
      // No thread is to be had: the page cache has the rest.
    }
  }

  static void written(Request& request, std::int64_t result) noexcept {
    auto& piece = static_cast<Piece&>(request);
    State& state = *piece.state;
    const MutexLock lock(state.mutex);
    piece.result = result;
    piece.is_at_work = false;
    state.changed.notify_one();
  }

  /// Waits until the memory of a piece may be used again.
  void wait(Piece& piece) {
    {
      MutexLock lock(mutex);
      changed.wait(lock, [&piece] { return !piece.is_at_work; });
    }
    const std::size_t size = std::exchange(piece.size, 0);
    if (piece.result != static_cast<std::int64_t>(size)) {
      CAIRN_PROBE("io.write_behind_again");
      write_through_cache(piece, size, piece.offset);  // Which tries again, or says what is wrong.
    }
    piece.result = 0;
  }

  void write_through_cache(const Piece& piece, std::size_t size, std::uint64_t offset) {
    write_all(file, piece.memory.bytes().first(size), offset, path);
  }

  const Directory& directory;
  const std::string name;
  const FileHandle& file;
  const std::filesystem::path path;
  std::uint64_t bytes = 0;  ///< Of the pieces that are full.
  std::uint64_t reserved = 0;
  std::size_t filled = 0;  ///< Of the next piece.
  std::size_t next = 0;
  Mutex mutex;  ///< Of what `written` sets.
  Condition changed;
  std::array<Piece, kMostBehind> pieces;
  FileHandle direct;
  std::unique_ptr<Engine> engine;  ///< Last: its destructor waits.
};

WriteBehind::WriteBehind(const Directory& directory, std::string name, const FileHandle& file,
                         std::filesystem::path path)
    : state_(std::make_unique<State>(directory, std::move(name), file, std::move(path))) {}

WriteBehind::~WriteBehind() = default;

void WriteBehind::append(std::span<const std::byte> bytes) {
  state_->append(bytes);
}

void WriteBehind::finish() {
  state_->finish();
}

}  // namespace cairn::io
