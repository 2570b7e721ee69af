// SPDX-License-Identifier: Apache-2.0
// Handlers and objects whose phases return awaitables that have no coroutine.
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "api/fixture.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Which of a handler's awaitables is empty.
enum class Hole { none, save, background_of_save, load, background_of_load, metadata };

struct Hollow {
  Hollow() = default;
  explicit Hollow(Hole which) : empty(which) {}

  Hole empty = Hole::none;
};

class HollowHandler final : public CheckpointableHandler<Hollow> {
 public:
  explicit HollowHandler(Hole empty = Hole::none) : empty_(empty) {}

  std::string_view id() const noexcept override { return "test.hollow/1"; }

  // outlives: nothing is used after the call.
  Awaitable<Background<>> save(SaveContext context, const Hollow& value) const override {
    return value.empty == Hole::save ? Awaitable<Background<>>()
                                     : begin(std::move(context), value.empty == Hole::background_of_save);
  }

  Awaitable<Background<Hollow>> load(LoadContext, std::optional<Hollow> wanted) const override {
    const Hole empty = wanted.value_or(Hollow()).empty;
    return empty == Hole::load ? Awaitable<Background<Hollow>>()
                               : begin_load(empty == Hole::background_of_load);
  }

  Awaitable<Hollow> metadata(LoadContext) const override {
    return empty_ == Hole::metadata ? Awaitable<Hollow>() : make();
  }

 private:
  static Awaitable<Background<>> begin(SaveContext context, bool is_empty) {
    co_return is_empty ? Background<>() : context.write_file("hollow.txt", "something");
  }
  static Awaitable<Background<Hollow>> begin_load(bool is_empty) {
    co_return is_empty ? Background<Hollow>() : make();
  }
  static Awaitable<Hollow> make() { co_return Hollow(); }

  Hole empty_;
};

/// An object that saves and loads itself, likewise.
class HollowObject {
 public:
  explicit HollowObject(Hole empty = Hole::none) : empty_(empty) {}

  Awaitable<Background<>> save(SaveContext) const {
    return empty_ == Hole::save ? Awaitable<Background<>>() : begin(nullptr);
  }
  Awaitable<Background<>> load(LoadContext) {
    return empty_ == Hole::load ? Awaitable<Background<>>() : begin(&is_loaded);
  }

  bool is_loaded = false;

 private:
  static Awaitable<Background<>> begin(bool* loaded) {  // outlives: the object is there while it loads.
    if (loaded != nullptr) {
      *loaded = true;
    }
    co_return Background<>();
  }

  Hole empty_;
};

class EmptyAwaitable : public testing::ApiTest {
 protected:
  static ContextOptions with(Hole empty) {
    ContextOptions options = small();
    options.registry.add(std::make_shared<const HollowHandler>(empty));
    return options;
  }

  EmptyAwaitable() : ApiTest(with(Hole::none)) {}
};

TEST_F(EmptyAwaitable, FromSaveIsAFailureOfItsHandler) {
  EXPECT_THAT(
      [&] {
        save_items({{"hollow", Hollow(Hole::save)}});
      },
      Fails(Errc::handler_failed, AllOf(HasSubstr("'hollow'"), HasSubstr("test.hollow/1"),
                                        HasSubstr("'save' has returned an empty awaitable"))));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(EmptyAwaitable, FromTheBlockingPhaseOfSaveIsNothingToDo) {
  save_items({{"hollow", Hollow(Hole::background_of_save)}});

  EXPECT_TRUE(is_checkpoint(target(), IsCheckpointOptions(), *context_));
}

TEST_F(EmptyAwaitable, FromLoadIsAFailureOfItsHandlerInBothPhases) {
  save_items({{"hollow", Hollow()}});

  for (const Hole empty : {Hole::load, Hole::background_of_load}) {
    EXPECT_THAT(
        [&] {
          static_cast<void>(load_items({{"hollow", Hollow(empty)}}));
        },
        Fails(Errc::handler_failed, AllOf(HasSubstr("'hollow'"), HasSubstr("test.hollow/1"),
                                          HasSubstr("'load' has returned an empty awaitable"))));
  }
}

TEST_F(EmptyAwaitable, FromMetadataIsAFailureOfItsHandler) {
  save_items({{"hollow", Hollow()}});
  const Context context(with(Hole::metadata));

  const ItemMetadata item = checkpointables_metadata(target(), context).at("hollow");

  EXPECT_EQ(item.problem_code, Errc::handler_failed);
  EXPECT_THAT(item.problem, HasSubstr("'metadata' has returned an empty awaitable"));
}

TEST_F(EmptyAwaitable, FromAnObjectsBlockingPhaseIsNothingToDo) {
  HollowObject loaded;

  save_items({{"object", HollowObject()}});
  static_cast<void>(load_items({{"object", into(loaded)}}));

  EXPECT_TRUE(loaded.is_loaded);
}

TEST_F(EmptyAwaitable, FromAnObjectIsAFailureOfItsHandler) {
  EXPECT_THAT(
      [&] {
        save_items({{"object", HollowObject(Hole::save)}});
      },
      Fails(Errc::handler_failed, AllOf(HasSubstr("'object'"), HasSubstr("empty awaitable"))));
  save_items({{"object", HollowObject()}});
  HollowObject loaded(Hole::load);

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_items({{"object", into(loaded)}}));
      },
      Fails(Errc::handler_failed, AllOf(HasSubstr("'object'"), HasSubstr("empty awaitable"))));
}

}  // namespace
}  // namespace cairn
