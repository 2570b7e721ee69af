// SPDX-License-Identifier: Apache-2.0
// ContextOptions::check_handlers: handlers that go on using their values are found; the others notice nothing.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "api/fixture.hpp"
#include "api/keeper.hpp"
#include "support/fake_device.hpp"

namespace cairn {
namespace {

/// Trivial, as many structs of numbers are.
struct Point {
  double x = 1;
  double y = 2;
};

/// What std::is_copy_constructible takes for copyable.
struct Owners {
  std::vector<std::unique_ptr<int>> owned;
};
static_assert(std::is_copy_constructible_v<Owners>);

/// A class that says that it can be copied, and counts how many there are.
class Counted {
 public:
  explicit Counted(std::shared_ptr<std::atomic<int>> alive) : alive_(std::move(alive)) { ++*alive_; }
  Counted(const Counted& other) : alive_(other.alive_) {
    if (other.fails_) {
      throw std::runtime_error("this one cannot be copied now");
    }
    ++*alive_;
  }
  ~Counted() { --*alive_; }
  Counted& operator=(const Counted&) = delete;

  void fail_copies() { fails_ = true; }
  [[nodiscard]] int number() const { return number_; }

 private:
  std::shared_ptr<std::atomic<int>> alive_;
  int number_ = 5;
  bool fails_ = false;
};

/// An object that saves itself, too late.
class LateObject {
 public:
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext context) const { co_return write(std::move(context)); }

 private:
  Background<> write(SaveContext context) const {
    co_await context.directory_created();
    co_await context.write_file("late.txt", std::to_string(value_));
  }

  int value_ = 7;
};

/// Has nothing to do in the background, and shows others its value.
class PointHolder final : public CheckpointableHandler<Point, testing::NothingAsked> {
 public:
  explicit PointHolder(std::shared_ptr<std::atomic<const Point*>> shown) : shown_(std::move(shown)) {}

  std::string_view id() const noexcept override { return "test.holder/1"; }

  // outlives: it does not, which is what is tested.
  Awaitable<Background<>> save(SaveContext /*context*/, const Point& point) const override {
    shown_->store(&point);
    co_return Background<>();
  }

  Awaitable<Background<Point>> load(LoadContext, std::optional<testing::NothingAsked>) const override {
    co_return Background<Point>();
  }

  Awaitable<testing::NothingAsked> metadata(LoadContext) const override { co_return testing::NothingAsked(); }

 private:
  std::shared_ptr<std::atomic<const Point*>> shown_;
};

}  // namespace

template <>
struct IsCopyable<Counted> : std::true_type {};

template <>
struct IsCopyable<LateObject> : std::true_type {};

namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Keeper;

using Late = std::function<std::string()>;

class CheckHandlers : public testing::ApiTest {
 protected:
  CheckHandlers() { context_.emplace(checking()); }

  static ContextOptions checking() {
    ContextOptions options = small();
    options.check_handlers = true;
    return options;
  }

  /// A handler for values of `T`, in a context of its own.
  template <class T>
  void use(typename Keeper<T>::Keep keep, ContextOptions options = checking()) {
    options.registry.add(std::make_shared<const Keeper<T>>(std::move(keep)));
    context_.emplace(std::move(options));
  }

  template <class T>
  SaveResult save_item(const T& value, const SaveOptions& options = {}) {
    return save_checkpointables(target(), {{"item", value}}, options, *context_);
  }

  static std::vector<float> counted(std::size_t size) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), 0.0F);
    return values;
  }
};

TEST_F(CheckHandlers, FindsAHandlerThatKeepsItsValue) {
  use<Point>([](const Point& point) -> Late { return [&point] { return std::to_string(point.y); }; });

  EXPECT_THAT([&] { save_item(Point()); },
              Fails(Errc::handler_failed,
                    HasSubstr("'item' (handler test.keeper/1): the handler has used the value")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CheckHandlers, FindsItInEveryOneOfManySaves) {
  use<Point>([](const Point& point) -> Late { return [&point] { return std::to_string(point.y); }; });

  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT([&] { save_item(Point()); }, Fails(Errc::handler_failed));
  }
}

TEST_F(CheckHandlers, LetsAHandlerPassThatTakesWhatItNeeds) {
  use<Point>([](const Point& point) -> Late { return [y = point.y] { return std::to_string(y); }; });

  const SaveResult result = save_item(Point());

  EXPECT_THAT(result.problems, IsEmpty());
}

TEST_F(CheckHandlers, NamesEveryHandlerThatIsFound) {
  // The first one to be late touches both values: the failure of one may end the other before it is late, or while it
  // writes.
  auto kept = std::make_shared<std::vector<const Point*>>();
  auto has_touched = std::make_shared<std::atomic<bool>>(false);
  use<Point>([=](const Point& point) -> Late {
    kept->push_back(&point);
    return
        [=] { return has_touched->exchange(true) ? "" : std::to_string(kept->front()->y + kept->back()->y); };
  });
  const Point one;
  const Point two;

  EXPECT_THAT(
      [&] {
        save_items({{"one", one}, {"two", two}});
      },
      Fails(Errc::handler_failed, AllOf(HasSubstr("'one'"), HasSubstr("'two'"))));
}

TEST_F(CheckHandlers, NamesTheArrayOfATreeThatIsKept) {
  use<Tree>([](const Tree& tree) -> Late {
    const auto kept = tree.at("params/w").array_if()->data<const float>();
    return [kept] { return std::to_string(kept[3]); };
  });
  const std::vector<float> w = counted(100);
  const std::vector<float> b = counted(3);
  const Tree tree = {{"params", {{"b", b}, {"w", w}}}};

  EXPECT_THAT([&] { save_item(tree); },
              Fails(Errc::handler_failed, HasSubstr("has used the array 'params/w' after")));
}

TEST_F(CheckHandlers, FindsALargeArrayOfATreeThatOwnsIt) {
  use<Tree>([](const Tree& tree) -> Late {
    return [kept = *tree.at("w").array_if()] { return std::to_string(kept.data<const float>()[0]); };
  });
  const Tree tree = {{"w", Array::adopt(counted(1 << 20))}};

  EXPECT_THAT([&] { save_item(tree); }, Fails(Errc::handler_failed, HasSubstr("the array 'w'")));
}

TEST_F(CheckHandlers, FindsTheElementsOfAVector) {
  use<Array>([](const Array& array) -> Late {
    return [kept = array] { return std::to_string(kept.data<const float>()[1]); };
  });
  const std::vector<float> values = counted(10);

  EXPECT_THAT([&] { save_item(values); }, Fails(Errc::handler_failed, HasSubstr("has used the array after")));
}

TEST_F(CheckHandlers, FindsAnObjectThatSavesItselfTooLate) {
  EXPECT_THAT(
      [&] { save_item(LateObject()); },
      Fails(Errc::handler_failed, HasSubstr("'item' (handler cairn.stateful/1): the handler has used")));
}

TEST_F(CheckHandlers, FindsAValueThatWasMovedIn) {
  use<Point>([](const Point& point) -> Late { return [&point] { return std::to_string(point.y); }; });

  const AsyncResponse saving = save_checkpointables_async(target(), {{"item", Point()}}, {}, *context_);

  EXPECT_THAT([&] { saving.wait(); }, Fails(Errc::handler_failed));
}

TEST_F(CheckHandlers, ExplainsAWriteOfTheValueByTheSystem) {
  static const auto write_all = [](const std::filesystem::path& path, const Point& point) {
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
    const ssize_t written = ::write(file, &point, sizeof(point));
    const int error = errno;
    ::close(file);
    if (written < 0) {
      throw_errno(error, "write", path);
    }
  };
  const auto path = directory_ / "aside";
  use<Point>([path](const Point& point) -> Late {
    return [path, &point] {
      write_all(path, point);
      return "done";
    };
  });

  try {
    save_item(Point());
    ADD_FAILURE() << "nothing was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), std::errc::bad_address);
    EXPECT_THAT(error.what(), HasSubstr("the handler may have given the system the value"));
  }
}

TEST_F(CheckHandlers, FindsAUseAfterTheBackgroundPhase) {
  const auto kept = std::make_shared<std::atomic<const Point*>>(nullptr);
  ContextOptions options = checking();
  options.registry.add(std::make_shared<const PointHolder>(kept));
  use<int>([kept](const int&) -> Late { return [kept] { return std::to_string(kept->load()->x); }; },
           std::move(options));
  const Point point;
  const int number = 3;

  EXPECT_THAT(
      [&] {
        save_items({{"point", point}, {"number", number}});
      },
      Fails(Errc::handler_failed, HasSubstr("'point' (handler test.holder/1)")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(CheckHandlers, FindsItWithoutACallerWhoWaits) {
  use<Point>([](const Point& point) -> Late { return [&point] { return std::to_string(point.y); }; });
  const Point point;

  const AsyncResponse saving =
      save_checkpointables_async(target(), {{"item", point}}, return_when_accepted, *context_);

  EXPECT_THAT([&] { saving.wait(); }, Fails(Errc::handler_failed));
}

TEST_F(CheckHandlers, BuiltInHandlersPass) {
  std::vector<float> matrix = counted(6);
  const MutableArrayView columns = MutableArrayView(matrix.data(), {2, 3}, DType::float32).transposed();
  const ArrayView backwards(matrix.data() + 5, {6}, DType::float32, Strides{-4});
  const std::vector<float> large = counted(300'000);
  const Tree tree = {{"columns", columns},
                     {"backwards", backwards},
                     {"large", large},
                     {"none", std::vector<float>()},
                     {"text", "a string that is longer than a short one"},
                     {"list", Tree::list({1, 2.5, nullptr})}};
  const nlohmann::json document = {{"a", {1, 2}}};
  const Tree expected = tree;

  save_items({{"tree", tree}, {"document", document}, {"vector", large}});

  Loaded loaded = load_items();
  EXPECT_EQ(loaded.take<Tree>("tree"), expected);
  EXPECT_EQ(loaded.take<nlohmann::json>("document"), document);
  EXPECT_EQ(loaded.take<std::vector<float>>("vector"), large);
}

TEST_F(CheckHandlers, CastsOfStridedArraysPass) {
  std::vector<float> matrix = counted(6);
  const Tree tree = {{"w", MutableArrayView(matrix.data(), {2, 3}, DType::float32).transposed()}};
  SaveOptions options;
  options.handler_options.set(ArrayOptions(DType::float64));

  save(target(), tree, options, *context_);

  const Array stored = load(target(), {}, *context_).at("w").as<Array>();
  EXPECT_THAT(stored.data<const double>(), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_F(CheckHandlers, CopiesHaveTheStridesAndOwnersOfTheOriginals) {
  Tree seen;
  use<Tree>([&seen](const Tree& tree) -> Late {
    for (const auto& [key, leaf] : tree.as_map()) {
      const Array& array = *leaf.array_if();
      seen[key] = {{"strides", to_string(array.view().strides())},
                   {"owned", array.owner() != nullptr},
                   {"mutable", array.is_mutable()}};
    }
    return [] { return "seen"; };
  });
  const std::vector<float> values = counted(6);
  const Tree tree = {{"borrowed", ArrayView(values.data() + 5, {3}, DType::float32, Strides{-8})},
                     {"owned", Array::zeros({2}, DType::int8)}};

  save_item(tree);

  const Tree expected = {{"borrowed", {{"strides", "[-8]"}, {"owned", false}, {"mutable", false}}},
                         {"owned", {{"strides", "[1]"}, {"owned", true}, {"mutable", true}}}};
  EXPECT_EQ(seen, expected);
}

TEST_F(CheckHandlers, ManySmallArraysShareTheirPages) {
  const float one = 1;
  Tree tree;
  for (int i = 0; i < 70'000; ++i) {  // More than a process may have mappings.
    tree[std::to_string(i)] = ArrayView(&one, {}, DType::float32);
  }

  save(target(), tree, {}, *context_);

  EXPECT_EQ(load(target(), {}, *context_).size(), 70'000U);
}

TEST_F(CheckHandlers, AHandlerMayKeepAnArrayThatItDoesNotUse) {
  Array kept;
  use<Tree>([&kept](const Tree& tree) -> Late {
    kept = *tree.at("w").array_if();
    return [] { return "kept"; };
  });

  save_item(Tree({{"w", Array::adopt(counted(4))}}));
  context_.reset();

  EXPECT_EQ(kept.data<const float>()[3], 3.0F);  // After the save it may.
}

TEST_F(CheckHandlers, ReportsOnceWhatCannotBeCopied) {
  use<Owners>([](const Owners&) -> Late { return [] { return "done"; }; });
  const Owners one;
  const Owners two;

  const SaveResult result = save_checkpointables(target(), {{"one", one}, {"two", two}}, *context_);

  EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("not checked: 'one' ("), HasSubstr("'two' ("),
                                                 HasSubstr("cairn::IsCopyable"))));
}

TEST_F(CheckHandlers, WhatCannotBeCopiedIsGivenAsItIs) {
  const Owners* given = nullptr;
  use<Owners>([&given](const Owners& value) -> Late {
    given = &value;
    return [] { return "done"; };
  });
  const Owners owners;

  save_item(owners);

  EXPECT_EQ(given, &owners);
}

TEST_F(CheckHandlers, TellsThatMemoryOfAValueIsNotWatched) {
  const Tree tree = {{"step", 1}};

  const SaveResult result = save(target(), tree, {}, *context_);

  EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("what 'state' has allocated"),
                                                 HasSubstr("cairn/testing/watched_new.hpp"))));
}

TEST_F(CheckHandlers, TellsThatArraysOnDevicesAreNotChecked) {
  testing::FakeDevice device;
  ContextOptions options = checking();
  options.copiers = {device.copier()};
  context_.emplace(std::move(options));
  const std::shared_ptr<std::byte> memory = device.allocate(4096);
  const Tree tree = {{"w", MutableArrayView(memory.get(), {1024}, DType::float32, device.device())}};

  const SaveResult result = save(target(), tree, {}, *context_);

  EXPECT_THAT(result.problems, Contains(HasSubstr("the array 'w' on cuda:0 of 'state'")));
  context_.reset();
}

TEST_F(CheckHandlers, BorrowedAndSharedValuesAreNotChecked) {
  const Point* given = nullptr;
  use<Point>([&given](const Point& point) -> Late {
    given = &point;
    return [&point] { return std::to_string(point.y); };
  });
  const Point point;
  for (const Snapshot snapshot : {Snapshot::borrow, Snapshot::share}) {
    SaveOptions options;
    options.snapshot = snapshot;
    options.overwrite = true;

    const SaveResult result = save_item(point, options);

    EXPECT_THAT(result.problems, ElementsAre(HasSubstr("check_handlers: nothing was checked")));
    EXPECT_EQ(given, &point);
  }
}

TEST_F(CheckHandlers, WithoutTheOptionAHandlerIsGivenTheValueItself) {
  const Point* given = nullptr;
  use<Point>(
      [&given](const Point& point) -> Late {
        given = &point;
        return [] { return "done"; };
      },
      small());
  const Point point;

  const SaveResult result = save_item(point);

  EXPECT_EQ(given, &point);
  EXPECT_THAT(result.problems, IsEmpty());
}

TEST_F(CheckHandlers, CopiesAreDestroyedWhenTheSaveIsDone) {
  const auto alive = std::make_shared<std::atomic<int>>(0);
  int alive_in_background = 0;
  use<Counted>([&](const Counted&) -> Late {
    return [&] {
      alive_in_background = *alive;
      return "done";
    };
  });
  const Counted counted_value(alive);

  const AsyncResponse saving = save_checkpointables_async(target(), {{"item", counted_value}}, {}, *context_);
  saving.wait_done();

  EXPECT_EQ(alive_in_background, 2);
  EXPECT_EQ(*alive, 1);
}

TEST_F(CheckHandlers, CopiesOfSavesThatFailAreDestroyed) {
  const auto alive = std::make_shared<std::atomic<int>>(0);
  use<Counted>([](const Counted&) -> Late { throw Error(Errc::invalid_argument, "no"); });
  const Counted counted_value(alive);

  EXPECT_THAT([&] { save_item(counted_value); }, Fails(Errc::invalid_argument));
  context_.reset();  // It waits for all that runs.

  EXPECT_EQ(*alive, 1);
}

TEST_F(CheckHandlers, ACopyThatThrowsFailsTheSave) {
  const auto alive = std::make_shared<std::atomic<int>>(0);
  use<Counted>([](const Counted& value) -> Late {
    return [number = value.number()] { return std::to_string(number); };
  });
  Counted counted_value(alive);
  counted_value.fail_copies();

  EXPECT_THAT([&] { save_item(counted_value); },
              Fails(Errc::handler_failed, AllOf(HasSubstr("'item'"), HasSubstr("cannot be copied now"))));
  EXPECT_EQ(*alive, 1);
}

TEST_F(CheckHandlers, ATreeThatIsTooDeepIsRefusedAsWithoutIt) {
  Tree tree;
  for (std::size_t i = 0; i <= kMaxTreeDepth; ++i) {
    Tree outer;
    outer["x"] = std::move(tree);
    tree = std::move(outer);
  }

  EXPECT_THAT([&] { save(target(), tree, {}, *context_); },
              Fails(Errc::invalid_argument, HasSubstr("deeper than")));
}

}  // namespace
}  // namespace cairn
