// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/find.hpp"

#include <system_error>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/fixture.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::write_text;

class Find : public testing::ApiTest {
 protected:
  void save_step(int step) const {
    save(root() / ("step-" + std::to_string(step)), {{"step", step}}, {}, *context_);
  }

  /// Bytes of another value, so that only a load finds it.
  void alter(int step) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_of(step))) {
      if (entry.path().extension() == ".safetensors" || entry.path().filename() == "index.fb") {
        std::string text = testing::read_text(entry.path());
        text.back() = static_cast<char>(text.back() ^ 1);
        write_text(entry.path(), text);
      }
    }
  }

  [[nodiscard]] std::filesystem::path root() const { return directory_.path(); }
  [[nodiscard]] std::filesystem::path path_of(int step) const {
    return root() / ("step-" + std::to_string(step));
  }

  [[nodiscard]] std::optional<LoadedLatest> load_newest(bool fall_back = false) const {
    LoadLatestOptions options;
    options.fall_back = fall_back;
    return load_latest(root(), {"state"}, options, *context_);
  }

  static int step_of(LoadedLatest& latest) { return latest.loaded.take<Tree>("state").get<int>("step"); }
};

TEST_F(Find, TheLatestIsTheLastByNumber) {
  save_step(9);
  save_step(10);

  EXPECT_EQ(latest_checkpoint(root(), {}, *context_)->name, "step-10");
}

/// Names that a folder has, and the newest of them; empty: they do not tell.
struct NamesAndLatest {
  std::vector<std::string> names;
  std::string latest;
};

class LatestByName : public Find, public ::testing::WithParamInterface<NamesAndLatest> {};

TEST_P(LatestByName, IsTheLastOfOneFamilyOrNobodys) {
  for (const std::string& name : GetParam().names) {
    save(root() / name, {{"step", 1}}, {}, *context_);
  }
  const auto latest = [&] { return latest_checkpoint(root(), {}, *context_)->name; };
  const auto load = [&] { return load_latest(root(), {}, {}, *context_)->checkpoint.name; };
  if (!GetParam().latest.empty()) {
    EXPECT_EQ(latest(), GetParam().latest);
    EXPECT_EQ(testing::run(latest_checkpoint_async(root(), {}, *context_))->name, GetParam().latest);
    EXPECT_EQ(load(), GetParam().latest);
    return;
  }
  const auto names_all = AllOf(HasSubstr(GetParam().names.front()), HasSubstr(GetParam().names.back()),
                               HasSubstr("`number`"), HasSubstr("by_time"));
  EXPECT_THAT([&] { static_cast<void>(latest()); }, Fails(Errc::invalid_argument, names_all));
  EXPECT_THAT([&] { static_cast<void>(load()); }, Fails(Errc::invalid_argument, names_all));
}

INSTANTIATE_TEST_SUITE_P(All, LatestByName,
                         ::testing::Values(NamesAndLatest{{"90", "best", "100"}, "100"},
                                           NamesAndLatest{{"epoch-10", "weights"}, "epoch-10"},
                                           NamesAndLatest{{"2-4", "2-10", "1-90", "final"}, "2-10"},
                                           NamesAndLatest{{"final"}, "final"},
                                           NamesAndLatest{{"best", "weights"}, ""},
                                           NamesAndLatest{{"100", "step-7"}, ""},
                                           NamesAndLatest{{"1", "1-2"}, ""},
                                           NamesAndLatest{{"9.5", "10", "10.5", "11"}, "11"},
                                           NamesAndLatest{{"-20", "-10", "0", "10"}, "10"},
                                           NamesAndLatest{{"t_0.25", "t_0.75", "t_1.00"}, "t_1.00"},
                                           NamesAndLatest{{"0.050", "0.100", "0.125"}, "0.125"},
                                           NamesAndLatest{{"step_100", "step_100-hf"}, ""}));

/// Names of which the readings name different newest ones, and these, as decimals and apart.
struct NamesReadTwice {
  std::vector<std::string> names;  // In the order in which they are saved.
  std::string decimal;
  std::string apart;
};

class LatestReadTwice : public Find, public ::testing::WithParamInterface<NamesReadTwice> {
 protected:
  LatestReadTwice() {
    for (const std::string& name : GetParam().names) {
      save(root() / name, {{"step", 1}}, {}, *context_);
    }
  }

  template <class Options>
  static Options read_as(NumbersInNames numbers) {
    Options options;
    options.numbers = numbers;
    return options;
  }
};

TEST_P(LatestReadTwice, IsRefusedAndBothAreNamed) {
  const auto names_both =
      AllOf(HasSubstr("'" + GetParam().decimal + "'"), HasSubstr("'" + GetParam().apart + "'"),
            HasSubstr("`numbers`"), HasSubstr("by_time"));
  EXPECT_THAT([&] { static_cast<void>(latest_checkpoint(root(), {}, *context_)); },
              Fails(Errc::invalid_argument, names_both));
  EXPECT_THAT([&] { static_cast<void>(load_latest(root(), {}, {}, *context_)); },
              Fails(Errc::invalid_argument, names_both));
}

TEST_P(LatestReadTwice, IsWhatIsAskedFor) {
  const auto decimal = read_as<LatestOptions>(NumbersInNames::decimal);
  const auto apart = read_as<LatestOptions>(NumbersInNames::apart);
  EXPECT_EQ(latest_checkpoint(root(), decimal, *context_)->name, GetParam().decimal);
  EXPECT_EQ(latest_checkpoint(root(), apart, *context_)->name, GetParam().apart);
  const auto load = read_as<LoadLatestOptions>(NumbersInNames::decimal);
  EXPECT_EQ(load_latest(root(), {}, load, *context_)->checkpoint.name, GetParam().decimal);
}

TEST_P(LatestReadTwice, IsTheLastOfTheListThatIsAskedFor) {
  const auto decimal = read_as<ListOptions>(NumbersInNames::decimal);
  const auto apart = read_as<ListOptions>(NumbersInNames::apart);
  EXPECT_EQ(list_checkpoints(root(), decimal, *context_).back().name, GetParam().decimal);
  EXPECT_EQ(list_checkpoints(root(), apart, *context_).back().name, GetParam().apart);
  EXPECT_EQ(list_checkpoints(root(), {}, *context_).back().name, GetParam().names.back())
      << "by the time of the commit";
}

INSTANTIATE_TEST_SUITE_P(All, LatestReadTwice,
                         ::testing::Values(NamesReadTwice{{"0.1", "0.15", "0.2"}, "0.2", "0.15"},
                                           NamesReadTwice{{"v1.10", "v1.9"}, "v1.9", "v1.10"},
                                           NamesReadTwice{{"-10", "-5"}, "-5", "-10"}));

TEST_F(Find, AListOfTimesOfASimulationHasTheLastThatWasSavedLast) {
  for (const char* time : {"0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}) {
    save(root() / time, {{"step", 1}}, {}, *context_);
    for (auto old = list_checkpoints(root(), {}, *context_); old.size() > 3; old.erase(old.begin())) {
      remove_checkpoint(old.front().path, {}, *context_);
    }
    ASSERT_TRUE(is_checkpoint(root() / time, {}, *context_)) << time;
  }
  EXPECT_TRUE(is_checkpoint(root() / "0.2", {}, *context_));
  EXPECT_TRUE(is_checkpoint(root() / "0.25", {}, *context_));
}

/// The newest is the same either way, but not what comes before it.
TEST_F(Find, LoadLatestDoesNotFallBackInAnOrderThatNamesDoNotTell) {
  for (const char* name : {"0.15", "0.2", "1.0"}) {
    save(root() / name, {{"step", 1}}, {}, *context_);
  }
  LoadLatestOptions options;
  EXPECT_EQ(load_latest(root(), {}, options, *context_)->checkpoint.name, "1.0");

  options.fall_back = true;
  EXPECT_THAT([&] { static_cast<void>(load_latest(root(), {}, options, *context_)); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'0.2'"), HasSubstr("'0.15'"))));
  options.numbers = NumbersInNames::decimal;
  EXPECT_EQ(load_latest(root(), {}, options, *context_)->checkpoint.name, "1.0");
}

TEST_F(Find, TheLatestOfSeveralFamiliesIsThatByTimeOrByNumber) {
  for (const char* name : {"step-100-hf", "step-100", "step-90"}) {
    save(root() / name, {{"step", 1}}, {}, *context_);
  }
  LatestOptions options;
  options.order = CheckpointOrder::by_time;
  EXPECT_EQ(latest_checkpoint(root(), options, *context_)->name, "step-90");

  options.order = CheckpointOrder::by_name;
  options.number = [](std::string_view name) {
    return name.ends_with("-hf") ? std::nullopt
                                 : std::optional<std::uint64_t>(std::stoull(std::string(name.substr(5))));
  };
  EXPECT_EQ(latest_checkpoint(root(), options, *context_)->name, "step-100");
  EXPECT_EQ(testing::run(latest_checkpoint_async(root(), options, *context_))->name, "step-100");
}

TEST_F(Find, TheLatestByTimeIsTheLastThatWasCommitted) {
  save_step(10);
  save_step(9);
  save_step(8);
  save_step(7);
  save_step(6);
  LatestOptions options;
  options.order = CheckpointOrder::by_time;

  EXPECT_EQ(latest_checkpoint(root(), options, *context_)->name, "step-6");
}

TEST_F(Find, TheLatestOfARootThatIsYetToBeMadeIsNothing) {
  EXPECT_FALSE(latest_checkpoint(root() / "run", {}, *context_));
  EXPECT_FALSE(latest_checkpoint((root() / "run").string() + "/", {}, *context_));
  EXPECT_FALSE(load_latest(root() / "run", {}, {}, *context_));
  EXPECT_THAT([&] { static_cast<void>(latest_checkpoint(root() / "rnu/run", {}, *context_)); },
              Fails(Errc::not_found, HasSubstr("rnu/run")));
  EXPECT_THAT([&] { static_cast<void>(list_checkpoints(root() / "run", {}, *context_)); },
              Fails(Errc::not_found, HasSubstr("run")));
}

TEST_F(Find, ARootThatIsNoDirectoryIsAnError) {
  write_text(root() / "file", "x");
  std::filesystem::create_symlink("nowhere", root() / "link");

  EXPECT_THAT([&] { static_cast<void>(load_latest(root() / "file", {}, {}, *context_)); },
              FailsWithErrno(ENOTDIR, HasSubstr("file")));
  EXPECT_THAT([&] { static_cast<void>(load_latest(root() / "link", {}, {}, *context_)); },
              Fails(Errc::not_found, HasSubstr("link")));
}

TEST_F(Find, PathsAreMadeOfTheRootAsItWasGiven) {
  save_step(1);
  std::filesystem::create_directory_symlink(root(), root() / "link");

  EXPECT_EQ(latest_checkpoint(root() / "link", {}, *context_)->path, root() / "link/step-1");
  EXPECT_EQ(latest_checkpoint(root().string() + "/", {}, *context_)->path, root() / "step-1");
  EXPECT_EQ(latest_checkpoint(root() / ".", {}, *context_)->path, root() / "./step-1");
}

TEST_F(Find, AListHasADeadline) {
  save_step(1);
  ListOptions options;
  options.deadline = std::chrono::minutes(10);

  EXPECT_EQ(list_checkpoints(root(), options, *context_).size(), 1u);
}

TEST_F(Find, IsCheckpointSaysWhetherThereIsOne) {
  save_step(1);

  EXPECT_TRUE(is_checkpoint(path_of(1), {}, *context_));
  EXPECT_FALSE(is_checkpoint(root(), {}, *context_));
}

TEST_F(Find, LoadLatestLoadsTheNewest) {
  save_step(9);
  save_step(10);

  auto latest = load_newest();

  ASSERT_TRUE(latest);
  EXPECT_EQ(step_of(*latest), 10);
  EXPECT_EQ(latest->checkpoint.path, path_of(10));
  EXPECT_THAT(latest->passed_over, IsEmpty());
}

TEST_F(Find, LoadLatestByNumberLeavesOutWhatHasNone) {
  save_step(9);
  save_step(10);
  save(root() / "8", {{"step", 8}}, {}, *context_);
  save(root() / "zzz", {{"step", 0}}, {}, *context_);
  LoadLatestOptions options;
  options.number = [](std::string_view name) {
    return name.size() > 2 ? std::nullopt : std::optional<std::uint64_t>(name.size());
  };

  auto latest = load_latest(root(), {}, options, *context_);

  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->checkpoint.name, "8");
}

TEST_F(Find, LoadLatestByNumberTellsOfADisplacedOne) {
  save_step(1);
  save_step(2);
  std::filesystem::rename(path_of(2), root() / ".tmp-step-2-00000000-0000-4000-8000-000000000000");
  LoadLatestOptions options;
  options.number = [](std::string_view name) -> std::optional<std::uint64_t> {
    return name == "step-1" ? 1 : name == "step-2" ? 2 : 3;
  };

  EXPECT_THAT([&] { static_cast<void>(load_latest(root(), {}, options, *context_)); },
              Fails(Errc::not_committed, HasSubstr("step-2")));
}

TEST_F(Find, AListHasTheAnnotationsOfSaves) {
  SaveOptions options;
  options.annotations = R"({"mine": [1, 2]})";
  save(root() / "1", tree_, options, *context_);

  EXPECT_EQ(list_checkpoints(root(), {}, *context_).at(0).annotations, R"({"mine":[1,2]})");
  EXPECT_EQ(checkpointables_metadata(root() / "1", *context_).annotations, R"({"mine":[1,2]})");
  options.annotations = "[]";
  EXPECT_THAT([&] { save(root() / "2", tree_, options, *context_); },
              Fails(Errc::invalid_argument, HasSubstr("annotations")));
}

TEST_F(Find, LoadLatestOfAnEmptyRootIsNothing) {
  EXPECT_FALSE(load_newest());
}

TEST_F(Find, LoadLatestDoesNotFallBackUnasked) {
  save_step(9);
  save_step(10);
  alter(10);

  EXPECT_THAT([&] { static_cast<void>(load_newest()); },
              Fails(Errc::checksum_mismatch, HasSubstr("step-10")));
}

TEST_F(Find, LoadLatestDoesNotSkipACheckpointThatHasLostItsCommit) {
  save_step(9);
  save_step(10);
  std::filesystem::remove(path_of(10) / "COMMIT");

  EXPECT_THAT([&] { static_cast<void>(load_newest()); }, Fails(Errc::not_committed, HasSubstr("step-10")));
}

TEST_F(Find, LoadLatestFallsBackAndSaysWhy) {
  for (const int step : {8, 9, 10}) {
    save_step(step);
  }
  std::filesystem::remove(path_of(10) / "COMMIT");
  alter(9);

  auto latest = load_newest(true);

  ASSERT_TRUE(latest);
  EXPECT_EQ(step_of(*latest), 8);
  ASSERT_EQ(latest->passed_over.size(), 2u);
  EXPECT_EQ(latest->passed_over[0].path, path_of(10));
  EXPECT_THAT(latest->passed_over[0].why, HasSubstr("COMMIT is missing"));
  EXPECT_EQ(latest->passed_over[1].code, Errc::checksum_mismatch);
  EXPECT_THAT(latest->passed_over[1].why, AllOf(HasSubstr("step-9"), HasSubstr("index.fb")));
}

TEST_F(Find, LoadLatestWithoutASoundOneSaysWhatTheNewestLacks) {
  save_step(9);
  save_step(10);
  alter(9);
  alter(10);

  EXPECT_THAT(
      [&] { static_cast<void>(load_newest(true)); },
      Fails(Errc::checksum_mismatch, AllOf(HasSubstr("none of 2 checkpoints"), HasSubstr("step-10"))));
}

TEST_F(Find, LoadLatestWithoutASoundOneSaysOfSeveralWhatIsWrong) {
  for (const int step : {6, 7, 8, 9, 10}) {
    save_step(step);
    alter(step);
  }
  std::filesystem::remove(path_of(9) / "COMMIT");

  EXPECT_THAT(
      [&] { static_cast<void>(load_newest(true)); },
      Fails(Errc::checksum_mismatch, AllOf(HasSubstr("the newest first: "), HasSubstr("step-10"),
                                           HasSubstr("step-9: COMMIT is missing"), HasSubstr("step-8"),
                                           HasSubstr("; and 2 more"), Not(HasSubstr("step-7")))));
}

TEST_F(Find, LoadLatestNamesTheOlderOneWhereItIsNotToFallBack) {
  save_step(9);
  save_step(10);
  alter(10);

  EXPECT_THAT([&] { static_cast<void>(load_newest()); },
              Fails(Errc::checksum_mismatch,
                    AllOf(HasSubstr("step-10"), HasSubstr("fall_back would go on to 'step-9'"))));
  remove_checkpoint(path_of(9), {}, *context_);
  EXPECT_THAT([&] { static_cast<void>(load_newest()); },
              Fails(Errc::checksum_mismatch, AllOf(HasSubstr("step-10"), Not(HasSubstr("fall_back")))));
}

TEST_F(Find, LoadLatestNamesNoOlderOneThatIsDamaged) {
  for (const int step : {8, 9, 10}) {
    save_step(step);
  }
  alter(10);
  std::filesystem::remove(path_of(9) / "COMMIT");

  EXPECT_THAT([&] { static_cast<void>(load_newest()); },
              Fails(Errc::checksum_mismatch, HasSubstr("fall_back would go on to 'step-8'")));
  std::filesystem::remove(path_of(8) / "COMMIT");
  EXPECT_THAT([&] { static_cast<void>(load_newest()); },
              Fails(Errc::checksum_mismatch, Not(HasSubstr("fall_back"))));
}

TEST_F(Find, LoadLatestDoesNotFallBackForWhatWasAskedForInVain) {
  save_step(9);
  save_step(10);
  LoadLatestOptions options;
  options.fall_back = true;

  EXPECT_THAT([&] { static_cast<void>(load_latest(root(), {"modle"}, options, *context_)); },
              Fails(Errc::not_found, AllOf(HasSubstr("step-10"), HasSubstr("modle"))));
}

/// Nothing can be opened by a path with `name` in it.
class RefusedFiles final : public testing::ForwardingSyscalls {
 public:
  explicit RefusedFiles(std::string name) : name_(std::move(name)) {}

  std::atomic<int> error{EACCES};

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    const bool is_refused = call.kind == testing::CallKind::open && call.name != nullptr &&
                            std::string_view(call.name).find(name_) != std::string_view::npos;
    return is_refused ? -error : call.make();
  }

  const std::string name_;
};

TEST_F(Find, LoadLatestDoesNotFallBackForWhatTheSystemRefuses) {
  save_step(9);
  save_step(10);
  const auto files = std::make_shared<RefusedFiles>("step-10");
  ContextOptions over = small();
  over.syscalls = files;
  const Context context(over);
  LoadLatestOptions options;
  options.fall_back = true;

  for (const int error : {EACCES, EMFILE}) {
    files->error = error;
    EXPECT_THAT([&] { static_cast<void>(load_latest(root(), {}, options, context)); },
                FailsWithErrno(error, HasSubstr("step-10")));
  }
  files->error = EIO;
  auto latest = load_latest(root(), {}, options, context);
  ASSERT_TRUE(latest);
  EXPECT_EQ(step_of(*latest), 9);
  ASSERT_EQ(latest->passed_over.size(), 1u);
  EXPECT_EQ(latest->passed_over[0].code, std::error_code(EIO, std::system_category()));
}

TEST_F(Find, LoadLatestTellsOfADisplacedOne) {
  save_step(9);
  save_step(10);
  const std::string displaced = ".tmp-step-10-00000000-0000-4000-8000-000000000000";
  std::filesystem::rename(path_of(10), root() / displaced);

  EXPECT_THAT([&] { static_cast<void>(load_newest()); },
              Fails(Errc::not_committed, AllOf(HasSubstr(displaced), HasSubstr("recover puts it back"))));
  RecoverOptions all;
  recover(root(), all, *context_);
  auto latest = load_newest();
  EXPECT_EQ(step_of(*latest), 10);
}

TEST_F(Find, RecoverFindsNothingWhereNothingWasSavedYet) {
  EXPECT_TRUE(recover(root() / "later", {}, *context_).entries.empty());
  EXPECT_THAT([&] { recover(root() / "missing" / "later", {}, *context_); }, Fails(Errc::not_found));
}

TEST_F(Find, LoadLatestLoadsIntoObjects) {
  save_step(9);
  save_step(10);
  alter(10);
  LoadLatestOptions options;
  options.fall_back = true;
  options.load.deadline = std::chrono::minutes(10);
  AbstractTree wanted = metadata(path_of(9), *context_);

  auto latest = load_latest(root(), {{"state", wanted}}, options, *context_);

  ASSERT_TRUE(latest);
  EXPECT_EQ(step_of(*latest), 9);
}

}  // namespace
}  // namespace cairn
