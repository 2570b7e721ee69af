// SPDX-License-Identifier: Apache-2.0
// Files that a layout of the program's describes: one array in two parts, strided and big-endian.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/cairn.hpp"
#include "cairn/tools/array_reader.hpp"
#include "cairn/tools/diff.hpp"
#include "cairn/tools/export.hpp"

#include "support/fails.hpp"
#include "support/halves_layout.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

class OwnLayoutInTools : public ::testing::Test {
 protected:
  OwnLayoutInTools() { testing::write_halves(files()); }

  [[nodiscard]] std::filesystem::path files() const { return folder_ / "files"; }

  [[nodiscard]] CheckpointMetadata described() const {
    LoadOptions options;
    options.registry.add<TreeHandler>(std::make_shared<const TreeHandler>(layouts_));
    return checkpointables_metadata(files(), options);
  }

  testing::TempDir folder_;
  const array_store::FileLayouts layouts_ = {std::make_shared<testing::Halves>()};
};

TEST_F(OwnLayoutInTools, IsReadByAnArrayReader) {
  ArrayReaderOptions options;
  options.layouts = layouts_;
  const ArrayReader reader(files(), "", options);

  const Array box = reader.read("w", Box({1, 1}, {2, 3}));

  EXPECT_THAT(box.clone().data<const std::int32_t>(), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_EQ(reader.statistics(std::vector<std::string>{"w"}).front().mean, 17);
}

TEST_F(OwnLayoutInTools, IsComparedAndExported) {
  DiffOptions diff;
  diff.layouts = layouts_;
  ExportOptions exporting;
  exporting.layouts = layouts_;

  EXPECT_TRUE(diff_checkpoints(described(), described(), diff).differences.empty());
  static_cast<void>(export_arrays(described(), folder_ / "out.safetensors", exporting));

  const Array exported = load(folder_ / "out.safetensors").at("w").as<Array>();
  EXPECT_EQ(exported.data<const std::int32_t>()[3 * 5 + 4], 34);
}

TEST_F(OwnLayoutInTools, IsNotKnownToWhoIsNotGivenIt) {
  EXPECT_THAT([&] { static_cast<void>(export_arrays(described(), folder_ / "out.safetensors")); },
              Fails(Errc::invalid_argument, HasSubstr("no layout is called 'halves'")));
}

}  // namespace
}  // namespace cairn
