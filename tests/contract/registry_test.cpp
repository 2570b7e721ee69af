// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/registry.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "contract/internal/resolve.hpp"
#include "core/blob_handler.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using ::testing::AllOf;
using testing::Blob;
using testing::BlobHandler;
using ::testing::ContainsRegex;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;

/// A blob handler under another id that takes only blobs of up to `limit` bytes.
class LimitedHandler : public BlobHandler {
 public:
  explicit LimitedHandler(std::string id, std::size_t limit = 1000) : id_(std::move(id)), limit_(limit) {}

  std::string_view id() const noexcept override { return id_; }
  bool is_handleable(const Blob& blob) const override { return blob.bytes.size() <= limit_; }
  bool is_abstract_handleable(const AbstractBlob& blob) const override { return blob.size <= limit_; }

 private:
  std::string id_;
  std::size_t limit_;
};

RegistrationOptions bound_to(std::string name) {
  RegistrationOptions options;
  options.checkpointable_name = std::move(name);
  return options;
}

RegistrationOptions with_alias(std::string id) {
  RegistrationOptions options;
  options.aliases.push_back(std::move(id));
  return options;
}

void add(HandlerRegistry& registry, std::string id, std::size_t limit = 1000,
         RegistrationOptions options = {}) {
  registry.add(std::make_shared<const LimitedHandler>(std::move(id), limit), std::move(options));
}

std::string saver(const RegistrySnapshot& registry, const std::string& name, const Blob& blob) {
  return std::string(contract::resolve_for_save(registry, name, typeid(Blob), &blob, "Blob").handler->id());
}

std::string loader(const RegistrySnapshot& registry, const std::string& id, const AnyValue& wanted = {}) {
  return std::string(contract::resolve_for_load(registry, "item", id, wanted).handler->id());
}

TEST(ResolveForSave, TakesTheLastRegisteredThatCanHandleTheValue) {
  HandlerRegistry registry;
  add(registry, "first/1");
  add(registry, "second/1");
  add(registry, "tiny/1", 0);

  EXPECT_EQ(saver(registry.snapshot(), "item", testing::make_blob(10)), "second/1");
}

TEST(ResolveForSave, PrefersAHandlerBoundToTheNameWhenItCan) {
  HandlerRegistry registry;
  add(registry, "bound/1", 100, bound_to("item"));
  add(registry, "any/1");

  EXPECT_EQ(saver(registry.snapshot(), "item", testing::make_blob(10)), "bound/1");
  EXPECT_EQ(saver(registry.snapshot(), "item", testing::make_blob(500)), "any/1");
  EXPECT_EQ(saver(registry.snapshot(), "other", testing::make_blob(10)), "any/1");
}

TEST(ResolveForSave, ListsEveryHandlerAndWhyItWasPassedOver) {
  HandlerRegistry registry;
  add(registry, "tiny/1", 0);
  add(registry, "bound/1", 1000, bound_to("other"));
  const int number = 7;

  EXPECT_THAT([&] { saver(registry.snapshot(), "item", testing::make_blob(10)); },
              Fails(Errc::no_handler, AllOf(HasSubstr("'item'"), HasSubstr("tiny/1"),
                                            HasSubstr("refuses this"), HasSubstr("serves another name"))));
  EXPECT_THAT([&] { contract::resolve_for_save(registry.snapshot(), "item", typeid(int), &number, "int"); },
              Fails(Errc::no_handler, AllOf(HasSubstr("is a int"), HasSubstr("saves cairn::testing::Blob"))));
}

TEST(ResolveForSave, SaysWhatToDoBeforeItListsHandlers) {
  HandlerRegistry registry;
  add(registry, "tiny/1", 0);
  const std::vector<std::string> value;

  EXPECT_THAT(
      [&] {
        contract::resolve_for_save(registry.snapshot(), "item", typeid(value), &value,
                                   type_name(typeid(value)));
      },
      Fails(Errc::no_handler,
            ContainsRegex("'item' is a std::vector<std::string>. Register a handler whose Value is "
                          "std::vector<std::string>.*; registered are tiny/1")));
}

TEST(TypeName, IsAsPeopleWriteIt) {
  EXPECT_EQ(type_name(typeid(std::map<std::string, std::vector<float>>)),
            "std::map<std::string, std::vector<float>>");
  EXPECT_EQ(type_name(typeid(std::map<int, std::string_view, std::less<>>)),
            "std::map<int, std::string_view, std::less<void>>");
  EXPECT_EQ(type_name(typeid(std::unordered_map<std::string, std::unique_ptr<int>>)),
            "std::unordered_map<std::string, std::unique_ptr<int>>");
  struct Local {};
  EXPECT_THAT(type_name(typeid(Local)), AllOf(HasSubstr("Local"), Not(HasSubstr("anonymous"))));
}

TEST(ResolveForLoad, TakesTheRecordedHandlerWhateverWasRegisteredLater) {
  HandlerRegistry registry;
  add(registry, "old/1");
  add(registry, "new/1");

  EXPECT_EQ(loader(registry.snapshot(), "old/1"), "old/1");
}

TEST(ResolveForLoad, FindsAHandlerByItsAlias) {
  HandlerRegistry registry;
  add(registry, "new/2", 1000, with_alias("old/1"));
  add(registry, "other/1");

  EXPECT_EQ(loader(registry.snapshot(), "old/1"), "new/2");
}

TEST(ResolveForLoad, PassesTheRecordedHandlerOverWhenItCannotServeWhatIsWanted) {
  HandlerRegistry registry;
  add(registry, "large/1");
  add(registry, "tiny/1", 0);

  EXPECT_EQ(loader(registry.snapshot(), "tiny/1", AnyValue::of(AbstractBlob(10))), "large/1");
}

TEST(ResolveForLoad, RefusesAnIdThatNobodyKnowsUnlessTheCallerSaysWhatHeWants) {
  HandlerRegistry registry;
  add(registry, "known/1");

  EXPECT_THAT(
      [&] { loader(registry.snapshot(), "lost/1"); },
      Fails(Errc::unknown_handler_id, AllOf(HasSubstr("'lost/1'"), HasSubstr("known/1"),
                                            HasSubstr("another one with 'lost/1' among its aliases"))));
  EXPECT_EQ(loader(registry.snapshot(), "lost/1", AnyValue::of(AbstractBlob(1))), "known/1");
}

TEST(ResolveForLoad, SaysThatTheRecordedHandlerDoesNotLoadTheWantedType) {
  HandlerRegistry registry;
  add(registry, "known/1");

  EXPECT_THAT([&] { loader(registry.snapshot(), "known/1", AnyValue::of(std::string("x"))); },
              Fails(Errc::no_handler, AllOf(HasSubstr("'known/1'"), HasSubstr("std::"),
                                            HasSubstr("Ask for what its handler loads"))));
}

TEST(HandlerRegistry, RefusesTwoHandlersOfOneIdOrOneName) {
  HandlerRegistry registry;
  add(registry, "one/1");
  add(registry, "two/1", 1000, bound_to("item"));

  EXPECT_THAT(
      [&] { add(registry, "one/1"); },
      Fails(Errc::ambiguous_handler, HasSubstr("one/1 is already registered, by another handler: one/1 (")));
  EXPECT_THAT([&] { add(registry, "three/1", 1000, bound_to("item")); },
              Fails(Errc::ambiguous_handler, HasSubstr("three/1 cannot be bound to 'item': two/1 (")));
}

TEST(HandlerRegistry, TakesTheSameHandlerTwice) {
  HandlerRegistry registry;
  const auto limited = std::make_shared<const LimitedHandler>("one/1");
  registry.add<BlobHandler>(with_alias("old/1")).add<BlobHandler>(with_alias("old/1"));
  registry.add(limited, bound_to("item")).add(limited, bound_to("item"));

  EXPECT_EQ(registry.snapshot().size(), 2U);
  EXPECT_THAT([&] { registry.add<BlobHandler>(with_alias("older/1")); },
              Fails(Errc::ambiguous_handler, HasSubstr("is already registered, with other options")));
  EXPECT_THAT([&] { registry.add(std::make_shared<const BlobHandler>(), with_alias("old/1")); },
              Fails(Errc::ambiguous_handler));
}

TEST(HandlerRegistry, RemovesHandlersByTheirId) {
  HandlerRegistry registry;
  add(registry, "one/1");
  add(registry, "one/1", 1000, bound_to("item"));
  add(registry, "two/1", 1000, with_alias("one/0"));
  const RegistrySnapshot before = registry.snapshot();

  EXPECT_TRUE(registry.contains("one/1"));
  EXPECT_FALSE(registry.contains("one/0"));
  EXPECT_TRUE(registry.remove("one/1"));
  EXPECT_FALSE(registry.contains("one/1"));
  EXPECT_TRUE(registry.contains("two/1"));
  EXPECT_FALSE(registry.remove("one/1"));
  EXPECT_EQ(before.size(), 3U);
  add(registry, "one/1");
  EXPECT_EQ(registry.snapshot().size(), 2U);
}

TEST(HandlerRegistry, RefusesIdsThatAreNotDottedNamesWithAVersion) {
  for (const char* id : {"", "noversion", "/1", "name/", "Upper/1", "name/x", "a b/1"}) {
    HandlerRegistry registry;

    EXPECT_THAT([&] { add(registry, id); }, Fails(Errc::invalid_argument)) << id;
  }
}

/// A blob handler with two forms of its files.
class TwoForms final : public LimitedHandler {
 public:
  TwoForms(std::string id, std::string_view other) : LimitedHandler(std::move(id)), others_{other} {}

  std::span<const std::string_view> other_ids() const noexcept override { return others_; }

 private:
  std::array<std::string_view, 1> others_;
};

TEST(ResolveForLoad, FindsAHandlerByAnotherOfItsIds) {
  HandlerRegistry registry;
  registry.add(std::make_shared<const TwoForms>("forms/1", "forms/2"), with_alias("old/1"));

  EXPECT_EQ(loader(registry.snapshot(), "forms/1"), "forms/1");
  EXPECT_EQ(loader(registry.snapshot(), "forms/2"), "forms/1");
  EXPECT_EQ(loader(registry.snapshot(), "old/1"), "forms/1");
}

TEST(HandlerRegistry, RefusesAnIdThatIsAnotherOneOfAHandler) {
  HandlerRegistry registry;
  registry.add(std::make_shared<const TwoForms>("forms/1", "forms/2"));

  EXPECT_THAT([&] { add(registry, "forms/2"); },
              Fails(Errc::ambiguous_handler, HasSubstr("forms/2 is already registered")));
  EXPECT_THAT([&] { registry.add(std::make_shared<const TwoForms>("more/1", "forms/1")); },
              Fails(Errc::ambiguous_handler, HasSubstr("forms/1 is already registered")));
  EXPECT_THAT([&] { registry.add(std::make_shared<const TwoForms>("more/1", "forms/2")); },
              Fails(Errc::ambiguous_handler, HasSubstr("forms/2 is already registered")));
  EXPECT_THAT([&] { registry.add(std::make_shared<const TwoForms>("more/1", "Forms")); },
              Fails(Errc::invalid_argument, HasSubstr("'Forms'")));
}

TEST(HandlerRegistry, GivesSnapshotsThatLaterRegistrationsDoNotChange) {
  HandlerRegistry registry;
  add(registry, "one/1");
  const RegistrySnapshot before = registry.snapshot();
  add(registry, "two/1");

  EXPECT_EQ(before.size(), 1U);
  EXPECT_EQ(layer({before, registry.snapshot()}).size(), 3U);
}

}  // namespace
}  // namespace cairn
