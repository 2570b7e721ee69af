// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/layout.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/staging/pieces.hpp"

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"
#include "formats/internal/index_builder.hpp"
#include "formats/internal/safetensors_layout.hpp"

namespace cairn::array_store {

/// An array that is written.
struct FlatArray {
  std::size_t path_end = 0;
  std::size_t dims_end = 0;
  const std::byte* data = nullptr;  ///< Its elements; copied from there unless a piece of it is held.
};

/// Holds what is said of an array of the plan that is a part of one.
struct FlatPart {
  std::size_t array = 0;     ///< Its number in the plan; rising.
  Shape whole;               ///< Extents of the array that it is a part of.
  Shape offsets;             ///< Where it begins there.
  std::uint32_t number = 0;  ///< Among the parts of that array in one file.
};

/// A file that begins with an array.
struct FileBegin {
  std::size_t array = 0;     ///< Its number in the plan.
  std::uint32_t policy = 0;  ///< Which made the file; 0: none.
};

/// The first bytes of a planned file while they are needed: of two million arrays they are 200 MB.
struct Header {
  Header(std::uint64_t size_bytes, std::pmr::memory_resource* memory)
      : text(memory), unread_bytes(size_bytes) {}

  /// Gives its memory back.
  void drop() {
    const MutexLock lock(mutex);
    std::pmr::string(text.get_allocator()).swap(text);
  }

  async::Event is_read;
  Mutex mutex;
  /// Empty until somebody needs it, and after it was dropped.
  std::pmr::string text CAIRN_GUARDED_BY(mutex);
  std::uint64_t unread_bytes CAIRN_GUARDED_BY(mutex);  ///< Not yet asked for.
};

/// Arrays, and the files that they become.
///
/// Owns what it needs: headers and index are written when the arrays may be gone. Texts and numbers of all arrays
/// lie in a few vectors, because there are a hundred thousand of them.
struct WritePlan {
  explicit WritePlan(std::shared_ptr<std::pmr::memory_resource> memory_in) : memory(std::move(memory_in)) {}

  std::shared_ptr<std::pmr::memory_resource> memory;
  std::pmr::vector<char> paths{memory.get()};
  std::pmr::vector<std::uint64_t> dims{memory.get()};
  std::pmr::vector<FlatArray> arrays{memory.get()};  ///< In the order in which they were added.
  std::pmr::vector<formats::TensorMeasure> measures{memory.get()};  ///< Of those, as they are stored.
  /// Pieces of arrays that are more than copied from the host's memory, by the number of their array, rising. Their
  /// places are known when the files are laid out.
  std::vector<std::pair<std::size_t, SourcePiece>> held;
  std::vector<FlatPart> parts;         ///< Of those; all others are whole.
  std::vector<FileBegin> file_begins;  ///< Where that was asked for.
  std::map<std::string, std::shared_ptr<const Layout>, std::less<>> divisions;  ///< Among ranks, by path.
  std::vector<formats::SafetensorsLayout> layouts;
  std::vector<std::string> files;            ///< The names of those.
  std::vector<std::uint32_t> file_policies;  ///< Of those.
  std::deque<Header> headers;                ///< Of those.
  formats::IndexBuilder builder;             ///< Holds all that is not an array, and what policies say.

  [[nodiscard]] std::string_view path(std::size_t array) const {
    const std::size_t begin = array == 0 ? 0 : arrays[array - 1].path_end;
    return {paths.data() + begin, arrays[array].path_end - begin};
  }

  [[nodiscard]] std::span<const std::uint64_t> shape(std::size_t array) const {
    const std::size_t begin = array == 0 ? 0 : arrays[array - 1].dims_end;
    return {dims.data() + begin, arrays[array].dims_end - begin};
  }
};

/// The name of the tensor that holds the array of a path: the path itself. Only "__metadata__", which safetensors
/// reserves, gets another name, which is not the path of any array.
[[nodiscard]] constexpr std::string_view tensor_name(std::string_view path) noexcept {
  return path == "__metadata__" ? "~__metadata__" : path;
}

/// The same for a further part of an array in one file. No path contains "~s".
[[nodiscard]] std::string tensor_name(std::string_view path, std::uint32_t number);

/// Divides the arrays among files and names those.
void lay_out(WritePlan& plan, std::size_t rank);

/// The first bytes of a planned file.
[[nodiscard]] std::pmr::string make_header(const WritePlan& plan, std::size_t file);

/// The pieces of one planned file; moves out the held ones of its arrays. The others lie in the gaps between them.
[[nodiscard]] std::vector<SourcePiece> make_pieces(const std::shared_ptr<WritePlan>& plan, std::size_t file);

/// Enters the arrays in the index.
void describe_arrays(WritePlan& plan);

}  // namespace cairn::array_store
