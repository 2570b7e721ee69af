// SPDX-License-Identifier: Apache-2.0
// Handlers that write their files in more than one form, and say which by the id that is recorded.
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/fixture.hpp"

namespace cairn::other_forms {

using testing::Fails;
using ::testing::HasSubstr;

struct Line {
  std::string text;
};

/// Writes lines; long ones in a form of their own.
template <bool kKnowsLong>
class LineHandler final : public CheckpointableHandler<Line> {
 public:
  std::string_view id() const noexcept override { return "test.line/1"; }
  std::span<const std::string_view> other_ids() const noexcept override {
    static constexpr std::array<std::string_view, 1> kIds = {"test.line/2"};
    return kKnowsLong ? std::span<const std::string_view>(kIds) : std::span<const std::string_view>();
  }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Line& line) const override {
    if (line.text == "lost") {
      context.record_id("test.other/1");
    }
    if (line.text.size() > 10) {
      context.record_id("test.line/2");
    }
    if (line.text == "a long line, cut") {
      context.record_id("test.line/1");
    }
    return write(std::move(context), line.text);
  }
  Awaitable<Background<Line>> load(LoadContext context, std::optional<Line>) const override {
    co_return read(std::move(context));
  }
  Awaitable<Line> metadata(LoadContext context) const override {
    Line line;
    line.text = context.handler_id();
    co_return line;
  }

 private:
  static Awaitable<Background<>> write(SaveContext context, std::string text) {
    co_return context.write_file("line.txt", std::move(text));
  }
  static Background<Line> read(LoadContext context) {
    Line line;
    line.text = co_await context.read_file("line.txt");
    co_return line;
  }
};

class OtherForms : public testing::ApiTest {
 protected:
  template <bool kKnowsLong>
  static HandlerRegistry handlers() {
    HandlerRegistry registry;
    registry.add<LineHandler<kKnowsLong>>();
    return registry;
  }

  void save_line(std::string text) const {
    SaveOptions options;
    options.registry = handlers<true>();
    save_items({{"line", Line{std::move(text)}}}, options);
  }

  template <bool kKnowsLong = true>
  [[nodiscard]] Loaded load_line() const {
    LoadOptions options;
    options.registry = handlers<kKnowsLong>();
    return load_checkpointables(target(), {}, options, *context_);
  }

  [[nodiscard]] std::string recorded_id() const {
    LoadOptions options;
    options.registry = handlers<true>();
    const CheckpointMetadata metadata = checkpointables_metadata(target(), options, *context_);
    EXPECT_EQ(metadata.at("line").as<Line>().text, metadata.at("line").handler_id);
    return metadata.at("line").handler_id;
  }
};

TEST_F(OtherForms, AreRecordedAndReadByTheSameHandler) {
  save_line("a very long line");

  EXPECT_EQ(recorded_id(), "test.line/2");
  EXPECT_EQ(load_line().take<Line>("line").text, "a very long line");
}

TEST_F(OtherForms, AreNotRecordedUnlessASaveSaysSo) {
  save_line("short");
  EXPECT_EQ(recorded_id(), "test.line/1");
}

TEST_F(OtherForms, CanBeTakenBack) {
  save_line("a long line, cut");
  EXPECT_EQ(recorded_id(), "test.line/1");
}

TEST_F(OtherForms, AreRefusedByNameByAProgramThatIsOlder) {
  save_line("a very long line");
  EXPECT_THAT([&] { static_cast<void>(load_line<false>()); },
              Fails(Errc::unknown_handler_id, HasSubstr("'test.line/2'")));
}

TEST_F(OtherForms, AreNamedInErrorsOfLoads) {
  save_line("a very long line");
  std::filesystem::remove(target() / "line/line.txt");

  EXPECT_THAT([&] { static_cast<void>(load_line()); },
              Fails(Errc::not_found, HasSubstr("(handler test.line/2)")));
}

TEST_F(OtherForms, AreThoseOfTheHandlerOnly) {
  EXPECT_THAT([&] { save_line("lost"); },
              Fails(Errc::invalid_argument, HasSubstr("does not have the id 'test.other/1'")));
}

}  // namespace cairn::other_forms
