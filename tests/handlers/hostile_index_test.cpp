// SPDX-License-Identifier: Apache-2.0
// Loads an index that Cairn did not write, beside a data file of 4096 zeros.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cairn/handlers/into.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "formats/internal/index_builder.hpp"
#include "handlers/store.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

struct Files {
  std::string index;
};

/// Writes an index as it is given.
class RawIndex final : public CheckpointableHandler<Files> {
 public:
  std::string_view id() const noexcept override { return "cairn.tree/1"; }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Files& files) const override {
    return write(std::move(context), files.index);
  }
  Awaitable<Background<Files>> load(LoadContext, std::optional<Files>) const override { co_return nothing(); }
  Awaitable<Files> metadata(LoadContext) const override { co_return Files(); }

 private:
  static Awaitable<Background<>> write(SaveContext context, std::string index) {
    co_return both(context.write_file("index.fb", std::move(index)),
                   context.write_file("data", std::string(4096, '\0')));
  }
  static Background<> both(Background<> first, Background<> second) {
    co_await std::move(first);
    co_await std::move(second);
  }
  static Background<Files> nothing() { co_return Files(); }
};

class HostileIndex : public testing::StoreTest {
 protected:
  Tree load_index(std::string bytes) {
    Files files;
    files.index = std::move(bytes);
    core::start_save(path(), Checkpointables{{"item", files}}, HandlerRegistry().add<RawIndex>().snapshot(),
                     SaveOptions(), context_)
        .wait();
    return load<Tree>();
  }

  std::string built() {
    const formats::IndexBytes index = builder_.finish();
    return {reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size()};
  }

  Tree load_built() { return load_index(built()); }

  void add_array(std::string_view name, const std::vector<std::uint64_t>& dims) {
    builder_.add_array(name, DType::uint8, dims);
  }

  void add_slice(std::uint64_t offset, const std::vector<std::uint64_t>& box,
                 const std::vector<std::uint64_t>& extents) {
    builder_.add_slice(data_, offset, box, extents);
  }

  formats::IndexBuilder builder_;
  std::uint32_t data_ = builder_.add_file("data");
};

TEST_F(HostileIndex, LoadsWhenItIsSound) {
  add_array("a", {4, 2});
  add_slice(0, {0, 0}, {4, 1});
  add_slice(100, {0, 1}, {4, 1});

  EXPECT_EQ(load_built(), Tree({{"a", Array::zeros({4, 2}, DType::uint8)}}));
}

TEST_F(HostileIndex, RefusesBytesThatAreNoIndex) {
  EXPECT_THAT([&] { load_index("not an index"); }, Fails(Errc::malformed_metadata, HasSubstr("index.fb")));
}

TEST_F(HostileIndex, RefusesAnEmptyFile) {
  EXPECT_THAT([&] { load_index(""); }, Fails(Errc::malformed_metadata));
}

TEST_F(HostileIndex, RefusesBytesBeyondTheFileBeforeItAllocates) {
  add_array("huge", {std::uint64_t{1} << 60});
  builder_.add_whole(data_, 0);

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::malformed_metadata, HasSubstr("'huge'")));
}

TEST_F(HostileIndex, RefusesArraysThatShareBytes) {
  add_array("a", {100});
  builder_.add_whole(data_, 0);
  add_array("b", {100});
  builder_.add_whole(data_, 50);

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::malformed_metadata, HasSubstr("'b'")));
}

TEST_F(HostileIndex, RefusesEntriesThatShareAString) {
  builder_.add_string("a", "long");
  builder_.add_string("b", "text");
  std::string text = built();
  const std::string numbers(
      "\x02\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\0",
      20);  // Of the blobs.
  const std::size_t found = text.find(numbers);
  ASSERT_NE(found, std::string::npos);
  ASSERT_EQ(text.find(numbers, found + 1), std::string::npos);
  text[found + 12] = '\0';

  EXPECT_THAT([&] { load_index(text); },
              Fails(Errc::malformed_metadata, HasSubstr("and so is another entry")));
}

TEST_F(HostileIndex, NamesAFileThatIsNotThere) {
  add_array("a", {100});
  builder_.add_whole(builder_.add_file("other"), 0);

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::not_found, HasSubstr("'other'")));
}

TEST_F(HostileIndex, RefusesSlicesWithAGap) {
  add_array("a", {4});
  add_slice(0, {0}, {1});
  add_slice(10, {2}, {2});

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::incomplete_shards, HasSubstr("a")));
}

TEST_F(HostileIndex, RefusesSlicesThatOverlap) {
  add_array("a", {4});
  add_slice(0, {0}, {3});
  add_slice(10, {2}, {2});

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::overlapping_shards, HasSubstr("a")));
}

TEST_F(HostileIndex, RefusesListsThatTogetherHaveMoreElementsThanThereAreEntries) {
  builder_.add_list("a", 3);
  builder_.add_integer("a/0", 1);
  builder_.add_list("b", 3);
  builder_.add_integer("b/0", 1);

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::malformed_metadata,
                                           HasSubstr("'b': more elements of lists than there are entries")));
}

TEST_F(HostileIndex, RefusesListsThatAreTooLongWhenTheyAreWantedAsSaved) {
  builder_.add_list("a", std::uint64_t{1} << 60);
  builder_.add_integer("a/0", 1);
  EXPECT_THAT([&] { load_built(); }, Fails(Errc::malformed_metadata));
  AbstractTree wanted;
  wanted["a"] = as_saved;

  EXPECT_THAT(
      [&] {
        load<Tree>({"item", wanted});
      },
      Fails(Errc::malformed_metadata, HasSubstr("'a': more elements of lists than there are entries")));
}

TEST_F(HostileIndex, RefusesMoreBytesThanThereAreBeforeAnObjectMakesRoom) {
  for (const char* name : {"a", "b"}) {
    add_array(name, {4096});
    builder_.add_whole(data_, 0);
  }
  EXPECT_THAT([&] { load_built(); }, Fails(Errc::malformed_metadata));
  std::map<std::string, std::vector<std::uint8_t>> object;

  EXPECT_THAT(
      [&] {
        load<Tree>({"item", into(object)});
      },
      Fails(Errc::malformed_metadata, HasSubstr("'b': the arrays up to this one have more bytes")));
  EXPECT_TRUE(object.empty());
}

TEST_F(HostileIndex, RefusesAListThatLacksAnElement) {
  builder_.add_list("a", 2);
  builder_.add_integer("a/0/x", 1);
  builder_.add_integer("a/0/y", 2);

  EXPECT_THAT([&] { load_built(); },
              Fails(Errc::malformed_metadata, HasSubstr("1 of 2 elements of the list are missing")));
}

TEST_F(HostileIndex, RefusesASecondRoot) {
  builder_.add_integer("a", 1);
  builder_.add_integer("b", 2);
  std::string text = built();
  const std::string name_ends("\x02\0\0\0\x01\0\0\0\x02\0\0\0", 12);
  const std::size_t found = text.find(name_ends);
  ASSERT_NE(found, std::string::npos);
  ASSERT_EQ(text.find(name_ends, found + 1), std::string::npos);
  text[found + 4] = text[found + 8] = '\0';  // Both names are empty now.

  EXPECT_THAT([&] { load_index(text); },
              Fails(Errc::malformed_metadata, HasSubstr("the tree has a second root")));
}

/// "a/a/…", so many keys.
std::string chain(std::size_t keys) {
  std::string path = "a";
  for (std::size_t i = 1; i < keys; ++i) {
    path += "/a";
  }
  return path;
}

TEST_F(HostileIndex, LoadsTheDeepestTreeThatIsSaved) {
  builder_.add_integer(chain(kMaxTreeDepth), 7);

  EXPECT_EQ(load_built().get<int>(chain(kMaxTreeDepth)), 7);
}

TEST_F(HostileIndex, RefusesATreeThatIsDeeper) {
  builder_.add_integer(chain(kMaxTreeDepth + 1), 7);

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::malformed_metadata, HasSubstr("deeper than 1000 levels")));
}

TEST_F(HostileIndex, RefusesAnArrayWithoutSlices) {
  add_array("a", {4});
  builder_.add_integer("b", 1);

  EXPECT_THAT([&] { load_built(); }, Fails(Errc::incomplete_shards, HasSubstr("a")));
}

}  // namespace
}  // namespace cairn
