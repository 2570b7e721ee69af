// SPDX-License-Identifier: Apache-2.0
// Teaches Cairn the files of another program: a matrix of float32, column by column, behind its two extents.
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cairn/array_store/file_layout.hpp>
#include <cairn/cairn.hpp>

#include "own_folder.hpp"

// [layout]
class Matrices final : public cairn::array_store::FileLayout {
 public:
  std::string_view name() const noexcept override { return "example.matrix"; }

  // Names alone decide, and the highest number wins: a folder with other files, too, may be somebody else's.
  int recognises(std::span<const std::string> files) const override {
    return files.size() == 1 && files.front().ends_with(".matrix") ? 40 : 0;
  }

  cairn::Awaitable<cairn::formats::ForeignCatalogue> describe(
      std::shared_ptr<const cairn::array_store::StoredFiles> files,
      cairn::array_store::OpenOptions /*options*/) const override {
    const std::string file = files->names().front();
    const auto extents = std::make_shared<std::array<std::uint64_t, 2>>();
    cairn::DestinationPiece header;
    header.data = reinterpret_cast<std::byte*>(extents->data());
    header.size_bytes = sizeof *extents;
    header.owner = extents;  // A load that is given up may still be reading.
    cairn::PiecesByFile pieces;
    pieces[file].push_back(header);
    cairn::NotesByFile notes;
    co_await files->read_files(std::move(pieces), std::move(notes));

    const auto [rows, columns] = *extents;
    cairn::formats::ForeignCatalogue catalogue;
    catalogue.files = {file};
    cairn::formats::SliceForm form;
    form.strides = cairn::Strides{4, static_cast<std::int64_t>(4 * rows)};
    cairn::formats::ForeignSlice slice;
    slice.box = cairn::Box({0, 0}, {rows, columns});
    slice.range = {0, header.size_bytes, files->size_bytes(file).value()};
    slice.form = catalogue.add_form(form);
    cairn::formats::ForeignArray array{"matrix", cairn::DType::float32, {rows, columns}, {slice}};
    catalogue.arrays.push_back(array);  // Extents that the file does not have are refused behind this.
    co_return catalogue;
  }
};

void register_matrices() {
  const cairn::array_store::FileLayouts layouts = {std::make_shared<Matrices>()};
  cairn::global_registry().add<cairn::TreeHandler>(std::make_shared<const cairn::TreeHandler>(layouts));
}
// [/layout]

int main() try {
  enter_own_folder("own_layout");
  const std::string path = "run/a.matrix";
  const std::vector<std::uint64_t> extents = {2, 3};
  const std::vector<float> columns = {0, 10, 1, 11, 2, 12};
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(extents.data()), 16)
      .write(reinterpret_cast<const char*>(columns.data()), 24);
  register_matrices();
  const cairn::Array matrix = cairn::load(path).at("matrix").as<cairn::Array>();
  std::cout << "row 1:";
  for (std::size_t column = 0; column < 3; ++column) {
    std::cout << ' ' << matrix.data<const float>()[3 + column];
  }
  std::cout << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
