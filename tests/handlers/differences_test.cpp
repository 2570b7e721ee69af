// SPDX-License-Identifier: Apache-2.0
// Structs that have got and lost members since they were saved.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>

#include "cairn/handlers/describe.hpp"
#include "cairn/handlers/into.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Of before.
struct Old {
  std::vector<float> w = {1, 2};
  std::int64_t step = 7;
  std::vector<float> gone = {9};
};
BOOST_DESCRIBE_STRUCT(Old, (), (w, step, gone))

struct LaterModel {
  std::vector<float> w;
  std::int64_t step = 0;
  double temperature = 0.7;
  std::optional<double> limit;
  friend bool operator==(const LaterModel&, const LaterModel&) = default;
};
BOOST_DESCRIBE_STRUCT(LaterModel, (), (w, step, temperature, limit))

template <class M>
struct History {
  std::map<std::string, M> models;
  std::optional<M> best;
  BOOST_DESCRIBE_CLASS(History, (), (models, best), (), ())
};

class Differences : public testing::StoreTest {
 protected:
  Loaded load_with(const Request& request) {
    LoadOptions options = members_may_differ;
    return core::start_load(path(), {request}, handlers_, options, context_).wait();
  }

  const LaterModel wanted_{{1, 2}, 7, 0.7, {}};
};

TEST_F(Differences, AreAnErrorByDefault) {
  save(to_tree(Old()));
  LaterModel model;

  EXPECT_THAT(
      [&] {
        static_cast<void>(load<Tree>({"item", into(model)}));
      },
      Fails(Errc::structure_mismatch,
            HasSubstr("'temperature', 'limit'; keys that are not members: 'gone'")));
}

TEST_F(Differences, OfAnObjectThatIsLoadedIntoAreListed) {
  save(to_tree(Old()));
  LaterModel model;
  model.limit = 3;

  const Loaded loaded = load_with({"item", into(model)});

  EXPECT_EQ(model, (LaterModel{{1, 2}, 7, 0.7, 3.0}));
  EXPECT_THAT(loaded.result().missing, ElementsAre("temperature", "limit"));
  EXPECT_THAT(loaded.result().unexpected, ElementsAre("gone"));
}

TEST_F(Differences, OfAStructThatIsTakenAreListed) {
  save(to_tree(Old()));
  Loaded loaded = load_with("item");

  EXPECT_EQ(loaded.take<LaterModel>("item"), wanted_);
  EXPECT_THAT(loaded.result().missing, ElementsAre("temperature", "limit"));
  EXPECT_THAT(loaded.result().unexpected, ElementsAre("gone"));
}

TEST_F(Differences, OfSeveralCheckpointablesNameThem) {
  core::start_save(path(), Checkpointables{{"a", to_tree(Old())}, {"b", 5}}, handlers_, SaveOptions(),
                   context_)
      .wait();
  Loaded loaded = core::start_load(path(), {"a", "b"}, handlers_, members_may_differ, context_).wait();

  static_cast<void>(loaded.take<LaterModel>("a"));

  EXPECT_THAT(loaded.result().unexpected, ElementsAre("a/gone"));
}

TEST_F(Differences, AreFoundInContainers) {
  History<Old> saved;
  saved.models["x/y"] = Old();
  saved.best = Old();
  save(to_tree(saved));
  History<LaterModel> run;
  run.models["x/y"].temperature = 0.1;
  run.models["other"];
  run.best = LaterModel{{}, 0, 0.2, {}};

  const Loaded loaded = load_with({"item", into(run)});

  EXPECT_EQ(run.models.size(), 1U);
  EXPECT_EQ(run.models["x/y"], (LaterModel{{1, 2}, 7, 0.1, {}}));
  EXPECT_EQ(run.best, (LaterModel{{1, 2}, 7, 0.2, {}}));
  EXPECT_THAT(loaded.result().unexpected, ElementsAre("models/x~1y/gone", "best/gone"));
}

TEST_F(Differences, OfWhichNothingFitsAreAnError) {
  save(Tree{{"module", to_tree(LaterModel())}});
  LaterModel model = wanted_;
  Tree tree = {{"w", 1}};
  const auto fails =
      Fails(Errc::structure_mismatch,
            AllOf(HasSubstr("nothing that is stored fits"), HasSubstr("wanted but not stored: 'w'"),
                  HasSubstr("1 stored but not wanted: 'module'"), HasSubstr("rename")));

  EXPECT_THAT([&] { load_with({"item", into(model)}); }, fails);
  EXPECT_THAT([&] { load_with({"item", into(tree)}); }, fails);
  EXPECT_THAT([&] { load_with("item").take<LaterModel>("item"); }, fails);
  EXPECT_EQ(model, wanted_);
}

TEST_F(Differences, OfWhichNothingFitsInAListAreAnError) {
  save(Tree{{"runs", Tree::list({Tree{{"a", 1}}, Tree{{"b", 2}}})}});
  std::map<std::string, std::vector<LaterModel>> runs;

  EXPECT_THAT(
      [&] {
        load_with({"item", into(runs)});
      },
      Fails(Errc::structure_mismatch, HasSubstr("2 stored but not wanted: 'runs/0/a', 'runs/1/b'")));
}

TEST_F(Differences, AreNoneWhereNothingIsStoredOrWanted) {
  save(Tree::map());
  LaterModel model = wanted_;
  std::map<std::string, LaterModel> none;

  EXPECT_THAT(load_with({"item", into(model)}).result().missing,
              ElementsAre("w", "step", "temperature", "limit"));
  load_with({"item", into(none)});

  EXPECT_EQ(model, wanted_);
}

TEST_F(Differences, OfATreeKeepWhatItHas) {
  save(to_tree(Old()));
  Tree tree = {{"step", 0}, {"w", std::vector<float>(2)}, {"extra", {{"deep", 5}}}};

  const Loaded loaded = load_with({"item", into(tree)});

  EXPECT_EQ(tree, (Tree{{"step", 7}, {"w", std::vector<float>{1, 2}}, {"extra", {{"deep", 5}}}}));
  EXPECT_THAT(loaded.result().missing, ElementsAre("extra"));
  EXPECT_THAT(loaded.result().unexpected, ElementsAre("gone"));
}

TEST_F(Differences, DoNotPermitOtherKindsAndShapes) {
  save(Tree{{"w", "text"}});
  LaterModel model;

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_with({"item", into(model)}));
      },
      Fails(Errc::type_mismatch, HasSubstr("'w'")));
}

TEST(FromTree, TellsOfDifferencesWhereItIsGivenAPlaceForThem) {
  LaterModel model;
  MemberDifferences differences;

  from_tree(to_tree(Old()), model, differences);

  EXPECT_EQ(model, (LaterModel{{1, 2}, 7, 0.7, {}}));
  EXPECT_THAT(differences.missing, ElementsAre("temperature", "limit"));
  EXPECT_THAT(differences.unexpected, ElementsAre("gone"));
  differences = {};
  from_tree(to_tree(LaterModel()), model, differences);
  EXPECT_THAT(differences.missing, IsEmpty());
}

}  // namespace
}  // namespace cairn
