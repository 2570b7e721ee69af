// SPDX-License-Identifier: Apache-2.0
#include "array_store/layouts/layouts.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/read_steps.hpp"
#include "formats/internal/foreign_index.hpp"

namespace cairn::array_store {
namespace {

/// Bytes in memory, as the only file.
class FilesOfBytes final : public StoredFiles {
 public:
  FilesOfBytes(std::string name, std::span<const std::byte> bytes) : name_(std::move(name)), bytes_(bytes) {}

  [[nodiscard]] std::filesystem::path directory() const override { return {}; }
  [[nodiscard]] std::vector<std::string> names() const override { return {name_}; }
  [[nodiscard]] std::optional<std::uint64_t> size_bytes(std::string_view file) const override {
    return file == name_ ? std::optional<std::uint64_t>(bytes_.size()) : std::nullopt;
  }
  [[nodiscard]] Awaitable<std::string> read(std::string /*file*/) const override {
    co_return std::string(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  }
  [[nodiscard]] Awaitable<> read_pieces(std::string /*file*/,
                                        std::vector<DestinationPiece> pieces) const override {
    arrange(pieces, bytes_.size());
    scatter(pieces, 0, bytes_);
    co_return;
  }
  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map(
      std::string_view /*file*/) const override {
    return nullptr;
  }

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

/// How many elements of a slice a read takes.
std::uint64_t wanted_of(const ReadArray& array, std::uint32_t slice, const Box& box) {
  if (array.boxes == nullptr) {
    return element_count(box.extents()).value_or(0);
  }
  std::uint64_t wanted = 0;
  const auto [begin, end] = array.boxes->parts_of(slice);
  for (auto part = begin; part != end; ++part) {
    wanted += element_count(part->shared.extents()).value_or(0);
  }
  return wanted;
}

/// Returns the slices of an index that are about to be read and not located, as a layout is given them, and their
/// numbers.
formats::ForeignCatalogue part_of(const formats::Index& index, std::span<const WantedArray> wanted,
                                  const ReadOptions& options, std::vector<std::uint32_t>& numbers) {
  formats::ForeignCatalogue part;
  part.is_located = false;
  part.forms = index.foreign()->forms;
  for (std::size_t i = 0; i < index.file_count(); ++i) {
    part.files.emplace_back(index.file(i));
  }
  const LocatedArrays read = locate(index, wanted, options);
  std::vector<std::pair<std::uint32_t, std::size_t>> slices;  // Numbers, each with an array that has it.
  for (const auto& [file, regions] : read.regions) {
    for (const Region& region : regions) {
      slices.emplace_back(read.arrays[region.array].stored.first_slice + region.slice, region.array);
    }
  }
  std::sort(slices.begin(), slices.end());
  const std::vector<formats::PlacedSlice>& placed = index.foreign()->slices;
  std::uint32_t last_array = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto [number, wanted_as] = slices[i];
    if ((i > 0 && slices[i - 1].first == number) || number >= placed.size() || placed[number].is_located) {
      continue;
    }
    const formats::IndexArray& stored = read.arrays[wanted_as].stored;
    if (part.arrays.empty() || last_array != stored.first_slice) {
      part.arrays.push_back({formats::stored_path(index, stored), stored.dtype, Shape(stored.dims), {}});
    }
    last_array = stored.first_slice;
    const formats::IndexSlice slice = index.slice(stored, number - stored.first_slice);
    formats::ForeignSlice& each = part.arrays.back().slices.emplace_back();
    each.box = slice.is_whole ? Box::whole(part.arrays.back().shape)
                              : Box(Shape(slice.offsets), Shape(slice.extents));
    each.range = {slice.file_number, slice.offset, slice.offset + slice.size};
    each.form = placed[number].form;
    each.first = placed[number].first;
    each.elements = placed[number].elements;
    each.wanted = wanted_of(read.arrays[wanted_as], number - stored.first_slice, each.box);
    numbers.push_back(number);
  }
  return part;
}

/// Makes the one element of a list the whole, where there is such a list.
void unwrap(formats::ForeignCatalogue& catalogue) {
  const auto is_list_of_one = [](const formats::ForeignValue& value) {
    const auto* list = std::get_if<formats::ListSize>(&value.value);
    return value.path.empty() && list != nullptr && list->size == 1;
  };
  if (std::none_of(catalogue.values.begin(), catalogue.values.end(), is_list_of_one)) {
    return;
  }
  const auto inner = [](std::string& path) { path.erase(0, path.size() > 1 ? 2 : 1); };
  std::erase_if(catalogue.values, [](const formats::ForeignValue& value) { return value.path.empty(); });
  for (formats::ForeignValue& value : catalogue.values) {
    inner(value.path);
  }
  for (formats::ForeignArray& array : catalogue.arrays) {
    inner(array.path);
  }
  for (formats::LeftOut& left_out : catalogue.left_out) {
    inner(left_out.path);
  }
}

}  // namespace

Awaitable<formats::ForeignCatalogue> FileLayout::locate(std::shared_ptr<const StoredFiles> /*files*/,
                                                        formats::ForeignCatalogue part) const {
  throw Error(Errc::handler_failed,
              fmt::format("the layout '{}' says that slices are to be located, and does not "
                          "locate '{}'",
                          name(), part.arrays.empty() ? "" : part.arrays[0].path));
}

std::vector<formats::FileRange> FileLayout::archives(const formats::ForeignCatalogue& /*described*/,
                                                     const StoredFiles& /*files*/) const {
  return {};
}

formats::ForeignCatalogue FileLayout::describe_object(std::string_view /*path*/,
                                                      std::span<const std::byte> bytes) const {
  formats::ForeignCatalogue catalogue;
  catalogue.values.push_back({"", std::vector<std::byte>(bytes.begin(), bytes.end())});
  return catalogue;
}

const FileLayouts& built_in_layouts() {
  static const FileLayouts& layouts = *new FileLayouts{torch_archive_layout(), safetensors_layout(),
                                                       torch_distributed_layout()};  // Never destroyed.
  return layouts;
}

std::shared_ptr<const FileLayout> find_layout(std::span<const std::string> files, const FileLayouts& own,
                                              std::string_view name) {
  std::shared_ptr<const FileLayout> best;
  int highest = 0;
  std::string names;
  for (const FileLayouts* layouts : {&built_in_layouts(), &own}) {
    for (const auto& layout : *layouts) {
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", layout->name());
      const int number = name.empty() ? layout->recognises(files) : layout->name() == name ? 1 : 0;
      if (number > 0 && number >= highest) {
        best = layout;
        highest = number;
      }
    }
  }
  if (best == nullptr && !name.empty()) {
    throw Error(Errc::invalid_argument, fmt::format("no layout is called '{}'; there are {}", name, names));
  }
  return best;
}

Awaitable<formats::Index> locate_wanted(std::shared_ptr<const StoredFiles> files,
                                        std::shared_ptr<const FileLayout> layout, formats::Index index,
                                        std::vector<WantedArray> wanted, ReadOptions options) {
  if (index.foreign() == nullptr || index.foreign()->is_located) {
    co_return index;
  }
  std::vector<std::uint32_t> numbers;
  formats::ForeignCatalogue part = part_of(index, wanted, options, numbers);
  Awaitable<formats::ForeignCatalogue> locating = layout->locate(std::move(files), std::move(part));
  async::require_coroutine(locating, "'locate'");
  const formats::ForeignCatalogue located = co_await std::move(locating);
  co_return formats::with_located(std::move(index), located, numbers);
}

StoredObject::StoredObject(const FileLayout& layout, const formats::Index& of,
                           const formats::IndexEntry& entry, std::span<const std::byte> bytes)
    : bytes_(bytes) {
  bool is_shard = false;
  if (const formats::SliceForm* form = bytes.empty() ? nullptr : of.slice(of.array(entry), 0).form) {
    formats::EncodedSlice slice;
    slice.form = *form;
    slice.dtype = DType::uint8;
    slice.elements = most_bytes_for(bytes.size());
    slice.name = fmt::format("{}: {}", of.path(), formats::shown(entry.name));
    bytes_ = formats::decode(bytes, slice, decoded_);
    is_shard =
        std::find(form->codecs.begin(), form->codecs.end(), formats::kShardCodec) != form->codecs.end();
  }
  describe(layout, of.path(), formats::stored_path(of, of.array(entry)), is_shard);
}

StoredObject::StoredObject(const FileLayout& layout, const std::string& source, std::string_view path,
                           std::span<const std::byte> bytes)
    : bytes_(bytes) {
  describe(layout, source, path, false);
}

void StoredObject::describe(const FileLayout& layout, const std::string& source, std::string_view path,
                            bool is_shard) {
  const std::string name = fmt::format("{}: {}", source, formats::shown(path));
  formats::ForeignCatalogue contents = layout.describe_object(path, bytes_);
  if (is_shard) {
    unwrap(contents);
  }
  if (!contents.objects.empty() || !contents.is_located) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: an object of which parts are not known", name));
  }
  files_ = std::make_shared<FilesOfBytes>(contents.files.empty() ? "object" : contents.files.front(), bytes_);
  index_.emplace(formats::make_index(std::move(contents), name));
}

std::vector<Array> StoredObject::read(std::span<const WantedArray> wanted) const {
  ReadPlan plan = plan_read(*index_, wanted, {}, *files_);
  for (auto& [file, pieces] : plan.pieces) {
    arrange(pieces, bytes_.size());
    scatter(pieces, 0, bytes_);
  }
  return std::move(plan.arrays);
}

}  // namespace cairn::array_store
