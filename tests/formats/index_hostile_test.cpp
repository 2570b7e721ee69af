// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>

#include "cairn/array/shape.hpp"

#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

/// The columns of an index as the file holds them, to be damaged one at a time.
struct Columns {
  std::uint32_t version = 1;
  std::string names = "ab";
  std::vector<std::uint32_t> name_ends = {1, 2};
  std::vector<std::uint8_t> kinds = {1, 6};  // An array and a string.
  std::vector<std::uint64_t> values = {0, 0};
  std::vector<std::uint8_t> dtypes = {static_cast<std::uint8_t>(DType::float32)};
  std::vector<std::uint64_t> dims = {2, 3};
  std::vector<std::uint32_t> dims_ends = {2};
  std::vector<std::uint32_t> slice_ends = {1};
  std::vector<std::uint32_t> slice_files = {0};
  std::vector<std::uint64_t> slice_offsets = {4096};
  std::vector<std::uint64_t> boxes = {0, 0, 2, 3};
  std::vector<std::uint32_t> box_ends = {4};
  std::string file_names = "f";
  std::vector<std::uint32_t> file_name_ends = {1};
  std::string blobs = "text";
  std::vector<std::uint32_t> blob_ends = {4};
  std::vector<std::uint32_t> layout_numbers = {1};
  std::string layouts = "{}";
  std::vector<std::uint32_t> layout_ends = {2};
  std::string policy = "One file.";
  std::vector<std::uint32_t> policy_ends = {9};
  std::vector<std::uint32_t> file_policies = {1};
  std::string aliases;
  std::vector<std::uint32_t> alias_ends;
};

/// With these names of the array, each given with its number.
Columns with_aliases(const std::vector<std::pair<std::string, std::uint32_t>>& aliases) {
  Columns columns;
  for (const auto& [name, number] : aliases) {
    columns.aliases += name;
    columns.alias_ends.push_back(static_cast<std::uint32_t>(columns.aliases.size()));
    columns.alias_ends.push_back(number);
  }
  return columns;
}

/// Writes the table by hand: field i of the schema has the slot 4 + 2 * i.
std::vector<std::byte> write(const Columns& columns, const char* identifier = "CRNI",
                             int omitted_field = -1) {
  flatbuffers::FlatBufferBuilder builder;
  const auto chars = [&builder](const std::string& text) {
    return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()).Union();
  };
  const std::vector<flatbuffers::Offset<void>> fields = {chars(columns.names),
                                                         builder.CreateVector(columns.name_ends).Union(),
                                                         builder.CreateVector(columns.kinds).Union(),
                                                         builder.CreateVector(columns.values).Union(),
                                                         builder.CreateVector(columns.dtypes).Union(),
                                                         builder.CreateVector(columns.dims).Union(),
                                                         builder.CreateVector(columns.dims_ends).Union(),
                                                         builder.CreateVector(columns.slice_ends).Union(),
                                                         builder.CreateVector(columns.slice_files).Union(),
                                                         builder.CreateVector(columns.slice_offsets).Union(),
                                                         builder.CreateVector(columns.boxes).Union(),
                                                         builder.CreateVector(columns.box_ends).Union(),
                                                         chars(columns.file_names),
                                                         builder.CreateVector(columns.file_name_ends).Union(),
                                                         chars(columns.blobs),
                                                         builder.CreateVector(columns.blob_ends).Union(),
                                                         builder.CreateVector(columns.layout_numbers).Union(),
                                                         chars(columns.layouts),
                                                         builder.CreateVector(columns.layout_ends).Union(),
                                                         chars(columns.policy),
                                                         builder.CreateVector(columns.policy_ends).Union(),
                                                         builder.CreateVector(columns.file_policies).Union(),
                                                         chars(columns.aliases),
                                                         builder.CreateVector(columns.alias_ends).Union()};
  const auto start = builder.StartTable();
  builder.AddElement<std::uint32_t>(4, columns.version, 0);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (static_cast<int>(i) != omitted_field) {
      builder.AddOffset(static_cast<flatbuffers::voffset_t>(6 + 2 * i), fields[i]);
    }
  }
  builder.Finish(flatbuffers::Offset<void>(builder.EndTable(start)), identifier);
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

void open_and_read(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  const Index index = Index::open(owner, *owner, "index.fb");
  index.validate();
  for (std::size_t i = 0; i < index.size(); ++i) {
    EXPECT_EQ(index.find(index.entry(i).name), i);
  }
}

TEST(IndexUndamaged, IsTaken) {
  EXPECT_NO_THROW(open_and_read(write(Columns())));
  EXPECT_NO_THROW(open_and_read(write(with_aliases({{"aa", 0}, {"c/d", 0}}))));
}

TEST(IndexUndamaged, MayHaveANullThatAnAliasHides) {
  Columns columns = with_aliases({{"b", 0}});
  columns.kinds[1] = 8;
  EXPECT_NO_THROW(open_and_read(write(columns)));
}

struct Damage {
  const char* name;
  std::function<void(Columns&)> damage;
  const char* message;
};

class IndexHostile : public ::testing::TestWithParam<Damage> {};

TEST_P(IndexHostile, IsRefusedWithTheReason) {
  Columns columns;
  GetParam().damage(columns);

  EXPECT_THAT([&] { open_and_read(write(columns)); },
              Fails(Errc::malformed_metadata, HasSubstr(GetParam().message)));
}

/// What a load reads of an index that nobody has validated.
void read_arrays(const Columns& columns) {
  const auto owner = std::make_shared<std::vector<std::byte>>(write(columns));
  const Index index = Index::open(owner, *owner, "index.fb");
  IndexArray array;
  for (std::size_t i = 0; index.next_array(i, array); ++i) {
  }
  static_cast<void>(index.array(index.entry(0)));
}

TEST(IndexNotValidated, IsReadWhenItIsSound) {
  EXPECT_NO_THROW(read_arrays(Columns()));
}

TEST(IndexNotValidated, RefusesAnArrayThatIsNotThere) {
  Columns columns;
  columns.values[0] = 1;

  EXPECT_THAT([&] { read_arrays(columns); },
              Fails(Errc::malformed_metadata, HasSubstr("'a' is array 1 of 1")));
}

TEST(IndexNotValidated, RefusesATypeThatIsNotKnown) {
  Columns columns;
  columns.dtypes = {200};

  EXPECT_THAT([&] { read_arrays(columns); }, Fails(Errc::malformed_metadata, HasSubstr("unknown dtype 200")));
}

TEST(IndexNotValidated, RefusesTooManyDimensions) {
  Columns columns;
  columns.dims.assign(kMaxRank + 1, 1);
  columns.dims_ends = {kMaxRank + 1};

  EXPECT_THAT([&] { read_arrays(columns); }, Fails(Errc::malformed_metadata, HasSubstr("65 dimensions")));
}

TEST(IndexNotValidated, TakesAsManyDimensionsAsThereMayBe) {
  Columns columns;
  columns.dims.assign(kMaxRank, 1);
  columns.dims_ends = {kMaxRank};

  EXPECT_NO_THROW(read_arrays(columns));
}

TEST(IndexNotValidated, RefusesSlicesBeyondTheEnd) {
  Columns columns;
  columns.slice_ends = {2};

  EXPECT_THAT([&] { read_arrays(columns); }, Fails(Errc::malformed_metadata, HasSubstr("column slices")));
}

INSTANTIATE_TEST_SUITE_P(
    Lengths, IndexHostile,
    ::testing::Values(
        Damage{"Kinds", [](Columns& c) { c.kinds.pop_back(); }, "columns of entries"},
        Damage{"Values", [](Columns& c) { c.values.push_back(0); }, "columns of entries"},
        Damage{"DimsEnds", [](Columns& c) { c.dims_ends.clear(); }, "columns of arrays"},
        Damage{"SliceEnds", [](Columns& c) { c.slice_ends.push_back(1); }, "columns of arrays"},
        Damage{"SliceOffsets", [](Columns& c) { c.slice_offsets.clear(); }, "columns of slices"},
        Damage{"BoxEnds", [](Columns& c) { c.box_ends.clear(); }, "columns of slices"},
        Damage{"LayoutNumbers", [](Columns& c) { c.layout_numbers.push_back(0); }, "their layouts"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Ends, IndexHostile,
    ::testing::Values(
        Damage{"NamesBeyondTheEnd",
               [](Columns& c) {
                 c.name_ends = {1, 3};
               },
               "run 1 of column names"},
        Damage{"NamesBackwards",
               [](Columns& c) {
                 c.name_ends = {2, 1};
               },
               "run 1 of column names"},
        Damage{"DimsBeyondTheEnd", [](Columns& c) { c.dims_ends = {UINT32_MAX}; }, "column dims"},
        Damage{"SlicesBeyondTheEnd", [](Columns& c) { c.slice_ends = {2}; }, "column slices"},
        Damage{"BoxesBeyondTheEnd", [](Columns& c) { c.box_ends = {5}; }, "column boxes"},
        Damage{"FileNamesBeyondTheEnd", [](Columns& c) { c.file_name_ends = {2}; }, "column file_names"},
        Damage{"BlobsBeyondTheEnd", [](Columns& c) { c.blob_ends = {5}; }, "column blobs"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Values, IndexHostile,
    ::testing::Values(
        Damage{"KindZero", [](Columns& c) { c.kinds[0] = 0; }, "unknown kind 0"},
        Damage{"KindEleven", [](Columns& c) { c.kinds[0] = 11; }, "unknown kind 11"},
        Damage{"ArrayThatIsNotThere", [](Columns& c) { c.values[0] = 1; }, "'a' is array 1 of 1"},
        Damage{"ArrayOfTwoEntries", [](Columns& c) { c.kinds[1] = 1; },
               "'b' is array 0, and so is another entry"},
        Damage{"BlobOfTwoEntries", [](Columns& c) { c.kinds[0] = 7; },
               "'b' is blob 0, and so is another entry"},
        Damage{"BlobThatIsNotThere", [](Columns& c) { c.values[1] = UINT64_MAX; }, "'b' is blob"},
        Damage{"StringThatIsNoUtf8", [](Columns& c) { c.blobs = "\xFF\xFF\xFF\xFF"; }, "not valid UTF-8"},
        Damage{"BoolThatIsTwo", [](Columns& c) { c.kinds[1] = 5, c.values[1] = 2; }, "2 is not a bool"},
        Damage{"DtypeZero", [](Columns& c) { c.dtypes = {0}; }, "unknown dtype 0"},
        Damage{"DtypeThatIsTooNew", [](Columns& c) { c.dtypes = {200}; }, "unknown dtype 200"},
        Damage{"TooManyDimensions", [](Columns& c) { c.dims.assign(65, 1), c.dims_ends = {65}; },
               "65 dimensions, more than 64"},
        Damage{"ShapeThatOverflows",
               [](Columns& c) {
                 c.dims = {1ull << 40, 1ull << 40};
               },
               "not a whole number of bytes"},
        Damage{"BoxOfAnotherRank", [](Columns& c) { c.box_ends = {2}; }, "a box of 2 numbers"},
        Damage{"BoxBeyondTheArray",
               [](Columns& c) {
                 c.boxes = {1, 0, 2, 3};
               },
               "beyond dimension 0"},
        Damage{"BoxThatBeginsBeyondTheArray",
               [](Columns& c) {
                 c.boxes = {3, 0, 0, 3};
               },
               "beyond dimension 0"},
        Damage{"BoxThatWraps",
               [](Columns& c) {
                 c.boxes = {0, 1, 2, UINT64_MAX};
               },
               "beyond dimension 1"},
        Damage{"FileThatIsNotThere", [](Columns& c) { c.slice_files = {1}; }, "file 1 of 1"},
        Damage{"FileThatIsAPath",
               [](Columns& c) { c.file_names = "../../etc/passwd", c.file_name_ends = {16}; },
               "not a plain file name"},
        Damage{"LayoutThatIsNotThere", [](Columns& c) { c.layout_numbers = {2}; }, "layout 2 of 1"},
        Damage{"LayoutBeyondTheEnd", [](Columns& c) { c.layout_ends = {4}; }, "column layouts"},
        Damage{"LayoutNoUtf8", [](Columns& c) { c.layouts = "{\xFF"; }, "not valid UTF-8"},
        Damage{"PolicyNoUtf8", [](Columns& c) { c.policy = "\xFF", c.policy_ends = {1}; },
               "sharding policy is not valid UTF-8"},
        Damage{"PolicyThatIsNotThere", [](Columns& c) { c.file_policies = {2}; },
               "'f' was made by sharding policy 2 of 1"},
        Damage{"PolicyBeyondTheEnd", [](Columns& c) { c.policy_ends = {10}; }, "column policy"},
        Damage{"PoliciesOfOtherFiles",
               [](Columns& c) {
                 c.file_policies = {1, 1};
               },
               "differ in length"},
        Damage{"MorePoliciesThanAllowed", [](Columns& c) { c.policy_ends.assign(kMaxPolicies + 1, 9); },
               "1025 sharding policies are more than 1024"},
        Damage{"PoliciesOfNoFiles",
               [](Columns& c) {
                 c.policy_ends = {3, 9};
                 c.file_policies = {};
               },
               "which file was made by which"},
        Damage{"OffsetThatWraps", [](Columns& c) { c.slice_offsets = {UINT64_MAX - 3}; }, "beyond 2^63"},
        Damage{"OffsetNearTheEnd", [](Columns& c) { c.slice_offsets = {INT64_MAX}; }, "beyond 2^63"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Names, IndexHostile,
    ::testing::Values(Damage{"GivenTwice", [](Columns& c) { c.names = "aa"; }, "the same name"},
                      Damage{"OutOfOrder", [](Columns& c) { c.names = "ba"; }, "should stand before"},
                      Damage{"BelowALeaf",
                             [](Columns& c) {
                               c.names = "aa/b", c.name_ends = {1, 4};
                             },
                             "'a/b' lies below the leaf 'a'"},
                      Damage{"NoPath", [](Columns& c) { c.names = "a/"; }, "not a path"},
                      Damage{"NoUtf8", [](Columns& c) { c.names = "a\xFF"; }, "not a path"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(Aliases, IndexHostile,
                         ::testing::Values(Damage{"NumberWithoutAnother",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 0}}), c.alias_ends.push_back(1);
                                                  },
                                                  "column alias_ends has 3 numbers"},
                                           Damage{"EndBeyondTheEnd",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 0}}), c.alias_ends[0] = 2;
                                                  },
                                                  "run 0 of column aliases is [0, 2) of 1"},
                                           Damage{"EndsThatFall",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 0}, {"d", 0}});
                                                    c.alias_ends[0] = 2, c.alias_ends[2] = 1;
                                                  },
                                                  "run 1 of column aliases is [2, 1) of 2"},
                                           Damage{"ArrayThatIsNotThere",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 1}});
                                                  },
                                                  "alias 'c' stands for array 1 of 1"},
                                           Damage{"ArrayWithoutAnEntry",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 0}});
                                                    c.kinds[0] = 2;
                                                  },
                                                  "alias 'c' stands for array 0, which has no other name"},
                                           Damage{"NameOfTheArray",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"a", 0}});
                                                  },
                                                  "alias 'a' has the name of another entry"},
                                           Damage{"NameOfAnotherEntry",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"b", 0}});
                                                  },
                                                  "alias 'b' has the name of another entry"},
                                           Damage{"GivenTwice",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 0}, {"c", 0}});
                                                  },
                                                  "alias 'c' has the same name as 'c'"},
                                           Damage{"OutOfOrder",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"d", 0}, {"c", 0}});
                                                  },
                                                  "alias 'c' should stand before 'd'"},
                                           Damage{"BelowALeaf",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"b/c", 0}});
                                                  },
                                                  "'b/c' lies below the leaf 'b'"},
                                           Damage{"AboveAnEntry",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"aa", 0}});
                                                    c.names = "aaa/b", c.name_ends = {1, 5};
                                                  },
                                                  "'aa/b' lies below the leaf 'aa'"},
                                           Damage{"AboveAnAlias",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c", 0}, {"c/d", 0}});
                                                  },
                                                  "'c/d' lies below the leaf 'c'"},
                                           Damage{"NoPath",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c/", 0}});
                                                  },
                                                  "not a path"},
                                           Damage{"NoUtf8",
                                                  [](Columns& c) {
                                                    c = with_aliases({{"c\xFF", 0}});
                                                  },
                                                  "not a path"}),
                         [](const auto& test) { return test.param.name; });

TEST(IndexOfALaterVersion, IsRefusedAsUnsupportedWhateverElseItHolds) {
  Columns columns;
  columns.version = 2;

  EXPECT_THAT([&] { open_and_read(write(columns, "CRNI", 3)); },
              Fails(Errc::unsupported_version, HasSubstr("version 2")));
}

TEST(IndexOfNoVersion, IsRefused) {
  Columns columns;
  columns.version = 0;

  EXPECT_THAT([&] { open_and_read(write(columns)); }, Fails(Errc::malformed_metadata));
}

TEST(IndexWithoutAColumn, IsRefused) {
  for (int field = 0; field < 16; ++field) {
    EXPECT_THAT([&] { open_and_read(write(Columns(), "CRNI", field)); },
                Fails(Errc::malformed_metadata, HasSubstr("damaged")))
        << field;
  }
}

TEST(IndexWithoutAColumn, IsTakenWhereItSaysHowArraysWereDivided) {
  Columns columns;
  columns.layout_numbers = {0};
  columns.file_policies = {0};
  for (int field = 16; field < 24; ++field) {
    EXPECT_NO_THROW(open_and_read(write(columns, "CRNI", field))) << field;
  }
}

TEST(IndexWithAnotherIdentifier, IsRefused) {
  EXPECT_THAT([] { open_and_read(write(Columns(), "CRNJ")); },
              Fails(Errc::malformed_metadata, HasSubstr("not an index")));
}

TEST(IndexTruncated, IsRefusedAtEveryLength) {
  const std::vector<std::byte> bytes = write(Columns());

  // What the writer put last is the padding of the last column; without it the columns are still whole.
  for (std::size_t size = 0; size + 8 <= bytes.size(); ++size) {
    EXPECT_THAT(
        [&] {
          open_and_read({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
        },
        Fails(Errc::malformed_metadata))
        << size;
  }
}

bool is_refused(const std::vector<std::byte>& bytes) {
  try {
    const auto owner = std::make_shared<std::vector<std::byte>>(bytes);
    Index::open(owner, *owner, "index.fb").validate();
    return false;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::malformed_metadata || error.code() == Errc::unsupported_version)
        << error.what();
    return true;
  }
}

TEST(IndexDamaged, NeverFailsInAnotherWay) {
  const std::vector<std::byte> bytes = write(with_aliases({{"aa", 0}, {"c", 0}}));
  std::size_t refused = 0;

  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      std::vector<std::byte> damaged = bytes;
      damaged[at] ^= static_cast<std::byte>(flip);
      refused += is_refused(damaged) ? 1 : 0;
    }
  }

  EXPECT_GT(refused, bytes.size() * 100);
}

TEST(IndexDamaged, NeverFailsInAnotherWayWhenSeveralBytesChange) {
  const std::vector<std::byte> bytes = write(with_aliases({{"aa", 0}, {"c", 0}}));
  std::mt19937 random(7);
  std::size_t refused = 0;

  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> damaged = bytes;
    for (int i = 0; i < 4; ++i) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    refused += is_refused(damaged) ? 1 : 0;
  }

  EXPECT_GT(refused, 10'000u);
}

}  // namespace
}  // namespace cairn::formats
