// SPDX-License-Identifier: Apache-2.0
#include "load_plan.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/abstract_array.hpp"
#include "cairn/array/box.hpp"
#include "cairn/array/format.hpp"
#include "cairn/array/overlap.hpp"
#include "cairn/base/aligned_memory.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/box_cover.hpp"

#include "array_bytes.hpp"
#include "assembler.hpp"
#include "device_bytes.hpp"
#include "files.hpp"
#include "index_names.hpp"

namespace cairn::detail {
namespace {

using formats::EntryKind;
using formats::Index;
using formats::IndexArray;
using formats::IndexSlice;

/// The bytes of a slice in a file.
struct Region {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t array = 0;  ///< Which of the arrays that are loaded.
  std::uint32_t slice = 0;
};

using Regions = std::vector<Region>;

/// An array that is loaded.
struct LoadedArray {
  IndexArray stored;
  DType dtype{};
  Narrowing narrowing = Narrowing::refused;
  const AbstractArray* wanted = nullptr;  ///< Null: as stored.
  DeviceCopier* copier = nullptr;         ///< Of the device that it goes to; null: the host's memory.
  bool is_plain = false;                  ///< Its bytes in the file are its bytes in memory.
  bool is_small = false;                  ///< It has its place in a slab.
  bool is_mapped = false;                 ///< It is a view of the file.
  Array array;
};

/// Memory for many small arrays: what lies side by side in the file lies side by side here, so that they are
/// read at once and cost one allocation. The price: it is freed when the last of them goes, which bounds the
/// size.
class Slab {
 public:
  static constexpr std::uint64_t kMostArrayBytes = 64 << 10;

  /// Whether the memory has a place for a region, or could be made anew to have one: `run_end` is where the small
  /// arrays that follow without a gap end, and a short run is not worth a mapping of its own.
  bool reaches(const Region& region, std::uint64_t run_end) {
    if (memory_ && region.begin >= first_ && region.end <= first_ + memory_->size()) {
      return true;
    }
    if (run_end - region.begin < kFewestBytes) {
      return false;
    }
    first_ = region.begin / kPageBytes * kPageBytes;  // Aligned as in the file, for direct I/O.
    const std::uint64_t end =
        std::max(region.end, std::min(run_end, (first_ / kWindowBytes + 1) * kWindowBytes));
    memory_ = std::make_shared<AlignedMemory>(static_cast<std::size_t>(end - first_));
    return true;
  }

  /// The place of a region that the memory reaches.
  [[nodiscard]] Array array(const Region& region, Shape shape, DType dtype) const {
    return Array::share(MutableArrayView(memory_->data() + (region.begin - first_), std::move(shape), dtype),
                        memory_);
  }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kFewestBytes = 128 << 10;
  static constexpr std::uint64_t kWindowBytes = 4 << 20;  // What is read at once; two huge pages.

  std::shared_ptr<AlignedMemory> memory_;
  std::uint64_t first_ = 0;
};

constexpr std::uint64_t kMostGapBytes = 4096;  // Read in vain rather than in two reads.

class Planner {
 public:
  Planner(const Index& index, const TreeLoadOptions& options, const LoadSurroundings& surroundings)
      : index_(index), options_(options), surroundings_(surroundings) {}

  /// Tells where bytes go.
  std::map<std::string, std::vector<DestinationPiece>, std::less<>> run(std::span<const Selected> selected) {
    arrays_.reserve(selected.size());
    for (const Selected& one : selected) {
      if (one.entry.kind == EntryKind::array) {
        add_array(one);
      }
    }
    check_destinations();
    check_regions();
    if (options_.map) {
      map();
    }
    allocate();
    std::map<std::string, std::vector<DestinationPiece>, std::less<>> pieces;
    for (const auto& [file, regions] : regions_) {
      if (!regions.empty()) {
        pieces.emplace(file, pieces_of(regions));
      }
    }
    return pieces;
  }

  /// Makes the tree of what was selected. Moves the arrays into it.
  Tree assemble(std::span<const Selected> selected, bool is_whole) {
    // What the caller asked for may have more elements than the index has entries; a file may not.
    Assembler<Tree> assembler(index_.path(),
                              is_whole ? index_.size() : std::numeric_limits<std::size_t>::max());
    auto array = arrays_.begin();
    for (const Selected& one : selected) {
      const std::string_view path = one.entry.name;
      switch (one.entry.kind) {
        case EntryKind::array:
          assembler.add(path, std::move(array++->array));
          break;
        case EntryKind::list:
          assembler.add_list(path, one.wanted ? list_size(*one.wanted) : one.entry.list_size());
          break;
        default:
          assembler.add(path, scalar_of(index_, one.entry));
          break;
      }
    }
    return assembler.finish(!is_whole);
  }

 private:
  void add_array(const Selected& selected) {
    LoadedArray loaded;
    loaded.stored = index_.array(selected.entry);
    loaded.dtype = loaded.stored.dtype;
    if (selected.wanted) {
      loaded.wanted = &selected.wanted->as_array();
      loaded.dtype = loaded.wanted->dtype;
      const bool may_narrow = loaded.wanted->allows_narrowing || options_.allow_narrowing;
      loaded.narrowing = may_narrow ? Narrowing::allowed : Narrowing::refused;
      check_cast(loaded.stored.name, loaded.stored.dtype, loaded.dtype, loaded.narrowing);
      if (loaded.wanted->destination) {
        const ArrayView& view = loaded.wanted->destination->view();
        check_form(*loaded.wanted, loaded.stored.name);
        loaded.copier =
            copier_for(loaded.stored.name, view, loaded.stored.dtype, surroundings_.copier_of(view.device()));
      }
    }
    add_slices(loaded);
    arrays_.push_back(std::move(loaded));
  }

  /// Refuses memory that does not fit what is asked for: both can be changed after place_into has compared them.
  static void check_form(const AbstractArray& wanted, std::string_view name) {
    const Array& array = *wanted.destination;
    if (array.shape() != wanted.shape) {
      throw Error(Errc::shape_mismatch, fmt::format("{}: wanted with shape {}, but its memory has shape {}",
                                                    shown(name), wanted.shape, array.shape()));
    }
    if (array.dtype() != wanted.dtype) {
      throw Error(Errc::dtype_mismatch, fmt::format("{}: wanted as {}, but its memory is of {}", shown(name),
                                                    wanted.dtype, array.dtype()));
    }
    static_cast<void>(array.mutable_view());
  }

  /// Refuses leaves that would be loaded over each other.
  void check_destinations() const {
    std::vector<Destination> destinations;
    for (const LoadedArray& loaded : arrays_) {
      if (loaded.wanted && loaded.wanted->destination) {
        destinations.emplace_back(shown(loaded.stored.name), loaded.wanted->destination->view());
      }
    }
    check_disjoint(destinations);
  }

  void add_slices(LoadedArray& loaded) {
    const IndexArray& array = loaded.stored;
    std::vector<Box> boxes;
    for (std::uint32_t i = 0; i < array.slice_count; ++i) {
      const IndexSlice slice = index_.slice(array, i);
      if (slice.size > 0) {
        regions_of(slice.file).push_back({slice.offset, slice.offset + slice.size, arrays_.size(), i});
      }
      if (array.slice_count == 1) {
        loaded.is_plain = is_plain(loaded, slice);
        loaded.is_small = loaded.is_plain && slice.size <= Slab::kMostArrayBytes;
        if (slice.is_whole) {
          return;  // As nearly all are.
        }
      }
      boxes.push_back(slice.is_whole ? Box::whole(Shape(array.dims))
                                     : Box(Shape(slice.offsets), Shape(slice.extents)));
    }
    formats::check_cover(fmt::format("{}: {}", index_.path(), array.name), Shape(array.dims), boxes);
  }

  Regions& regions_of(std::string_view file) {
    if (last_regions_ && last_file_ == file) {
      return *last_regions_;
    }
    auto found = regions_.find(file);
    if (found == regions_.end()) {
      found = regions_.try_emplace(std::string(file)).first;
    }
    last_file_ = found->first;
    last_regions_ = &found->second;
    return found->second;
  }

  /// Puts the regions of each file in order, and refuses those that overlap or that the file does not have:
  /// after that, memory for all of them cannot exceed the files.
  void check_regions() {
    for (auto& [file, regions] : regions_) {
      const auto size = surroundings_.file_bytes(file);
      if (!size) {
        throw Error(Errc::not_found, fmt::format("{}: {}: its file '{}' is not there", index_.path(),
                                                 shown(name_of(regions.front())), file));
      }
      std::sort(regions.begin(), regions.end(),
                [](const Region& a, const Region& b) { return a.begin < b.begin; });
      std::uint64_t end = 0;
      for (const Region& region : regions) {
        if (region.begin < end || region.end > *size) {
          throw Error(
              Errc::malformed_metadata,
              fmt::format("{}: {}: its bytes [{}, {}) of '{}' {}", index_.path(), shown(name_of(region)),
                          region.begin, region.end, file,
                          region.end > *size ? "reach beyond the end" : "belong to another array, too"));
        }
        end = region.end;
      }
    }
  }

  /// Makes views of all that can be one, and leaves the rest to be read.
  void map() {
    for (auto& [file, regions] : regions_) {
      std::shared_ptr<const io::MappedFile> memory;
      std::erase_if(regions, [&, name = std::string_view(file)](const Region& region) {
        LoadedArray& loaded = arrays_[region.array];
        if (!loaded.is_plain) {
          return false;
        }
        if (!memory) {
          memory = surroundings_.map_file(name);
        }
        loaded.array = Array::share(
            ArrayView(memory->bytes().data() + region.begin, Shape(loaded.stored.dims), loaded.dtype),
            memory);
        loaded.is_mapped = true;
        return true;
      });
    }
  }

  void allocate() {
    for (LoadedArray& loaded : arrays_) {
      if (loaded.is_mapped) {
        continue;
      }
      if (loaded.wanted && loaded.wanted->destination) {
        loaded.array = *loaded.wanted->destination;
      } else if (!loaded.is_small) {
        loaded.array = Array(Shape(loaded.stored.dims), loaded.dtype);
      }
    }
    for (auto& [file, regions] : regions_) {
      Slab slab;
      std::size_t run_end = 0;
      for (std::size_t i = 0; i < regions.size(); ++i) {
        LoadedArray& loaded = arrays_[regions[i].array];
        if (!loaded.is_small) {
          continue;
        }
        for (run_end = std::max(run_end, i); run_end + 1 < regions.size() && extends_run(regions, run_end);) {
          ++run_end;
        }
        Shape shape(loaded.stored.dims);
        loaded.array = slab.reaches(regions[i], regions[run_end].end)
                           ? slab.array(regions[i], std::move(shape), loaded.dtype)
                           : Array(std::move(shape), loaded.dtype);
      }
    }
  }

  [[nodiscard]] bool extends_run(const Regions& regions, std::size_t i) const {
    return arrays_[regions[i + 1].array].is_small && regions[i + 1].begin - regions[i].end < kMostGapBytes;
  }

  /// Whether an array that is stored as one slice is aligned (in files that others wrote it need not be) and wanted as it
  /// is stored.
  [[nodiscard]] static bool is_plain(const LoadedArray& loaded, const IndexSlice& slice) {
    const DType stored = loaded.stored.dtype;
    const bool is_placed = loaded.wanted && loaded.wanted->destination;
    const bool is_aligned = is_packed(stored) || slice.offset % unit_bytes(stored) == 0;
    return loaded.dtype == stored && !is_placed && is_aligned && slice.size > 0;
  }

  std::vector<DestinationPiece> pieces_of(const Regions& regions) const {
    std::vector<DestinationPiece> pieces;
    pieces.reserve(regions.size());
    for (const Region& region : regions) {
      const LoadedArray& loaded = arrays_[region.array];
      if (loaded.is_small && extend(pieces, region, loaded.array)) {
        continue;
      }
      MutableArrayView view = loaded.array.mutable_view();
      if (loaded.stored.slice_count > 1) {
        const IndexSlice slice = index_.slice(loaded.stored, region.slice);
        view = view.part(Box(Shape(slice.offsets), Shape(slice.extents)));
      }
      DestinationPiece& piece = pieces.emplace_back();
      piece.offset_bytes = region.begin;
      piece.size_bytes = region.end - region.begin;
      if (loaded.copier != nullptr) {
        piece.sink = device_sink(loaded, std::move(view));
      } else if (view.is_contiguous() && view.dtype() == loaded.stored.dtype) {
        piece.data = view.data();
        piece.owner = std::const_pointer_cast<void>(loaded.array.owner());
      } else {
        piece.sink = std::make_shared<ArraySink>(std::move(view), loaded.array.owner(), loaded.stored.dtype,
                                                 loaded.narrowing);
      }
    }
    return pieces;
  }

  /// Makes one piece of what lies side by side in the file and in a slab, so that it is read to where it belongs.
  static bool extend(std::vector<DestinationPiece>& pieces, const Region& region, const Array& array) {
    if (pieces.empty()) {
      return false;
    }
    DestinationPiece& last = pieces.back();
    const bool continues = last.data != nullptr && last.owner == array.owner() &&
                           last.offset_bytes + last.size_bytes == region.begin &&
                           last.data + last.size_bytes == array.view().data();
    last.size_bytes += continues ? region.end - region.begin : 0;
    return continues;
  }

  [[nodiscard]] static std::shared_ptr<ByteSink> device_sink(const LoadedArray& loaded,
                                                             MutableArrayView view) {
    const IndexArray& stored = loaded.stored;
    if (!view.is_contiguous()) {
      throw Error(
          Errc::invalid_argument,
          fmt::format(
              "{}: it is stored in slices, which are not contiguous in an array on {}; load it into host "
              "memory first",
              shown(stored.name), to_string(view.device())));
    }
    if (view.dtype() == stored.dtype) {
      return std::make_shared<ArrayOnDevice<DeviceSink>>(DeviceRegion{loaded.copier, view.data()},
                                                         loaded.array.owner(), shown(stored.name));
    }
    return std::make_shared<DeviceCastSink>(std::move(view), *loaded.copier, loaded.array.owner(),
                                            stored.dtype, loaded.narrowing, shown(stored.name));
  }

  static std::size_t list_size(const AbstractTree& wanted) {
    const auto* elements = TreeAccess::list(wanted);
    return elements ? elements->size() : 0;
  }

  [[nodiscard]] std::string_view name_of(const Region& region) const {
    return arrays_[region.array].stored.name;
  }

  const Index& index_;
  const TreeLoadOptions& options_;
  const LoadSurroundings& surroundings_;
  std::vector<LoadedArray> arrays_;
  std::map<std::string, Regions, std::less<>> regions_;
  std::string_view last_file_;
  Regions* last_regions_ = nullptr;
};

}  // namespace

LoadPlan plan_load(const Index& index, const AbstractTree* wanted, const TreeLoadOptions& options,
                   const LoadSurroundings& surroundings) {
  index.check_numbers();
  const auto selection =
      std::make_shared<const Selection>(wanted ? select(index, *wanted, options.partial) : select_all(index));
  const auto planner = std::make_shared<Planner>(index, options, surroundings);
  LoadPlan plan;
  plan.pieces = planner->run(selection->entries);
  plan.assemble = [planner, selection, is_whole = wanted == nullptr] {
    return planner->assemble(selection->entries, is_whole);
  };
  return plan;
}

}  // namespace cairn::detail
