// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/internal/description_budget.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"

namespace cairn::formats {

/// The numbers of a tuple or a torch.Size; nothing when it is neither, or not of at most kMaxRank numbers from 0 up.
[[nodiscard]] std::optional<Shape> shape_of(const Pickle& pickle, PickleNode node);

/// The number that a node is, or nothing when it is not one from 0 up.
[[nodiscard]] std::optional<std::uint64_t> count_of(const Pickle& pickle, PickleNode node);

/// The value of a node that is null, a boolean, or a number of at most 64 bits; null for all others.
[[nodiscard]] Scalar scalar_of(const Pickle& pickle, PickleNode node);

/// Returns whether the items of a container are such values, all of them.
[[nodiscard]] bool has_scalars_only(const Pickle& pickle, PickleNode container);

/// The element type that a dtype of numpy says.
struct NumpyDType {
  std::optional<DType> dtype;  ///< Nothing: one that arrays do not have.
  bool is_big_endian = false;
  std::string name;  ///< As numpy writes it: "<f4".
};

/// Finds the tensors of torch and the arrays of numpy among the objects of a pickle, and where their bytes lie.
class PickledArrays {
 public:
  PickledArrays(const Pickle& pickle, const TorchArchive& archive, ForeignCatalogue& catalogue,
                DescriptionBudget& budget, std::string_view path)
      : pickle_(&pickle), archive_(&archive), catalogue_(&catalogue), budget_(&budget), path_(path) {}

  /// Describes the array that `object` is, whose path is given. Says why not where no array can be that tensor, or it
  /// is written in a form that is not read; nothing where it is neither a tensor nor an array of numpy.
  ///
  /// Errors: Errc::malformed_metadata where the archive lacks what a tensor says: it is not whole.
  [[nodiscard]] std::optional<std::string> describe(PickleNode object, ForeignArray& array);

  /// The bytes of a node: bytes, or a text that an encoding would make bytes of. Nothing for others.
  struct Content {
    std::string_view stored;  ///< In the pickle.
    bool is_latin1 = false;   ///< They lie as a text.
    std::string bytes;
  };
  [[nodiscard]] std::optional<Content> content(PickleNode node);

  /// Nothing when the node is not a dtype of numpy.
  [[nodiscard]] std::optional<NumpyDType> numpy_dtype(PickleNode node) const;

  [[noreturn]] void refuse(std::string_view tree_path, std::string_view why) const;

 private:
  using Nodes = Pickle::Nodes;

  /// Says how the elements of an array of numpy lie: `extents` are those of memory, row-major, and `axes` says for each
  /// axis of the array which one of memory it is.
  struct NumpyOrder {
    Shape extents;
    Shape axes;
  };

  /// The items of a tuple of `least` to `most`, of which there is one at least; none for others.
  [[nodiscard]] Nodes arguments(PickleNode tuple, std::size_t least, std::size_t most) const;
  /// These and describe_numpy give an empty text, or why no array can be the object.
  [[nodiscard]] std::string describe_tensor(Nodes arguments, bool has_dtype, ForeignArray& array);
  [[nodiscard]] std::string describe_elements(PickleNode dtype, const std::optional<NumpyOrder>& order,
                                              PickleNode data, ForeignArray& array);
  [[nodiscard]] std::optional<std::string> describe_numpy(PickleNode object, std::string_view function,
                                                          ForeignArray& array);
  [[nodiscard]] std::optional<NumpyOrder> order_of(PickleNode shape, bool is_fortran) const;
  /// The codecs by which a tensor is conjugated or negated; nothing where its marks are not those of torch.
  [[nodiscard]] std::optional<std::vector<std::string>> flips_of(Nodes arguments, std::size_t marks) const;
  [[nodiscard]] const ZipMember& storage_of(Nodes storage, DType dtype, const ForeignArray& array) const;
  void add_view(const ZipMember& storage, std::uint64_t offset, const Shape& shape, const Shape& strides,
                SliceForm form, ForeignArray& array);
  void add_slice(FileRange range, const SliceForm& form, std::optional<std::uint32_t> crc32,
                 ForeignArray& array);

  const Pickle* pickle_;
  const TorchArchive* archive_;
  ForeignCatalogue* catalogue_;
  DescriptionBudget* budget_;
  std::string_view path_;
};

}  // namespace cairn::formats
