// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

class ArrayHandlerTest : public testing::StoreTest {};

TEST_F(ArrayHandlerTest, SavesAVectorAsItIs) {
  const std::vector<double> values = {1, 2, 3};

  save(values);

  EXPECT_THAT(load<std::vector<double>>(), ElementsAre(1, 2, 3));
}

TEST_F(ArrayHandlerTest, SavesSpansAndViews) {
  std::vector<std::int32_t> values = {1, 2, 3, 4};
  core::start_save(
      path(),
      Checkpointables{{"span", std::span(values)}, {"view", ArrayView(values.data(), {2, 2}, DType::int32)}},
      handlers_, SaveOptions(), context_)
      .wait();

  EXPECT_EQ(load<Array>("span").shape(), Shape({4}));
  EXPECT_EQ(load<Array>("view").shape(), Shape({2, 2}));
}

TEST_F(ArrayHandlerTest, RestoresNoVectorOfOtherElements) {
  save(std::vector<double>{1});
  EXPECT_THAT([&] { load<std::vector<float>>(); }, Fails(Errc::dtype_mismatch));
}

TEST_F(ArrayHandlerTest, CastsIntoMemoryOfTheCaller) {
  save(std::vector<float>{1, 2});
  std::vector<double> memory(2);
  AbstractArray wanted({2}, DType::float64);
  wanted.place_into(MutableArrayView(memory));

  load<Array>({"item", wanted});

  EXPECT_THAT(memory, ElementsAre(1, 2));
}

TEST_F(ArrayHandlerTest, RefusesMemoryWhoseElementsHaveOnePlace) {
  save(std::vector<float>{1, 2});
  std::vector<float> memory(2);
  AbstractArray wanted({2}, DType::float32);
  wanted.place_into(MutableArrayView(memory.data(), {2}, DType::float32, {0}));

  EXPECT_THAT([&] { load<Array>({"item", wanted}); }, Fails(Errc::invalid_argument, HasSubstr("the root")));
}

TEST_F(ArrayHandlerTest, DescribesShapeAndDtype) {
  save(Array::zeros({2, 3}, DType::bfloat16));
  EXPECT_EQ(metadata<AbstractArray>(), AbstractArray({2, 3}, DType::bfloat16));
}

TEST_F(ArrayHandlerTest, ShowsAsOneArrayWithoutAName) {
  save(Array::zeros({2, 3}, DType::bfloat16));

  const ArrayEntries entries = arrays(item_metadata());

  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.begin()->name, "");
  EXPECT_EQ(entries.begin()->bytes, 12U);
}

/// Saves trees as if they were arrays.
class Impostor final : public CheckpointableHandler<Tree, AbstractTree> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.array/1"; }
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Tree& value) const override {
    return trees_.save(std::move(context), value);
  }
  [[nodiscard]] Awaitable<Background<Tree>> load(LoadContext context,
                                                 std::optional<AbstractTree> wanted) const override {
    return trees_.load(std::move(context), std::move(wanted));
  }
  [[nodiscard]] Awaitable<AbstractTree> metadata(LoadContext context) const override {
    return trees_.metadata(std::move(context));
  }

 private:
  TreeHandler trees_;
};

TEST_F(ArrayHandlerTest, RefusesWhatIsNoArray) {
  const RegistrySnapshot impostors = HandlerRegistry().add<Impostor>().snapshot();
  core::start_save(path(), {{"item", Tree(7)}}, impostors, SaveOptions(), context_).wait();

  EXPECT_THAT([&] { load<Array>(); },
              Fails(Errc::type_mismatch, HasSubstr("is of kind integer, not one array")));
  EXPECT_THAT(item_metadata().problem, HasSubstr("is of kind integer, not one array"));
}

TEST_F(ArrayHandlerTest, RefusesAnotherShape) {
  save(Array::zeros({2, 3}, DType::float32));
  EXPECT_THAT(
      [&] {
        load<Array>({"item", AbstractArray({3, 2}, DType::float32)});
      },
      Fails(Errc::shape_mismatch, HasSubstr("[2, 3]")));
}

}  // namespace
}  // namespace cairn
