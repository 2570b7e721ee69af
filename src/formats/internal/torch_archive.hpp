// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/internal/zip.hpp"

namespace cairn::formats {

/// The dtype that torch calls "float32" or "bfloat16"; nothing for those that arrays do not have. A "float4_e2m1fn_x2"
/// of torch is two elements of float4.
[[nodiscard]] std::optional<DType> torch_dtype(std::string_view name) noexcept;

/// An element type by its names in torch: of the dtype, and of the storage where that has a class of its own.
struct TorchType {
  std::string_view dtype;
  DType type;
  std::string_view storage;
};

/// Returns what torch calls an element type; null for those that it does not have.
[[nodiscard]] const TorchType* find_torch_type(DType dtype) noexcept;

/// An archive of torch.save whose members can be read.
///
/// Invariant: all members are stored as they are and located, and lie below one folder.
struct TorchArchive {
  ZipDirectory directory;
  std::string folder;  ///< "archive/"
  std::vector<std::byte> pickle;
  bool is_big_endian = false;

  [[nodiscard]] const ZipMember* find(std::string_view name) const {
    return directory.find(folder + std::string(name));
  }
};

/// Reads the small members of an archive: its directory, `data.pkl`, whose sum is compared where there is one and this
/// build can, `byteorder` and `version`; and the headers of all. `expect`, if given, is told what is read next.
///
/// Errors: Errc::malformed_metadata, naming what the file is: the form before torch 1.6, a TorchScript program, a
///         `.pt2`, an archive without `data.pkl`, with a member that is compressed, encrypted or there twice;
///         Errc::checksum_mismatch; Errc::unsupported_version.
/// Source: docs/format.md, "Archives of torch.save".
[[nodiscard]] TorchArchive open_torch_archive(const ReadAt& read, std::uint64_t file_size,
                                              std::string_view path, const ExpectParts& expect = nullptr);

/// Describes the tree that was pickled: tensors and arrays of numpy with where their bytes lie, values, and what has no
/// place in a tree. Ranges are in file number 0, which is called `path`.
///
/// Errors: Errc::malformed_metadata, naming the path in the tree: a storage that is missing, or of another size than
///         the tensor says, arguments that torch does not write, a tree that is deeper than 1,000 levels.
[[nodiscard]] ForeignCatalogue describe_torch_archive(const TorchArchive& archive, std::string_view path);

}  // namespace cairn::formats
