// SPDX-License-Identifier: Apache-2.0
// What one call has for itself: handlers, and `partial`.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/fixture.hpp"

namespace cairn::call_options {

using testing::Fails;
using ::testing::HasSubstr;

struct Note {
  std::string text;
};

/// Writes notes, and reads those of version 1, which ended with a full stop.
class NoteHandler final : public CheckpointableHandler<Note> {
 public:
  explicit NoteHandler(std::string id = "test.note/2") : id_(std::move(id)) {}

  std::string_view id() const noexcept override { return id_; }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Note& note) const override {
    return write(std::move(context), note.text + (id_ == "test.note/1" ? "." : ""));
  }
  Awaitable<Background<Note>> load(LoadContext context, std::optional<Note>) const override {
    co_return read(std::move(context));
  }
  Awaitable<Note> metadata(LoadContext context) const override {
    Note note;
    note.text = context.handler_id();
    co_return note;
  }

 private:
  static Awaitable<Background<>> write(SaveContext context, std::string text) {
    co_return context.write_file("note.txt", std::move(text));
  }
  static Background<Note> read(LoadContext context) {
    Note note;
    note.text = co_await context.read_file("note.txt");
    if (context.handler_id() == "test.note/1") {
      note.text.pop_back();
    }
    co_return note;
  }

  std::string id_;
};

class OneCall : public testing::ApiTest {
 protected:
  static HandlerRegistry of_version(const char* id) {
    RegistrationOptions options;
    options.aliases = {"test.note/1"};
    HandlerRegistry registry;
    registry.add(std::make_shared<const NoteHandler>(id), options);
    return registry;
  }

  void save_note(const char* id) const {
    SaveOptions options;
    options.registry = of_version(id);
    save_items({{"note", Note{"text"}}}, options);
  }

  static LoadOptions with_version_2() {
    LoadOptions options;
    options.registry = of_version("test.note/2");
    return options;
  }
};

TEST_F(OneCall, HandlersServeOneCall) {
  save_note("test.note/2");

  EXPECT_EQ(load_checkpointables(target(), {}, with_version_2(), *context_).take<Note>("note").text, "text");
  EXPECT_THAT([&] { static_cast<void>(load_items()); },
              Fails(Errc::unknown_handler_id, HasSubstr("test.note/2")));
  EXPECT_THAT([&] { save_items({{"note", Note{"text"}}}); }, Fails(Errc::no_handler));
}

TEST_F(OneCall, HandlersServeMetadataAndTheNewest) {
  save_note("test.note/2");
  LoadLatestOptions options;
  options.load = with_version_2();

  EXPECT_EQ(checkpointables_metadata(target(), with_version_2(), *context_).at("note").as<Note>().text,
            "test.note/2");
  EXPECT_EQ(load_latest(directory_.path(), {}, options, *context_)->loaded.take<Note>("note").text, "text");
}

TEST_F(OneCall, AnAliasLearnsWhichVersionItReads) {
  save_note("test.note/1");

  EXPECT_EQ(load_checkpointables(target(), {}, with_version_2(), *context_).take<Note>("note").text, "text");
  EXPECT_EQ(checkpointables_metadata(target(), with_version_2(), *context_).at("note").as<Note>().text,
            "test.note/1");
}

TEST_F(OneCall, PartialIsAnArgument) {
  const std::vector<float> w = {1, 2};
  save(target(), {{"w", w}, {"step", 3}}, SaveOptions(), *context_);
  AbstractTree part;
  part["step"] = TreeKind::integer;

  EXPECT_EQ(load(target(), part, partial, *context_), Tree({{"step", 3}}));
  EXPECT_EQ(load_checkpointables(target(), {{"state", part}}, partial, *context_).take<Tree>("state"),
            Tree({{"step", 3}}));
  EXPECT_THAT([&] { static_cast<void>(load(target(), part, LoadOptions(), *context_)); },
              Fails(Errc::structure_mismatch));
}

TEST_F(OneCall, LoadsTheCheckpointThatItExpectsOrNone) {
  save(target(), Tree{{"step", 1}}, {}, *context_);
  LoadOptions expected;
  expected.uuid = checkpointables_metadata(target(), {}, *context_).uuid;
  EXPECT_EQ(load(target(), expected, *context_).at("step").as<int>(), 1);

  SaveOptions overwriting;
  overwriting.overwrite = true;
  save(target(), Tree{{"step", 2}}, overwriting, *context_);

  EXPECT_THAT([&] { static_cast<void>(load(target(), expected, *context_)); },
              Fails(Errc::not_found, HasSubstr("not checkpoint " + expected.uuid)));
}

}  // namespace cairn::call_options
