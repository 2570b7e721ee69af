// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "array_store/internal/reader.hpp"
#include "array_store/internal/writer.hpp"
#include "io/internal/file.hpp"
#include "io/internal/mapped_file.hpp"
#include "io/internal/syscalls.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

/// What a write makes of a file.
inline std::string written(const array_store::PlannedFile& file) {
  std::vector<SourcePiece> pieces = file.pieces;
  arrange(pieces, file.size_bytes);
  std::string text(file.size_bytes, '\0');
  gather(pieces, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// The files of a checkpointable, in memory; in a folder, too, when one is mapped.
class MemoryFiles final : public array_store::StoredFiles {
 public:
  MemoryFiles() = default;

  /// Those that `writer` makes.
  explicit MemoryFiles(array_store::Writer writer) {
    const array_store::PlannedWrite planned = std::move(writer).lay_out();
    for (const array_store::PlannedFile& file : planned.files) {
      texts[file.name] = written(file);
    }
    run(planned.index.headers_read());
    const formats::IndexBytes index = planned.index.make();
    texts[std::string(array_store::kIndexFile)] =
        std::string(reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size());
  }

  [[nodiscard]] std::filesystem::path directory() const override { return "memory"; }

  [[nodiscard]] std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, text] : texts) {
      names.push_back(name);
    }
    return names;
  }

  [[nodiscard]] std::string named_file() const override { return named; }

  [[nodiscard]] std::optional<std::uint64_t> size_bytes(std::string_view file) const override {
    const auto found = texts.find(file);
    return found == texts.end() ? std::nullopt : std::optional<std::uint64_t>(found->second.size());
  }

  [[nodiscard]] Awaitable<std::string> read(std::string file) const override { co_return texts.at(file); }

  [[nodiscard]] Awaitable<> read_pieces(std::string file,
                                        std::vector<DestinationPiece> pieces) const override {
    const std::string& text = texts.at(file);
    arrange(pieces, text.size());
    const auto bytes = std::as_bytes(std::span(text));
    for (std::size_t begin = 0; begin < bytes.size(); begin += window_bytes) {
      scatter(pieces, begin, bytes.subspan(begin, std::min(window_bytes, bytes.size() - begin)));
    }
    co_return;
  }

  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map(std::string_view file) const override {
    const std::string& text = texts.find(file)->second;
    const auto path = folder_ / std::string(file);
    write_text(path, text);
    const io::Directory folder = io::Directory::open(io::posix_syscalls(), path.parent_path());
    return io::map_file(folder.open_file(file), text.size(), path);
  }

  std::map<std::string, std::string, std::less<>> texts;
  std::string named;                                ///< As named_file.
  std::size_t window_bytes = std::size_t{1} << 20;  ///< What is read at once.

 private:
  TempDir folder_;
};

}  // namespace cairn::testing
