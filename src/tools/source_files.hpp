// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"

#include "array_store/internal/reader.hpp"
#include "formats/internal/index.hpp"
#include "staging/internal/data_plane.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"

namespace cairn::tools {

/// The files of a checkpointable, as a source has them. The plane outlives what reads them.
class SourceFiles final : public array_store::StoredFiles {
 public:
  SourceFiles(staging::DataPlane& plane, std::shared_ptr<const store::Source> source, std::string directory)
      : plane_(plane), source_(std::move(source)), directory_(std::move(directory)) {}

  [[nodiscard]] std::filesystem::path directory() const override { return source_->root() / directory_; }
  [[nodiscard]] std::vector<std::string> names() const override { return source_->files(directory_); }
  [[nodiscard]] std::string named_file() const override { return source_->named_file(); }
  [[nodiscard]] std::optional<std::uint64_t> size_bytes(std::string_view file) const override {
    return source_->file_bytes(relative(file));
  }
  [[nodiscard]] Awaitable<std::string> read(std::string file) const override;
  [[nodiscard]] Awaitable<> read_pieces(std::string file,
                                        std::vector<DestinationPiece> pieces) const override;
  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map(std::string_view file) const override {
    return source_->map_file(relative(file));
  }

 private:
  [[nodiscard]] std::string relative(std::string_view file) const;

  staging::DataPlane& plane_;
  const std::shared_ptr<const store::Source> source_;
  const std::string directory_;
};

/// Opens the index of files that `own` reads; of another program's by that layout, or by the built-in one that
/// recognises them. Blocks.
///
/// Errors: as array_store::open_index.
[[nodiscard]] formats::Index open_index(const staging::OwnPlane& own,
                                        std::shared_ptr<const SourceFiles> files,
                                        std::shared_ptr<const array_store::FileLayout> layout);

}  // namespace cairn::tools
