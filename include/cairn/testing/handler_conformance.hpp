// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests that every handler should pass, yours too. They need GoogleTest.

#include <system_error>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/async/event.hpp"
#include "cairn/base/error.hpp"
#include "cairn/core/checkpointable.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/names.hpp"
#include "cairn/core/registry.hpp"
#include "cairn/core/save.hpp"

namespace cairn::testing {

/// A handler under another id: what a later version of it writes.
template <class H>
class LaterVersion final : public CheckpointableHandler<typename H::Value, typename H::Abstract> {
 public:
  using Value = typename H::Value;
  using Abstract = typename H::Abstract;

  [[nodiscard]] std::string_view id() const noexcept override { return id_; }
  // outlives: passed on to a handler that is given the same promise.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Value& value) const override {
    return handler_.save(std::move(context), value);
  }
  [[nodiscard]] Awaitable<Background<Value>> load(LoadContext context,
                                                  std::optional<Abstract> wanted) const override {
    return handler_.load(std::move(context), std::move(wanted));
  }
  [[nodiscard]] Awaitable<Abstract> metadata(LoadContext context) const override {
    return handler_.metadata(std::move(context));
  }
  [[nodiscard]] bool is_handleable(const Value& value) const override {
    return handler_.is_handleable(value);
  }

 private:
  H handler_;
  std::string id_ = std::string(handler_.id()) + "999";
};

/// A handler whose background phases wait until somebody opens the gate: whatever they read of the caller's value, they
/// read after he has changed it.
template <class H>
class HeldBack final : public CheckpointableHandler<typename H::Value, typename H::Abstract> {
 public:
  using Value = typename H::Value;
  using Abstract = typename H::Abstract;

  explicit HeldBack(async::Event gate) : gate_(std::move(gate)) {}

  [[nodiscard]] std::string_view id() const noexcept override { return handler_->id(); }
  // outlives: passed on to a handler that is given the same promise.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Value& value) const override {
    return hold(handler_, std::move(context), &value, gate_);
  }
  [[nodiscard]] Awaitable<Background<Value>> load(LoadContext context,
                                                  std::optional<Abstract> wanted) const override {
    return handler_->load(std::move(context), std::move(wanted));
  }
  [[nodiscard]] Awaitable<Abstract> metadata(LoadContext context) const override {
    return handler_->metadata(std::move(context));
  }
  [[nodiscard]] bool is_handleable(const Value& value) const override {
    return handler_->is_handleable(value);
  }

 private:
  static Awaitable<Background<>> hold(std::shared_ptr<const H> handler, SaveContext context,
                                      const Value* value, async::Event gate) {
    Background<> background = co_await handler->save(std::move(context), *value);
    if (!background.valid()) {
      co_return background;
    }
    co_return finish(std::move(gate), std::move(background));
  }

  static Background<> finish(async::Event gate, Background<> background) {
    co_await gate.wait();
    co_await std::move(background);
  }

  std::shared_ptr<const H> handler_ = std::make_shared<const H>();
  async::Event gate_;
};

/// What a handler must do, whatever it saves. `Traits` says what to try it with:
///
///   using Handler = …;                             default-constructible
///   using Subject = …;                             what a caller saves, and gets from `Loaded::take` or `into`
///   static Subject make();                         a value, also the target of a load into an object
///   static void change(Subject&);                  changes it in place, so that it is no longer equal
///   static bool equal(const Subject&, const Subject&);
///   static Request wrong(std::string name);        optional: asks for what make() is not
///
/// Example: INSTANTIATE_TYPED_TEST_SUITE_P(Point, HandlerConformance, PointTraits);
template <class Traits>
class HandlerConformance : public ::testing::Test {
 protected:
  using Handler = typename Traits::Handler;
  using Subject = typename Traits::Subject;

  HandlerConformance() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cairn-conformance-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) {
      throw std::system_error(errno, std::system_category(), pattern);
    }
    folder_ = pattern;
  }

  ~HandlerConformance() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  template <class H = Handler>
  static RegistrySnapshot registry() {
    return HandlerRegistry().add<H>().snapshot();
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "checkpoint"; }

  AsyncResponse start(const Subject& subject, const RegistrySnapshot& handlers = registry()) {
    return core::start_save(path(), Checkpointables{{"item", subject}}, handlers, SaveOptions(), context_);
  }

  Loaded load(const Request& request, const RegistrySnapshot& handlers = registry()) {
    return core::start_load(path(), {request}, handlers, LoadOptions(), context_).wait();
  }

  /// What was saved, as it was saved.
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

  /// Whether what is saved is what the value was when the blocking phase ended.
  ::testing::AssertionResult keeps_the_value_of_the_blocking_phase() {
    const async::Event gate;
    const RegistrySnapshot handlers =
        HandlerRegistry().add(std::make_shared<const HeldBack<Handler>>(gate)).snapshot();
    auto subject = Traits::make();
    auto saving = start(subject, handlers);
    Traits::change(subject);
    gate.set();
    saving.wait();
    if (Traits::equal(load_back(), Traits::make())) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << "the background phase has read the caller's value, which he had changed by then";
  }

  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    const auto folder = path() / core::directory_of("item");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        found.push_back(entry.path());
      }
    }
    return found;
  }

  Context context_;

 private:
  std::filesystem::path folder_;
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

TYPED_TEST_P(HandlerConformance, LoadsWhatItsMetadataDescribes) {
  using Abstract = typename TypeParam::Handler::Abstract;
  const auto subject = TypeParam::make();
  this->start(subject).wait();

  const auto metadata =
      core::read_metadata(this->path(), {"item"}, this->registry(), LoadOptions(), this->context_);
  const auto& abstract = metadata.at("item").template as<Abstract>();

  if (!typename TypeParam::Handler().is_abstract_handleable(abstract)) {
    GTEST_SKIP() << "the handler needs more than its metadata";
  }
  if constexpr (!StatefulLoadable<typename TypeParam::Subject>) {
    auto loaded = this->load({"item", abstract});
    EXPECT_TRUE(TypeParam::equal(loaded.template take<typename TypeParam::Subject>("item"), subject));
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
  const auto subject = TypeParam::make();
  this->start(subject).wait();

  for (const auto& file : this->files()) {
    std::filesystem::remove(file);
  }

  EXPECT_THROW(this->load_back(), std::system_error);
}

TYPED_TEST_P(HandlerConformance, ReturnsNoOtherValueWhenOneFileIsMissing) {
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
  const auto subject = TypeParam::make();
  this->start(subject, this->template registry<Later>()).wait();

  try {
    static_cast<void>(this->load("item"));
    ADD_FAILURE() << "a version was read that nobody knows";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::unknown_handler_id) << error.what();
  }
}

REGISTER_TYPED_TEST_SUITE_P(HandlerConformance, LoadsWhatWasSaved, KeepsTheValueOfTheBlockingPhase,
                            LoadsWhatItsMetadataDescribes, LeavesAllOrNothingWhenCancelled,
                            ReportsMissingFiles, ReturnsNoOtherValueWhenOneFileIsMissing,
                            RefusesAnAbstractValueOfAnotherKind, IsNotTriedOnWhatALaterVersionWrote);

}  // namespace cairn::testing
