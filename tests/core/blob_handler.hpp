// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/contract/handler.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

namespace cairn::testing {

/// A checkpointable of one large file, as a user's might be.
struct Blob {
  Blob() = default;
  explicit Blob(std::vector<std::byte> content) : bytes(std::move(content)) {}

  std::vector<std::byte> bytes;
  friend bool operator==(const Blob&, const Blob&) = default;
};

/// What a blob's metadata says.
struct AbstractBlob {
  AbstractBlob() = default;
  explicit AbstractBlob(std::uint64_t size_in) : size(size_in) {}

  std::uint64_t size = 0;
};

/// Bytes that differ everywhere: a counter's mixed bits.
inline Blob make_blob(std::size_t size, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    bytes[i] = static_cast<std::byte>(state >> 56);
  }
  return Blob(std::move(bytes));
}

class BlobHandler : public CheckpointableHandler<Blob, AbstractBlob> {
 public:
  std::string_view id() const noexcept override { return "test.blob/1"; }

  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    std::vector<SourcePiece> pieces;
    const std::size_t half = blob.bytes.size() / 2;
    pieces.push_back(piece(blob.bytes.data() + half, half, blob.bytes.size() - half));
    pieces.push_back(piece(blob.bytes.data(), 0, half));
    return context.write_pieces("blob.bin", std::move(pieces), blob.bytes.size());
  }

  Awaitable<Background<Blob>> load(LoadContext context, std::optional<AbstractBlob>) const override {
    co_return read(std::move(context));
  }

  Awaitable<AbstractBlob> metadata(LoadContext context) const override {
    co_return AbstractBlob(context.file_bytes("blob.bin").value_or(0));
  }

 private:
  static SourcePiece piece(const std::byte* data, std::uint64_t offset, std::uint64_t size) {
    SourcePiece piece;
    piece.data = data;
    piece.offset_bytes = offset;
    piece.size_bytes = size;
    return piece;
  }

  static Background<Blob> read(LoadContext context) {
    Blob blob;
    blob.bytes.resize(context.file_bytes("blob.bin").value_or(0));
    DestinationPiece all;
    all.data = blob.bytes.data();
    all.size_bytes = blob.bytes.size();
    std::vector<DestinationPiece> pieces;
    pieces.push_back(std::move(all));
    co_await context.read_pieces("blob.bin", std::move(pieces));
    co_return blob;
  }
};

/// A registry that knows blobs, and whatever else the test adds.
inline RegistrySnapshot blob_registry() {
  HandlerRegistry registry;
  registry.add<BlobHandler>();
  return registry.snapshot();
}

/// Fails in the background, when its file has been written.
class LateFailure final : public BlobHandler {
 public:
  // outlives: the caller keeps the blob during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    Background<> written = co_await BlobHandler::save(std::move(context), blob);
    co_return fail_after(std::move(written));
  }

 private:
  static Background<> fail_after(Background<> written) {
    co_await std::move(written);
    throw Error(Errc::shape_mismatch, "a blob that nobody likes");
  }
};

}  // namespace cairn::testing
