// SPDX-License-Identifier: Apache-2.0
// What a save makes of the files of its handlers: those that they forget, and those that they write themselves.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/core/handler.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::TempDir;

/// A value whose handler does what the test says.
struct Custom {
  Custom() = default;
};

using CustomSave = std::function<Awaitable<Background<>>(SaveContext)>;

class CustomHandler final : public CheckpointableHandler<Custom> {
 public:
  explicit CustomHandler(CustomSave save) : save_(std::move(save)) {}

  std::string_view id() const noexcept override { return "test.custom/1"; }

  Awaitable<Background<>> save(SaveContext context, const Custom&) const override {
    return save_(std::move(context));
  }

  Awaitable<Background<Custom>> load(LoadContext, std::optional<Custom>) const override {
    co_return nothing();
  }

  Awaitable<Custom> metadata(LoadContext) const override { co_return Custom(); }

 private:
  static Background<Custom> nothing() { co_return Custom(); }

  CustomSave save_;
};

Background<> do_nothing() {
  co_return;
}

class HandlerFiles : public ::testing::Test {
 protected:
  SaveResult save(CustomSave how) {
    HandlerRegistry registry;
    registry.add(std::make_shared<const CustomHandler>(std::move(how)));
    const Context context;
    return core::start_save(target(), {{"item", Custom()}}, registry.snapshot(), SaveOptions(), context)
        .wait();
  }

  std::filesystem::path target() const { return directory_ / "step"; }

  TempDir directory_;
};

Awaitable<Background<>> forget_a_file(SaveContext context) {
  Background<> kept = context.write_file("kept.txt", "kept");
  static_cast<void>(context.write_file("lost.txt", "lost"));
  co_return kept;
}

Awaitable<Background<>> forget_pieces(SaveContext context) {
  static const std::string text = "pieces";
  std::vector<SourcePiece> pieces(1);
  pieces[0].size_bytes = text.size();
  pieces[0].data = reinterpret_cast<const std::byte*>(text.data());
  static_cast<void>(co_await context.write_pieces("lost.bin", std::move(pieces), text.size()));
  co_return do_nothing();
}

Awaitable<Background<>> return_nothing_of_a_file(SaveContext context) {
  static_cast<void>(context.write_file("lost.txt", "lost"));
  co_return Background<>();
}

Background<> begin_too_late(SaveContext context) {
  static_cast<void>(context.write_file("lost.txt", "lost"));
  co_return;
}

Awaitable<Background<>> forget_in_the_background(SaveContext context) {
  co_return begin_too_late(std::move(context));
}

Awaitable<Background<>> write_no_file(SaveContext) {
  co_return Background<>();
}

TEST_F(HandlerFiles, ThatAreForgottenFailTheSave) {
  EXPECT_THAT([&] { save(forget_a_file); },
              Fails(Errc::handler_failed,
                    AllOf(HasSubstr("'item' (handler test.custom/1)"), HasSubstr("'item/lost.txt'"),
                          HasSubstr("never awaited"), ::testing::Not(HasSubstr("kept.txt")))));
  EXPECT_THAT(testing::list_tree(directory_.path()), ::testing::IsEmpty());
}

TEST_F(HandlerFiles, OfPiecesThatAreForgottenFailTheSave) {
  EXPECT_THAT([&] { save(forget_pieces); },
              Fails(Errc::handler_failed,
                    AllOf(HasSubstr("'item' (handler test.custom/1)"), HasSubstr("'item/lost.bin'"))));
  EXPECT_THAT(testing::list_tree(directory_.path()), ::testing::IsEmpty());
}

TEST_F(HandlerFiles, ThatTheBackgroundForgetsFailTheSave) {
  EXPECT_THAT([&] { save(forget_in_the_background); },
              Fails(Errc::handler_failed, HasSubstr("'item/lost.txt'")));
}

TEST_F(HandlerFiles, OfAnEmptyBackgroundFailTheSaveAndSayWhy) {
  EXPECT_THAT([&] { save(return_nothing_of_a_file); },
              Fails(Errc::handler_failed,
                    AllOf(HasSubstr("'item/lost.txt'"), HasSubstr("returned an empty background"))));
}

TEST_F(HandlerFiles, MayBeNone) {
  EXPECT_EQ(save(write_no_file).files, 0u);
}

}  // namespace
}  // namespace cairn
