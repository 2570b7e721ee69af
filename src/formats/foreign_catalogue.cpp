// SPDX-License-Identifier: Apache-2.0
#include "cairn/formats/foreign_catalogue.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "formats/internal/description_budget.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index_builder.hpp"

namespace cairn::formats {
namespace {

constexpr std::uint64_t kMostFileBytes = std::numeric_limits<std::int64_t>::max();

/// From the first byte of the first element to the last one of the last; nothing where it does not fit, or strides
/// are not as a form has them.
std::optional<std::uint64_t> strided_bytes(const Strides& strides, const Shape& extents, std::uint64_t item) {
  std::optional<std::uint64_t> bytes = item;
  for (std::size_t axis = 0; axis < extents.size() && bytes; ++axis) {
    if (strides[axis] < 0 || static_cast<std::uint64_t>(strides[axis]) % item != 0) {
      return std::nullopt;
    }
    const auto way = checked_multiply(extents[axis] - 1, static_cast<std::uint64_t>(strides[axis]));
    bytes = way ? checked_add(*bytes, *way) : std::nullopt;
  }
  return bytes;
}

/// Checks arrays of a catalogue, and says where their slices lie.
class SliceChecker {
 public:
  SliceChecker(const ForeignCatalogue& catalogue, std::string_view path)
      : catalogue_(&catalogue), path_(path) {}

  void check(const ForeignArray& array) const {
    if (!is_valid(array.dtype) || !byte_count(array.dtype, array.shape)) {
      refuse(array.path, fmt::format("shape {} of dtype {} is not a whole number of bytes below 2^63",
                                     array.shape, static_cast<unsigned>(array.dtype)));
    }
    for (const ForeignSlice& slice : array.slices) {
      check(array, slice);
    }
  }

  [[nodiscard]] PlacedSlice placed(const ForeignSlice& slice) const {
    return {slice.range.begin, slice.range.end,        slice.first, slice.elements,
            slice.form,        catalogue_->is_located, slice.crc32};
  }

  [[noreturn]] void refuse(std::string_view name, std::string_view why) const {
    throw Error(Errc::malformed_metadata, fmt::format("{}: {}: {}", path_, shown(name), why));
  }

 private:
  void check(const ForeignArray& array, const ForeignSlice& slice) const {
    const auto& [file, begin, end] = slice.range;
    if (file >= catalogue_->files.size() || slice.form >= catalogue_->forms.size() || begin > end ||
        end > kMostFileBytes) {
      refuse(array.path,
             fmt::format("a slice at bytes [{}, {}) of file {} in form {}", begin, end, file, slice.form));
    }
    if (!slice.box.is_within(array.shape)) {
      refuse(array.path, fmt::format("the slice {} is not inside of {}", to_string(slice.box), array.shape));
    }
    if (catalogue_->is_located) {
      check_length(array, slice);
    }
  }

  /// A located slice has the bytes for its elements.
  void check_length(const ForeignArray& array, const ForeignSlice& slice) const {
    const SliceForm& form = catalogue_->forms[slice.form];
    const Shape& extents = slice.box.extents();
    const std::optional<std::uint64_t> dense = byte_count(array.dtype, extents);
    const bool is_plain = !form.strides && !form.is_big_endian && form.codecs.empty();
    if (!is_plain && is_packed(array.dtype) && (form.strides || form.is_big_endian)) {
      refuse(array.path, "packed elements can only lie one behind the other");
    }
    if (form.strides && (form.strides->size() != extents.size() || slice.box.is_empty())) {
      refuse(array.path, fmt::format("{} strides for a slice of {}", form.strides->size(), extents));
    }
    const std::optional<std::uint64_t> needed =
        form.strides ? strided_bytes(*form.strides, extents, bits(array.dtype) / 8) : dense;
    const std::uint64_t bytes = slice.range.end - slice.range.begin;
    if (!dense || !needed || (form.codecs.empty() && *needed != bytes)) {
      refuse(array.path, fmt::format("the slice {} does not fill its {} bytes", to_string(slice.box), bytes));
    }
  }

  const ForeignCatalogue* catalogue_;
  std::string_view path_;
};

template <class T>
void add_value(IndexBuilder& builder, const std::string& path, const T& is) {
  if constexpr (std::is_same_v<T, std::monostate>) {
    builder.add_null(path);
  } else if constexpr (std::is_same_v<T, bool>) {
    builder.add_bool(path, is);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    builder.add_integer(path, is);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    builder.add_unsigned(path, is);
  } else if constexpr (std::is_same_v<T, double>) {
    builder.add_double(path, is);
  } else if constexpr (std::is_same_v<T, std::string>) {
    builder.add_string(path, is);
  } else if constexpr (std::is_same_v<T, EmptyMap>) {
    builder.add_empty_map(path);
  } else if constexpr (std::is_same_v<T, ListSize>) {
    builder.add_list(path, is.size);
  } else if constexpr (std::is_same_v<T, ScalarList>) {
    builder.add_list(path, is.elements.size());
    std::string element = path;
    for (std::size_t i = 0; i < is.elements.size(); ++i) {
      element.resize(path.size());
      append_key(element, fmt::to_string(i));
      std::visit([&](const auto& scalar) { add_value(builder, element, scalar); }, is.elements[i]);
    }
  } else {
    builder.add_bytes(path, is);
  }
}

/// Makes an index of a catalogue, and what is known beyond it.
class IndexMaker {
 public:
  IndexMaker(ForeignCatalogue& catalogue, std::string_view path)
      : catalogue_(catalogue), checker_(catalogue, path), details_(std::make_shared<ForeignDetails>()) {}

  IndexBytes make() {
    for (const std::string& file : catalogue_.files) {
      static_cast<void>(builder_.add_file(file));
    }
    for (const ForeignValue& value : catalogue_.values) {
      std::visit([&](const auto& is) { add_value(builder_, value.path, is); }, value.value);
    }
    std::vector<ForeignValue>().swap(catalogue_.values);  // Sorting needs the memory.
    // Slices are numbered in the order of paths: details have the same numbers.
    std::vector<std::pair<const ForeignArray*, bool>> arrays;
    const std::vector<ForeignArray> objects = arrays_of_objects();
    for (const ForeignArray& array : catalogue_.arrays) {
      arrays.emplace_back(&array, false);
    }
    for (const ForeignArray& object : objects) {
      arrays.emplace_back(&object, true);
    }
    std::sort(arrays.begin(), arrays.end(),
              [](const auto& a, const auto& b) { return a.first->path < b.first->path; });
    for (const auto& [array, is_object] : arrays) {
      add(*array, is_object);
    }
    return builder_.finish();
  }

  std::shared_ptr<const ForeignDetails> details() {
    const bool are_plain =
        catalogue_.is_located &&
        std::all_of(details_->slices.begin(), details_->slices.end(),
                    [](const PlacedSlice& slice) { return slice.form == 0 && !slice.crc32; });
    if (are_plain) {
      std::vector<PlacedSlice>().swap(details_->slices);
    }
    details_->layout = std::move(catalogue_.layout);
    details_->forms = std::move(catalogue_.forms);
    details_->left_out = std::move(catalogue_.left_out);
    details_->problems = std::move(catalogue_.problems);
    details_->is_located = catalogue_.is_located;
    details_->may_overlap = catalogue_.may_overlap;
    return details_;
  }

 private:
  /// Bytes, each as it lies.
  std::vector<ForeignArray> arrays_of_objects() const {
    std::vector<ForeignArray> arrays;
    for (const ForeignObject& object : catalogue_.objects) {
      const std::uint64_t bytes = object.range.end - std::min(object.range.begin, object.range.end);
      ForeignArray array{object.path, DType::uint8, Shape{bytes}, {}};
      array.slices.push_back({Box::whole(array.shape), object.range, object.form, 0, bytes, std::nullopt, 0});
      arrays.push_back(std::move(array));
    }
    return arrays;
  }

  void add(const ForeignArray& array, bool is_object) {
    checker_.check(array);
    if (is_object) {
      builder_.add_unread(array.path, array.shape[0]);
    } else if (const std::string* first = first_name(array)) {
      return builder_.add_alias(array.path, *first);
    } else {
      builder_.add_array(array.path, array.dtype, {array.shape.begin(), array.shape.end()});
    }
    for (const ForeignSlice& slice : array.slices) {
      const Shape& offsets = slice.box.offsets();
      const Shape& extents = slice.box.extents();
      if (slice.box.is_whole(array.shape)) {
        builder_.add_whole(slice.range.file, slice.range.begin);
      } else {
        builder_.add_slice(slice.range.file, slice.range.begin, {offsets.begin(), offsets.end()},
                           {extents.begin(), extents.end()});
      }
      details_->slices.push_back(checker_.placed(slice));
      details_->slices.back().is_located =
          is_object || catalogue_.is_located;  // Its bytes are all that there is to find.
    }
  }

  /// The array that came before with the same elements; null where this is the first one, which is kept.
  const std::string* first_name(const ForeignArray& array) {
    if (!catalogue_.may_overlap || array.slices.size() != 1) {
      return nullptr;
    }
    const ForeignSlice& slice = array.slices.front();
    auto& before = by_place_[{slice.range.file, slice.range.begin, slice.range.end, slice.form}];
    for (const ForeignArray* other : before) {
      if (other->dtype == array.dtype && other->shape == array.shape) {
        return &other->path;
      }
    }
    if (before.size() < kMostViews) {
      before.push_back(&array);
    }
    return nullptr;
  }

  static constexpr std::size_t kMostViews = 16;  ///< Of one range, that are compared with those that follow.

  ForeignCatalogue& catalogue_;
  SliceChecker checker_;
  IndexBuilder builder_;
  std::shared_ptr<ForeignDetails> details_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t>,
           std::vector<const ForeignArray*>>
      by_place_;
};

}  // namespace

std::uint32_t ForeignCatalogue::add_form(const SliceForm& form) {
  constexpr std::size_t kLooks =
      16;  // Those before may come again: a few bytes, and not a square of them in time.
  const auto begin = forms.size() > kLooks && form != forms.front()
                         ? forms.end() - static_cast<std::ptrdiff_t>(kLooks)
                         : forms.begin();
  const auto known = std::find(begin, forms.end(), form);
  const auto number = static_cast<std::uint32_t>(known - forms.begin());
  if (known == forms.end()) {
    forms.push_back(form);
  }
  return number;
}

void Index::place_slice(std::size_t number, IndexSlice& slice) const {
  const PlacedSlice& placed = foreign_->slices[number];  // As many as there are slices, and all were checked.
  slice.offset = placed.begin;
  slice.size = placed.end - placed.begin;
  slice.form = placed.form == 0 ? nullptr : &foreign_->forms[placed.form];
  slice.is_located = placed.is_located;
  slice.first = placed.first;
  slice.elements = placed.elements;
  slice.crc32 = placed.crc32;
}

Index Index::with_foreign(std::shared_ptr<const ForeignDetails> details) const {
  Index other = *this;
  other.foreign_ = std::move(details);
  return other;
}

std::size_t Index::unread_count() const noexcept {
  return foreign_ == nullptr
             ? 0
             : static_cast<std::size_t>(
                   std::count(kinds_.begin(), kinds_.end(), static_cast<std::uint8_t>(EntryKind::unread)));
}

Index make_index(ForeignCatalogue catalogue, std::string path) {
  if (catalogue.forms.empty() || catalogue.forms.front() != SliceForm()) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: the first form is not the plain one", path));
  }
  IndexMaker maker(catalogue, path);
  IndexBytes bytes;
  try {
    bytes = maker.make();
  } catch (const Error& error) {
    if (error.code() != Errc::invalid_argument && error.code() != Errc::already_exists) {
      throw;
    }
    throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, error.detail()));
  }
  const Index index = Index::open(std::move(bytes.owner), bytes.bytes, std::move(path));
  return index.with_foreign(maker.details());
}

Index with_located(Index index, const ForeignCatalogue& located, const std::vector<std::uint32_t>& numbers) {
  auto details = std::make_shared<ForeignDetails>(*index.foreign());
  const SliceChecker checker(located, index.path());
  const auto first_form = static_cast<std::uint32_t>(details->forms.size());
  details->forms.insert(details->forms.end(), located.forms.begin(), located.forms.end());
  auto number = numbers.begin();
  for (const ForeignArray& array : located.arrays) {
    checker.check(array);
    for (const ForeignSlice& slice : array.slices) {
      if (number == numbers.end() || *number >= details->slices.size()) {
        checker.refuse(array.path, "its layout has located other slices than it was asked for");
      }
      PlacedSlice placed = checker.placed(slice);
      placed.form += placed.form == 0 ? 0 : first_form;
      details->slices[*number++] = placed;
    }
  }
  return index.with_foreign(std::move(details));
}

std::vector<std::string> left_out_texts(std::span<const LeftOut> left_out) {
  constexpr std::size_t kMostTold = 20;
  std::vector<std::string> texts;
  for (const LeftOut& one : left_out.first(std::min(left_out.size(), kMostTold))) {
    texts.push_back(fmt::format("{}: {} has no place in a tree, and is left out", shown(one.path), one.why));
  }
  if (left_out.size() > kMostTold) {
    texts.push_back(fmt::format("{} more have no place in a tree, either", left_out.size() - kMostTold));
  }
  return texts;
}

void DescriptionBudget::take_elements(std::uint64_t count, std::uint64_t path_bytes) {
  // One more than fits is spent where the product does not.
  spend(checked_multiply(count, kElementBytes + path_bytes).value_or(left_ + 1));
}

void DescriptionBudget::spend(std::uint64_t bytes) {
  if (bytes > left_) {
    throw Error(
        Errc::malformed_metadata,
        fmt::format("{}: what it describes is many times as large as the file itself: more than the {} "
                    "MiB of memory that its reader takes at most; long lists are to be saved as tensors",
                    path_, most_bytes_ >> 20));
  }
  left_ -= bytes;
}

}  // namespace cairn::formats
