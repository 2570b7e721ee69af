// SPDX-License-Identifier: Apache-2.0
// Layouts that a program registers, and which of several reads.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/array_view.hpp"
#include "cairn/array_store/file_layout.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "support/halves_layout.hpp"

namespace cairn {
namespace {

using array_store::FileLayout;
using array_store::FileLayouts;
using formats::ForeignCatalogue;
using ::testing::AllOf;
using testing::Fails;
using testing::Halves;
using ::testing::HasSubstr;
using testing::write_text;

constexpr std::uint64_t kRows = testing::kHalvesRows;
constexpr std::uint64_t kColumns = testing::kHalvesColumns;

/// Describes something else.
class Lying final : public Halves {
 public:
  using Change = std::function<void(ForeignCatalogue& catalogue)>;
  explicit Lying(Change change) : change_(std::move(change)) {}
  [[nodiscard]] ForeignCatalogue catalogue() const override {
    ForeignCatalogue catalogue = Halves::catalogue();
    change_(catalogue);
    return catalogue;
  }

 private:
  Change change_;
};

class OwnLayout : public testing::StoreTest {
 protected:
  OwnLayout() {
    testing::write_halves(path());
    use({std::make_shared<Halves>()});
  }

  void use(FileLayouts layouts) {
    HandlerRegistry own;
    own.add<TreeHandler>(std::make_shared<const TreeHandler>(std::move(layouts)));
    handlers_ = layer({builtin_handlers(), own.snapshot()});
  }

  Tree open(const TreeLoadOptions& options = {}) { return load_from<Tree>(path(), "state", options); }
  Tree open_as(AbstractTree wanted, const TreeLoadOptions& options = {}) {
    return load_from<Tree>(path(), {"state", std::move(wanted)}, options);
  }

  static std::vector<std::int64_t> expected(const Box& box) {
    std::vector<std::int64_t> elements;
    for (std::uint64_t row = box.begin(0); row < box.end(0); ++row) {
      for (std::uint64_t column = box.begin(1); column < box.end(1); ++column) {
        elements.push_back(static_cast<std::int64_t>(10 * row + column));
      }
    }
    return elements;
  }

  AbstractTree wanted(const Box& box, DType dtype = DType::int64) {
    AbstractTree tree =
        core::read_metadata(path(), {}, handlers_, LoadOptions(), context_).at("state").as<AbstractTree>();
    tree["w"].as_array().box = box;
    tree["w"].as_array().dtype = dtype;
    return tree;
  }
};

TEST_F(OwnLayout, LoadsWholeCastAndInEveryBox) {
  EXPECT_EQ(open().at("w").as<Array>().dtype(), DType::int32);
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (std::uint64_t column = 0; column < kColumns; ++column) {
      for (std::uint64_t rows = 1; row + rows <= kRows; ++rows) {
        for (std::uint64_t columns = 1; column + columns <= kColumns; ++columns) {
          const Box box({row, column}, {rows, columns});
          const Array array = open_as(wanted(box)).at("w").as<Array>();
          const auto elements = array.data<const std::int64_t>();
          EXPECT_EQ(std::vector<std::int64_t>(elements.begin(), elements.end()), expected(box))
              << to_string(box);
        }
      }
    }
  }
}

TEST_F(OwnLayout, LoadsIntoMemory) {
  std::vector<std::int32_t> place(kRows * kColumns);
  AbstractTree tree;
  tree["w"] = AbstractArray({kRows, kColumns}, DType::int32);
  tree["w"].place_into(MutableArrayView(place.data(), {kRows, kColumns}, DType::int32));
  TreeLoadOptions options;
  options.partial = true;

  open_as(tree, options);

  const std::vector<std::int64_t> elements = expected(Box::whole({kRows, kColumns}));
  EXPECT_TRUE(std::equal(place.begin(), place.end(), elements.begin(), elements.end()));
}

TEST_F(OwnLayout, IsNotBelievedMoreThanAFile) {
  const std::vector<std::pair<std::string, Lying::Change>> lies = {
      {"does not fill its", [](ForeignCatalogue& c) { c.arrays[0].slices[0].range.end -= 4; }},
      {"reach beyond the end",
       [](ForeignCatalogue& c) {
         c.arrays[0].slices[0].range.begin += 1 << 20;
         c.arrays[0].slices[0].range.end += 1 << 20;
       }},
      {"of file 7", [](ForeignCatalogue& c) { c.arrays[0].slices[0].range.file = 7; }},
      {"in form 9", [](ForeignCatalogue& c) { c.arrays[0].slices[1].form = 9; }},
      {"is not inside of",
       [](ForeignCatalogue& c) {
         c.arrays[0].slices[1].box = Box({0, 4}, {kRows, 3});
       }},
      {"does not fill its",
       [](ForeignCatalogue& c) {
         c.forms[2].strides = Strides{16, std::int64_t{1} << 62};
       }},
      {"strides for a slice of", [](ForeignCatalogue& c) { c.forms[2].strides = Strides{16}; }},
      {"not a plain file name", [](ForeignCatalogue& c) { c.files[1] = "../right.half"; }},
      {"lies below the leaf",
       [](ForeignCatalogue& c) {
         c.values.push_back({"w/x", true});
       }},
      {"is given twice",
       [](ForeignCatalogue& c) {
         c.values.push_back({"w", true});
       }},
      {"not a whole number of bytes below 2^63",
       [](ForeignCatalogue& c) {
         c.arrays[0].shape = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
       }},
      {"the first form is not the plain one", [](ForeignCatalogue& c) { c.forms.clear(); }}};
  for (const auto& [reason, change] : lies) {
    use({std::make_shared<Lying>(change)});
    EXPECT_THAT([&] { open(); }, Fails(Errc::malformed_metadata, HasSubstr(reason))) << reason;
  }
}

TEST_F(OwnLayout, ThatLeavesGapsOrOverlapsIsRefused) {
  use({std::make_shared<Lying>([](ForeignCatalogue& c) { c.arrays[0].slices.pop_back(); })});
  EXPECT_THAT([&] { open(); }, Fails(Errc::incomplete_shards, HasSubstr("w")));

  use({std::make_shared<Lying>(
      [](ForeignCatalogue& c) { c.arrays[0].slices.push_back(c.arrays[0].slices[1]); })});
  EXPECT_THAT([&] { open(); }, Fails(Errc::overlapping_shards, HasSubstr("w")));
}

TEST_F(OwnLayout, MayRepeatElementsButNotWithoutEnd) {
  const auto repeat = [](std::uint64_t times) {
    return [times](ForeignCatalogue& c) {
      c.forms[2].strides = Strides{0, 0};
      c.arrays[0] = {"w", DType::int32, {times, 3}, {}};
      formats::ForeignSlice slice;
      slice.box = Box::whole({times, 3});
      slice.range = {1, 4, 8};
      slice.form = 2;
      c.arrays[0].slices.push_back(slice);
    };
  };
  use({std::make_shared<Lying>(repeat(2))});
  EXPECT_EQ(open().at("w").as<Array>().data<const std::int32_t>()[5], 3);

  use({std::make_shared<Lying>(repeat(std::uint64_t{1} << 40))});
  EXPECT_THAT([&] { open(); },
              Fails(Errc::malformed_metadata, HasSubstr("more than 16 times as many bytes")));
}

using Layouts = OwnLayout;

TEST_F(Layouts, WithTheHighestNumberReadsAndOfEqualOnesTheLast) {
  use({std::make_shared<Halves>(7, "seven"), std::make_shared<Halves>(8, "eight"),
       std::make_shared<Halves>(7, "last")});
  EXPECT_EQ(open().at("by").as<std::string>(), "eight");

  use({std::make_shared<Halves>(7, "first"), std::make_shared<Halves>(7, "last")});
  EXPECT_EQ(open().at("by").as<std::string>(), "last");

  write_text(path() / "other.safetensors", "not read");
  use({std::make_shared<Halves>(80, "of a user")});
  EXPECT_EQ(open().at("by").as<std::string>(), "of a user") << "before a built-in one of the same number";
}

TEST_F(Layouts, AreForcedByTheirNames) {
  use({std::make_shared<Halves>(0, "shy")});
  EXPECT_THAT([&] { open(); }, Fails(Errc::not_committed, HasSubstr("neither a committed checkpoint")));

  TreeLoadOptions options;
  options.layout = "shy";
  EXPECT_EQ(open(options).at("by").as<std::string>(), "shy");
  options.layout = "bold";
  EXPECT_THAT([&] { open(options); },
              Fails(Errc::invalid_argument,
                    AllOf(HasSubstr("'bold'"), HasSubstr("'torch.archive'"), HasSubstr("'shy'"))));
}

TEST(BuiltInLayouts, NeverClaimWithEqualNumbers) {
  const std::vector<std::vector<std::string>> folders = {
      {".metadata", "__0_0.distcp", "a.safetensors", "b.pt"},
      {"model.safetensors.index.json", "pytorch_model.bin.index.json", "pytorch_model-1.bin", "x.distcp"},
      {"a.safetensors", "b.ckpt"},
      {"__0.metadata", "pytorch_model.bin"},
      {"README.md"}};
  for (const auto& files : folders) {
    std::set<int> numbers;
    for (const auto& layout : array_store::built_in_layouts()) {
      if (const int number = layout->recognises(files); number != 0) {
        EXPECT_TRUE(numbers.insert(number).second) << layout->name() << " says " << number;
      }
    }
  }
  EXPECT_EQ(array_store::find_layout(folders[0], {})->name(), "torch.distributed");
  EXPECT_EQ(array_store::find_layout(folders[1], {})->name(), "safetensors");
  EXPECT_EQ(array_store::find_layout(folders[4], {}), nullptr);
}

}  // namespace
}  // namespace cairn
