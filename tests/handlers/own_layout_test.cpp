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

namespace cairn {
namespace {

using array_store::FileLayout;
using array_store::FileLayouts;
using formats::ForeignCatalogue;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::write_text;
using StoredFilesPtr = std::shared_ptr<const array_store::StoredFiles>;

constexpr std::uint64_t kRows = 4;
constexpr std::uint64_t kColumns = 5;

/// One array of int32 [4, 5]. The first two columns lie in `left.half`, column by column and big-endian, behind four
/// bytes; the others in `right.half`, in rows of four of which the last is not used.
class Halves : public FileLayout {
 public:
  explicit Halves(int number = 100, std::string name = "halves") : number_(number), name_(std::move(name)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] int recognises(std::span<const std::string> files) const override {
    return std::any_of(files.begin(), files.end(), [](const auto& file) { return file.ends_with(".half"); })
               ? number_
               : 0;
  }
  [[nodiscard]] Awaitable<ForeignCatalogue> describe(StoredFilesPtr /*files*/,
                                                     array_store::OpenOptions /*options*/) const override {
    co_return catalogue();
  }

  [[nodiscard]] virtual ForeignCatalogue catalogue() const {
    ForeignCatalogue catalogue;
    catalogue.files = {"left.half", "right.half"};
    formats::SliceForm left;
    left.strides = Strides{4, 16};
    left.is_big_endian = true;
    formats::SliceForm right;
    right.strides = Strides{16, 4};
    formats::ForeignArray array{"w", DType::int32, {kRows, kColumns}, {}};
    array.slices.resize(2);
    array.slices[0].box = Box({0, 0}, {kRows, 2});
    array.slices[0].range = {0, 4, 4 + 32};
    array.slices[0].form = catalogue.add_form(left);
    array.slices[1].box = Box({0, 2}, {kRows, 3});
    array.slices[1].range = {1, 0, 60};
    array.slices[1].form = catalogue.add_form(right);
    catalogue.arrays.push_back(std::move(array));
    catalogue.values.push_back({"by", name_});
    return catalogue;
  }

 private:
  int number_;
  std::string name_;
};

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
    std::string left(4, '?');
    for (std::uint32_t column = 0; column < 2; ++column) {
      for (std::uint32_t row = 0; row < kRows; ++row) {
        const std::uint32_t element = __builtin_bswap32(10 * row + column);
        left.append(reinterpret_cast<const char*>(&element), sizeof element);
      }
    }
    std::string right;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      for (std::uint32_t column = 2; column < 6; ++column) {
        const std::uint32_t element = 10 * row + column;
        right.append(reinterpret_cast<const char*>(&element), sizeof element);
      }
    }
    std::filesystem::create_directory(path());
    write_text(path() / "left.half", left);
    write_text(path() / "right.half", right);
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
