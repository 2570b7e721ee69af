// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/internal/reader.hpp"
#include "array_store/layouts/layouts.hpp"
#include "base/internal/aligned_memory.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/hugging_face.hpp"
#include "formats/internal/index.hpp"

namespace cairn::array_store {
namespace {

using Files = std::shared_ptr<const StoredFiles>;

Awaitable<formats::Index> open_own(Files files, std::uint64_t size) {
  const auto memory = std::make_shared<AlignedMemory>(static_cast<std::size_t>(size));
  PiecesByFile pieces;
  if (size > 0) {
    DestinationPiece piece;
    piece.size_bytes = size;
    piece.data = memory->data();
    piece.owner = memory;
    pieces[std::string(kIndexFile)].push_back(std::move(piece));
  }
  NotesByFile none;
  Awaitable<> reading = files->read_files(std::move(pieces), std::move(none));
  async::require_coroutine(reading, "'read_files'");
  co_await std::move(reading);
  co_return formats::Index::open(memory, std::span<const std::byte>(memory->data(), memory->size()),
                                 full_path(*files, kIndexFile));
}

Awaitable<formats::Index> open_foreign(Files files, OpenOptions options) {
  std::shared_ptr<const FileLayout> layout = options.layout;
  if (layout == nullptr) {
    layout = find_layout(files->names(), {});
  }
  if (layout == nullptr) {
    throw Error(
        Errc::not_found,
        fmt::format("{}: there is neither an {} nor a safetensors file, nor another that is looked for: a "
                    ".metadata of torch's, one .pt, .pth, .bin or .ckpt",
                    files->directory().string(), kIndexFile));
  }
  Awaitable<formats::ForeignCatalogue> describing = layout->describe(files, std::move(options));
  async::require_coroutine(describing, "'describe'");
  formats::ForeignCatalogue catalogue = co_await std::move(describing);
  catalogue.layout = layout->name();
  co_return formats::make_index(std::move(catalogue), files->directory().string());
}

}  // namespace

std::string full_path(const StoredFiles& files, std::string_view file) {
  return (files.directory() / file).string();
}

bool is_safetensors(std::string_view file) noexcept {
  return file.ends_with(".safetensors") && file.find('/') == std::string_view::npos;
}

bool is_safetensors_index(std::string_view file) noexcept {
  return formats::is_hugging_face_index(file);
}

Awaitable<formats::Index> open_index(std::shared_ptr<const StoredFiles> files, OpenOptions options) {
  if (const auto size = files->size_bytes(kIndexFile)) {
    return open_own(std::move(files), *size);
  }
  return open_foreign(std::move(files), std::move(options));
}

}  // namespace cairn::array_store
