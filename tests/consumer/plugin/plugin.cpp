// SPDX-License-Identifier: Apache-2.0
// A plugin: it registers a handler with the registry of the program that loads it.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cairn/cairn.hpp>

#include "note.hpp"

namespace {

class NoteHandler final : public cairn::CheckpointableHandler<Note, AbstractNote> {
 public:
  std::string_view id() const noexcept override { return "plugin.note/1"; }

  // outlives: the caller keeps the note during the blocking phase, which is this coroutine
  cairn::Awaitable<cairn::Background<>> save(cairn::SaveContext context, const Note& note) const override {
    if (note.text.empty()) {
      throw cairn::Error(cairn::Errc::invalid_argument, "the plugin saves no empty note");
    }
    co_return context.write_file("note.txt", note.text);
  }

  cairn::Awaitable<cairn::Background<Note>> load(cairn::LoadContext context,
                                                 std::optional<AbstractNote> /*wanted*/) const override {
    co_return read(std::move(context));
  }

  cairn::Awaitable<AbstractNote> metadata(cairn::LoadContext /*context*/) const override {
    co_return AbstractNote();
  }

 private:
  static cairn::Background<Note> read(cairn::LoadContext context) {
    Note note;
    note.text = co_await context.read_file("note.txt");
    co_return note;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void enroll() {
  cairn::register_handler<NoteHandler>();
}
