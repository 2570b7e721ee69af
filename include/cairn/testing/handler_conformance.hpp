// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests that every handler should pass, yours too. They need GoogleTest.

#include <system_error>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/api/load.hpp"
#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/testing/conformance_support.hpp"
#include "cairn/testing/local_ranks.hpp"

namespace cairn::testing {

/// Tests what every handler must do, whatever it saves. `Traits` says what to try it with:
///
///   using Handler = …;                             default-constructible
///   using Subject = …;                             what a caller saves, and gets from `Loaded::take` or `into`
///   static Subject make();                         a value, also the target of a load into an object
///   static void change(Subject&);                  changes it in place, so that it is no longer equal
///   static bool equal(const Subject&, const Subject&);
///   static Request wrong(std::string name);        optional: asks for what make() is not
///   static Subject make(std::size_t rank, std::size_t ranks);  optional: what a rank of `ranks` that save make() holds
///                                                  together; wanted of handlers that save on all ranks
///   static ContextOptions context_options();       optional: of every context
///   static SaveOptions save_options();             optional: of every save
///
/// Example: INSTANTIATE_TYPED_TEST_SUITE_P(Point, HandlerConformance, PointTraits);
template <class Traits>
class HandlerConformance : public ::testing::Test {
 protected:
  using Handler = typename Traits::Handler;
  using Subject = typename Traits::Subject;

  static ContextOptions context_options() {
    if constexpr (requires { Traits::context_options(); }) {
      return Traits::context_options();
    }
    return {};
  }

  /// A context in which `handler` serves the values.
  template <class H = Handler>
  static Context context_of(std::shared_ptr<const H> handler = std::make_shared<const H>(),
                            ContextOptions options = context_options()) {
    options.registry.add(std::move(handler));
    return Context(std::move(options));
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "checkpoint"; }

  AsyncResponse start(const Subject& subject) { return start(subject, context_); }
  AsyncResponse start(const Subject& subject, const Context& context) {
    SaveOptions options;
    if constexpr (requires { Traits::save_options(); }) {
      options = Traits::save_options();
    }
    return save_checkpointables_async(path(), Checkpointables{{"item", subject}}, options, context);
  }

  Loaded load(const Request& request) {
    return load_checkpointables(path(), {request}, LoadOptions(), context_);
  }

  ItemMetadata metadata() { return checkpointables_metadata(path(), context_).at("item"); }

  /// Returns what was saved, as it was saved.
  Subject load_back() {
    if constexpr (StatefulLoadable<Subject>) {
      Subject target = Traits::make();
      Traits::change(target);
      load({"item", into(target)});
      return target;
    } else {
      return load("item").template take<Subject>("item");
    }
  }

  /// Returns whether what is saved is what the value was when the blocking phase ended.
  ::testing::AssertionResult keeps_the_value_of_the_blocking_phase() {
    std::promise<void> gate;
    const Context context = context_of(std::make_shared<const HeldBack<Handler>>(gate.get_future().share()));
    auto subject = Traits::make();
    auto saving = start(subject, context);
    Traits::change(subject);
    gate.set_value();
    saving.wait();
    if (Traits::equal(load_back(), Traits::make())) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << "the background phase has read the caller's value, which had been changed by then";
  }

  /// Returns whether nothing of the value is used after the blocking phase, not even what `change` leaves as
  /// it is.
  ::testing::AssertionResult leaves_the_value_alone() {
    ContextOptions options = context_options();
    options.check_handlers = true;
    const Context checking = context_of(std::make_shared<const Handler>(), options);
    const auto subject = Traits::make();
    try {
      start(subject, checking).wait();
    } catch (const std::system_error& error) {
      return ::testing::AssertionFailure() << error.what();
    }
    return ::testing::AssertionSuccess();
  }

  /// Saves what a rank holds, on each; returns what went wrong, or nothing.
  std::string save_on_ranks(std::size_t ranks) {
    return failures_on_ranks(ranks, [this](std::shared_ptr<coord::Coordinator> coordinator) {
      ContextOptions options = context_options();
      options.worker_threads = 1;
      options.coordinator = coordinator;
      const Context context = context_of(std::make_shared<const Handler>(), std::move(options));
      if constexpr (requires { Traits::make(coordinator->rank(), coordinator->size()); }) {
        start(Traits::make(coordinator->rank(), coordinator->size()), context).wait();
      } else {
        start(Traits::make(), context).wait();
      }
    });
  }

  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path() / "item")) {
      if (entry.is_regular_file()) {
        found.push_back(entry.path());
      }
    }
    return found;
  }

  const Context context_ = context_of();

 private:
  const TemporaryFolder folder_;
};

TYPED_TEST_SUITE_P(HandlerConformance);

TYPED_TEST_P(HandlerConformance, LoadsWhatWasSaved) {
  const auto subject = TypeParam::make();
  this->start(subject).wait();
  EXPECT_TRUE(TypeParam::equal(this->load_back(), subject));
}

TYPED_TEST_P(HandlerConformance, KeepsTheValueOfTheBlockingPhase) {
  EXPECT_TRUE(this->keeps_the_value_of_the_blocking_phase());
}

TYPED_TEST_P(HandlerConformance, UsesTheValueInItsBlockingPhaseOnly) {
  if (!can_be_copied<typename TypeParam::Handler>(TypeParam::make())) {
    GTEST_SKIP() << "the type of the value does not say that it can be copied; see cairn::IsCopyable";
  }

  EXPECT_TRUE(this->leaves_the_value_alone());
}

TYPED_TEST_P(HandlerConformance, LoadsWhatItsMetadataDescribes) {
  using Abstract = typename TypeParam::Handler::Abstract;
  const auto subject = TypeParam::make();
  this->start(subject).wait();

  const ItemMetadata metadata = this->metadata();
  const auto& abstract = metadata.template as<Abstract>();

  if (!typename TypeParam::Handler().is_abstract_handleable(abstract)) {
    GTEST_SKIP() << "the handler needs more than its metadata";
  }
  if constexpr (!StatefulLoadable<typename TypeParam::Subject>) {
    auto loaded = this->load({"item", abstract});
    EXPECT_TRUE(TypeParam::equal(loaded.template take<typename TypeParam::Subject>("item"), subject));
  }
}

TYPED_TEST_P(HandlerConformance, DescribesArraysAndTextsThatAreThere) {
  this->start(TypeParam::make()).wait();
  const ItemMetadata item = this->metadata();

  const Description description = item.description();

  std::vector<std::string> names;
  for (const ArrayEntry& array : description.arrays) {
    names.emplace_back(array.name);
  }
  EXPECT_EQ(names.size(), description.arrays.size());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& text : description.texts) {
    EXPECT_TRUE(std::any_of(item.files.begin(), item.files.end(), [&text](const FileMetadata& file) {
      return file.name == text;
    })) << text;
  }
}

TYPED_TEST_P(HandlerConformance, LeavesAllOrNothingWhenCancelled) {
  const auto subject = TypeParam::make();
  const auto saving = this->start(subject);
  saving.cancel();
  try {
    saving.wait();
    EXPECT_TRUE(TypeParam::equal(this->load_back(), subject));
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::cancelled) << error.what();
    EXPECT_FALSE(std::filesystem::exists(this->path()));
  }
}

TYPED_TEST_P(HandlerConformance, ReportsMissingFiles) {
  if (this->context_options().checkpoint_store) {
    GTEST_SKIP() << "the files lie in no directory";
  }
  this->start(TypeParam::make()).wait();

  for (const auto& file : this->files()) {
    std::filesystem::remove(file);
  }

  EXPECT_THROW(this->load_back(), std::system_error);
}

TYPED_TEST_P(HandlerConformance, ReturnsNoOtherValueWhenOneFileIsMissing) {
  if (this->context_options().checkpoint_store) {
    GTEST_SKIP() << "the files lie in no directory";
  }
  const auto subject = TypeParam::make();
  this->start(subject).wait();

  for (const auto& file : this->files()) {
    const auto aside = this->path().parent_path() / "aside";
    std::filesystem::rename(file, aside);
    try {
      EXPECT_TRUE(TypeParam::equal(this->load_back(), subject)) << file;
    } catch (const std::system_error&) {
      SUCCEED();
    }
    std::filesystem::rename(aside, file);
  }
}

TYPED_TEST_P(HandlerConformance, IsSavedBySeveralRanksTogether) {
  const typename TypeParam::Handler handler;
  constexpr bool kHasParts = requires {
    TypeParam::make(std::size_t{0}, std::size_t{1});
  };
  if (handler.participation() == Participation::all && !kHasParts) {
    GTEST_SKIP() << "the traits do not say what a rank holds: make(rank, ranks)";
  }

  ASSERT_EQ(this->save_on_ranks(3), "");

  EXPECT_TRUE(TypeParam::equal(this->load_back(), TypeParam::make()));
}

TYPED_TEST_P(HandlerConformance, RefusesAnAbstractValueOfAnotherKind) {
  if constexpr (requires { TypeParam::wrong("item"); }) {
    this->start(TypeParam::make()).wait();

    EXPECT_THROW(this->load(TypeParam::wrong("item")), std::system_error);
  } else {
    GTEST_SKIP() << "the handler has no wrong abstract values";
  }
}

TYPED_TEST_P(HandlerConformance, IsNotTriedOnWhatALaterVersionWrote) {
  using Later = LaterVersion<typename TypeParam::Handler>;
  this->start(TypeParam::make(), this->template context_of<Later>()).wait();

  try {
    static_cast<void>(this->load("item"));
    ADD_FAILURE() << "a version was read that nobody knows";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::unknown_handler_id) << error.what();
  }
}

REGISTER_TYPED_TEST_SUITE_P(HandlerConformance, LoadsWhatWasSaved, KeepsTheValueOfTheBlockingPhase,
                            UsesTheValueInItsBlockingPhaseOnly, LoadsWhatItsMetadataDescribes,
                            DescribesArraysAndTextsThatAreThere, LeavesAllOrNothingWhenCancelled,
                            ReportsMissingFiles, IsSavedBySeveralRanksTogether,
                            ReturnsNoOtherValueWhenOneFileIsMissing, RefusesAnAbstractValueOfAnotherKind,
                            IsNotTriedOnWhatALaterVersionWrote);

}  // namespace cairn::testing
