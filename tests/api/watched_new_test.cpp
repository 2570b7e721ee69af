// SPDX-License-Identifier: Apache-2.0
// A program with cairn/testing/watched_new.hpp: what values allocate is watched, too.
#include "cairn/testing/watched_new.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "api/fixture.hpp"
#include "api/keeper.hpp"

namespace cairn {
namespace {

/// Its elements lie where std::vector puts them.
struct Blob {
  std::vector<std::byte> bytes;
};

/// A copy of it makes something that stays when the copy is gone.
struct Lazy {
  Lazy() = default;
  Lazy(const Lazy& /*other*/) {
    if (!cache) {
      cache = std::make_unique<std::string>("made while a value was copied");
    }
  }
  Lazy& operator=(const Lazy&) = delete;

  static inline std::unique_ptr<std::string> cache;
};

}  // namespace

template <>
struct IsCopyable<Blob> : std::true_type {};

template <>
struct IsCopyable<Lazy> : std::true_type {};

namespace {

using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Keeper;

using Late = std::function<std::string()>;

class WatchedNew : public testing::ApiTest {
 protected:
  template <class T>
  void use(typename Keeper<T>::Keep keep) {
    ContextOptions options = small();
    options.check_handlers = true;
    options.registry.add(std::make_shared<const Keeper<T>>(std::move(keep)));
    context_.emplace(std::move(options));
  }

  template <class T>
  SaveResult save_item(const T& value) {
    return save_checkpointables(target(), {{"item", value}}, *context_);
  }
};

TEST_F(WatchedNew, FindsTheElementsOfAMember) {
  use<Blob>([](const Blob& blob) -> Late {
    return [kept = std::span(blob.bytes)] { return std::to_string(std::to_integer<int>(kept[3])); };
  });
  const Blob blob{std::vector<std::byte>(10)};

  EXPECT_THAT([&] { save_item(blob); },
              Fails(Errc::handler_failed,
                    HasSubstr("'item' (handler test.keeper/1): the handler has used the value")));
}

TEST_F(WatchedNew, FindsTheTextOfALeaf) {
  use<Tree>([](const Tree& tree) -> Late {
    return [kept = tree.at("text").as<std::string_view>()] { return std::string(kept); };
  });
  const Tree tree = {{"text", "a string that is longer than a short one"}};

  EXPECT_THAT([&] { save_item(tree); }, Fails(Errc::handler_failed));
}

TEST_F(WatchedNew, FindsAPartOfADocument) {
  use<nlohmann::json>([](const nlohmann::json& document) -> Late {
    return [&part = document.at("a")] { return part.dump(); };
  });
  const nlohmann::json document = {{"a", {1, 2}}};

  EXPECT_THAT([&] { save_item(document); }, Fails(Errc::handler_failed));
}

TEST_F(WatchedNew, LeavesNothingUnwatchedInValuesOfTheLibrary) {
  use<std::map<std::string, std::vector<int>>>(
      [](const auto& map) -> Late { return [count = map.size()] { return std::to_string(count); }; });
  const std::map<std::string, std::vector<int>> map = {{"some", {1, 2}}};

  const SaveResult result = save_item(map);

  EXPECT_THAT(result.problems, IsEmpty());
}

TEST_F(WatchedNew, BuiltInHandlersPass) {
  use<int>([](const int&) -> Late { return [] { return ""; }; });
  const std::vector<float> w(100'000, 0.5F);
  const Tree tree = {{"w", w}, {"text", "a string that is longer than a short one"}, {"n", {1, 2, 3}}};
  const nlohmann::json document = {{"a", {1, "two"}}};

  const SaveResult result =
      save_checkpointables(target(), {{"tree", tree}, {"document", document}, {"w", w}}, *context_);

  EXPECT_THAT(result.problems, IsEmpty());
  Loaded loaded = load_items();
  EXPECT_EQ(loaded.take<Tree>("tree"), tree);
  EXPECT_EQ(loaded.take<nlohmann::json>("document"), document);
}

TEST_F(WatchedNew, WhatACopyLeavesBehindStays) {
  use<Lazy>([](const Lazy&) -> Late { return [] { return "done"; }; });

  save_item(Lazy());
  context_.reset();

  EXPECT_EQ(*Lazy::cache, "made while a value was copied");
  Lazy::cache.reset();
}

TEST_F(WatchedNew, FailuresOfCopiesOutliveThem) {
  use<Tree>([](const Tree&) -> Late { return [] { return ""; }; });
  Tree tree;
  for (std::size_t i = 0; i <= kMaxTreeDepth; ++i) {
    Tree outer;
    outer["x"] = std::move(tree);
    tree = std::move(outer);
  }

  std::string text;
  try {
    save_item(tree);
  } catch (const Error& error) {
    context_.reset();
    text = error.what();
  }

  EXPECT_THAT(text, HasSubstr("deeper than"));
}

TEST_F(WatchedNew, OtherMemoryComesFromTheSystem) {
  struct alignas(256) Wide {
    char bytes[256];
  };
  const auto small = std::make_unique<int>(3);
  const auto many = std::make_unique<Wide[]>(3);

  EXPECT_EQ(*small, 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(many.get()) % 256, 0U);
}

}  // namespace
}  // namespace cairn
