// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/contract/file_stream.hpp"

#include "async/internal/semaphore.hpp"
#include "contract/internal/backend.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/new_file.hpp"

namespace cairn {

/// What FileStream writes with. Its coroutines run on the strand of what moves bytes, and keep it.
class FileStream::State {
 public:
  State(std::shared_ptr<contract::SaveBackend> save, std::string relative);
  /// Closes a file that was not finished where that may take its time.
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Executor strand() const { return plane_.strand; }

  // outlives: the caller of FileStream::write keeps the bytes until it has ended
  static Awaitable<> append(std::shared_ptr<State> self, std::span<const std::byte> bytes);
  static Awaitable<> finish(std::shared_ptr<State> self);

 private:
  /// Errors: Errc::closed.
  void begin_call();
  /// Hashes and writes what was collected.
  Awaitable<> flush();

  const std::shared_ptr<contract::SaveBackend> save_;
  const std::string relative_;
  staging::DataPlane& plane_;
  std::vector<std::byte> collected_;
  std::uint64_t written_bytes_ = 0;
  io::ChunkHasher hasher_;
  async::Permit place_;
  std::unique_ptr<io::NewFile> file_;
  bool is_usable_ = true;  // Neither finished, nor left in the middle of a call.
};

}  // namespace cairn
