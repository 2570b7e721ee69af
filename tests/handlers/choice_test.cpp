// SPDX-License-Identifier: Apache-2.0
// Which handler serves, and what is said when it is another one than somebody may have expected.
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "core/internal/start.hpp"
#include "handlers/counter.hpp"
#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Counter;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HandlerChoice : public testing::StoreTest {
 protected:
  Loaded load_all(const Request& request) {
    return core::start_load(path(), {request}, handlers_, LoadOptions(), context_).wait();
  }
};

TEST_F(HandlerChoice, IsToldWhenAnotherHandlerLoadsThanTheOneThatSaved) {
  save(std::vector<float>{1, 2});

  const Loaded loaded = load_all({"item", AbstractTree(AbstractArray({2}, DType::float32))});

  EXPECT_THAT(
      loaded.result().fallbacks,
      ElementsAre("'item': saved by handler cairn.array/1, which loads cairn::AbstractArray; asked for "
                  "as cairn::AbstractTree, which handler cairn.tree/1 loads"));
}

TEST_F(HandlerChoice, IsNotWorthAWordWhenTheHandlerThatSavedLoads) {
  save(std::vector<float>{1, 2});

  EXPECT_THAT(load_all({"item", AbstractArray({2}, DType::float32)}).result().fallbacks, IsEmpty());
  EXPECT_THAT(load_all("item").result().fallbacks, IsEmpty());
}

TEST_F(HandlerChoice, OfAnotherTypeIsATypeMismatchAndNoMissingFile) {
  save(nlohmann::json({{"a", 1}}));
  Counter counter;

  EXPECT_THAT(
      [&] {
        load_all({"item", AbstractTree(TreeKind::map)});
      },
      Fails(Errc::type_mismatch,
            AllOf(HasSubstr("'item' (saved by handler cairn.json/1, which loads cairn::AbstractJson; "
                            "asked for as cairn::AbstractTree, which handler cairn.tree/1 loads)"),
                  Not(HasSubstr("not found")))));
  EXPECT_THAT(
      [&] {
        load_all({"item", into(counter)});
      },
      Fails(Errc::type_mismatch, AllOf(HasSubstr("asked for as into("),
                                       HasSubstr("Counter), which handler cairn.stateful/1 loads"))));
}

TEST_F(HandlerChoice, NamesAHandlerThatIsNotRegistered) {
  save(nlohmann::json({{"a", 1}}));
  std::erase_if(handlers_, [](const Registration& each) { return each.handler->id() == "cairn.json/1"; });

  EXPECT_THAT(
      [&] {
        load_all({"item", AbstractTree(TreeKind::map)});
      },
      Fails(Errc::type_mismatch, HasSubstr("saved by handler cairn.json/1, which is not registered")));
}

/// Saves trees under the id of state dicts.
class StateDictsAsTrees final : public CheckpointableHandler<Tree, AbstractTree> {
 public:
  std::string_view id() const noexcept override { return "cairn.megatron/1"; }
  Awaitable<Background<>> save(SaveContext context, const Tree& tree) const override {
    return TreeHandler().save(std::move(context), tree);
  }
  Awaitable<Background<Tree>> load(LoadContext, std::optional<AbstractTree>) const override {
    co_return ours();
  }
  Awaitable<AbstractTree> metadata(LoadContext context) const override {
    return TreeHandler().metadata(std::move(context));
  }

 private:
  static Background<Tree> ours() { co_return Tree("ours"); }
};

TEST_F(HandlerChoice, ReadsStateDictsAsTreesWhereTheirHandlerIsMissing) {
  const RegistrySnapshot builtin = handlers_;
  HandlerRegistry own;
  own.add<StateDictsAsTrees>();
  handlers_ = layer({builtin, own.snapshot()});
  const Tree tree = {{"decoder.w", std::vector<float>{1, 2}}, {"rng/shard_0_1", 7}};
  save(tree);
  EXPECT_EQ(load<Tree>(), Tree("ours"));

  handlers_ = builtin;

  EXPECT_EQ(load<Tree>(), tree);
  EXPECT_EQ(metadata<AbstractTree>().as_map().size(), 2u);
  EXPECT_THAT(load_all("item").result().fallbacks, IsEmpty());
}

struct Silent {};

struct Unconst {
  Awaitable<Background<>> save(SaveContext);
};

struct Blocking {
  void save(SaveContext) const;
};

struct ToAFile {
  void save(const char* path) const;
};

TEST_F(HandlerChoice, EndsWithTheRemedyWhenNobodySavesAType) {
  const Silent silent;

  EXPECT_THAT([&] { save(silent); },
              Fails(Errc::no_handler, AllOf(HasSubstr("Register a handler whose Value is "),
                                            HasSubstr("Silent, or give it the members "
                                                      "'Awaitable<Background<>> "
                                                      "save(SaveContext) const'"),
                                            HasSubstr("BOOST_DESCRIBE_STRUCT"))));
}

/// A type whose name nobody reads to its end.
template <class... Ts>
struct Long {};
using Four = Long<Silent, Silent, Silent, Silent>;

TEST_F(HandlerChoice, CutsLongNamesOfTypes) {
  const Long<Four, Four, Four, Four> value;

  EXPECT_THAT([&] { save(value); }, Fails(Errc::no_handler, HasSubstr("…, or give it the members")));
}

TEST_F(HandlerChoice, NamesWhatIsWrongWithAMemberThatNearlySaves) {
  const Unconst unconst;
  const Blocking blocking;
  const ToAFile to_a_file;

  EXPECT_THAT([&] { save(unconst); },
              Fails(Errc::no_handler,
                    HasSubstr("It nearly saves itself: its member 'save(SaveContext)' is not const")));
  EXPECT_THAT([&] { save(blocking); },
              Fails(Errc::no_handler, HasSubstr("returns another type than Awaitable<Background<>>")));
  EXPECT_THAT([&] { save(to_a_file); },
              Fails(Errc::no_handler, HasSubstr("'save' takes something else than one SaveContext")));
}

}  // namespace
}  // namespace cairn
