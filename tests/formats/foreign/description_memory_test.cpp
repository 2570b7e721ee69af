// SPDX-License-Identifier: Apache-2.0
// How much resident memory the description of an archive takes at most, in a process of its own.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/foreign/checkpoint_files.hpp"
#include "formats/internal/description_budget.hpp"
#include "formats/internal/foreign_index.hpp"
#include "support/fails.hpp"
#include "support/peak_memory.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

constexpr std::size_t kMany = 1'000'000;

/// A pickle of protocol 2 of a list whose elements are these opcodes, again and again.
std::string list_of(const std::string& opcodes) {
  std::string pickle = "\x80\2](";
  for (std::size_t i = 0; i < kMany; ++i) {
    pickle += opcodes;
  }
  return pickle + "e.";
}

/// Reads an archive into an index, as each reader does.
Index index_of(const std::string& archive) {
  ForeignCatalogue catalogue = read_archive(archive);
  catalogue.layout = "torch.archive";
  return make_index(std::move(catalogue), "f");
}

std::optional<std::size_t> growth_of_index(const std::string& archive) {
  return testing::peak_growth([&] {
    try {
      static_cast<void>(index_of(archive));
    } catch (const Error& error) {
      if (error.code() != Errc::malformed_metadata) {
        throw;
      }
    }
  });
}

/// What docs/interop.md promises.
std::size_t most_for(const std::string& archive) {
  return DescriptionBudget::kTimesInput * archive.size() + DescriptionBudget::kSpareBytes;
}

class DescriptionMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
      GTEST_SKIP() << why;
    }
  }
};

TEST_F(DescriptionMemory, OfAListOfScalarsIsOneValueAndItsEntries) {
  for (const char* element : {"K\7", "\x88"}) {
    const std::string archive = make_torch_archive(list_of(element));

    const auto growth = growth_of_index(archive);

    ASSERT_TRUE(growth);
    EXPECT_LE(*growth, most_for(archive));
    EXPECT_LE(*growth, 120 * kMany) << "as values of their own they took 150 bytes each";
  }
}

TEST_F(DescriptionMemory, OfWhatIsRefusedIsWithinTheBound) {
  for (const char* element : {"}", ")", "]Na"}) {
    const std::string archive = make_torch_archive(list_of(element));

    const auto growth = growth_of_index(archive);

    ASSERT_TRUE(growth);
    EXPECT_LE(*growth, most_for(archive));
  }
}

TEST(DescriptionBound, IsNamedWithTheFileWhereMapsAreTooMany) {
  const std::string archive = make_torch_archive(list_of("}"));

  EXPECT_THAT([&] { static_cast<void>(index_of(archive)); },
              Fails(Errc::malformed_metadata,
                    AllOf(HasSubstr("f: what it describes"), HasSubstr("more than the 138 MiB"))));
}

TEST(DescriptionBound, HasRoomForAMillionTruthValuesAndNumbers) {
  EXPECT_EQ(index_of(make_torch_archive(list_of("\x88"))).size(), kMany + 1);
  EXPECT_EQ(index_of(make_torch_archive(list_of("K\7"))).size(), kMany + 1);
  EXPECT_EQ(index_of(make_torch_archive(list_of("N"))).size(), kMany + 1);
}

TEST(ScalarLists, AreOneValueWhateverScalarsTheyHold) {
  const std::string scalars = "K\7\x88N" + ("G" + std::string("\x3f\xe0\0\0\0\0\0\0", 8));
  const std::string archive = make_torch_archive("](" + scalars + "e.");

  const ForeignCatalogue catalogue = read_archive(archive);

  ASSERT_EQ(catalogue.values.size(), 1u);
  const auto* list = std::get_if<ScalarList>(&catalogue.values[0].value);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->elements.size(), 4u);
  EXPECT_EQ(std::get<std::int64_t>(list->elements[0]), 7);
  EXPECT_TRUE(std::get<bool>(list->elements[1]));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(list->elements[2]));
  EXPECT_EQ(std::get<double>(list->elements[3]), 0.5);
}

TEST(ScalarLists, AreListsOfAnIndexWithTheirElements) {
  const Index index =
      index_of(make_torch_archive("}" + pickled(std::string_view("t")) + "](K\5\x89" + "es."));

  ASSERT_EQ(index.size(), 3u);
  EXPECT_EQ(index.entry(0).name, "t");
  EXPECT_EQ(index.entry(0).list_size(), 2u);
  EXPECT_EQ(index.entry(1).name, "t/0");
  EXPECT_EQ(index.entry(1).as_integer(), 5);
  EXPECT_EQ(index.entry(2).name, "t/1");
  EXPECT_FALSE(index.entry(2).as_bool());
}

TEST(ScalarLists, AreOfTwoElementsAtLeastAndOfScalarsOnly) {
  for (const char* pickle : {"](K\7e.", "](K\7}e.", "](K\7]e."}) {
    const ForeignCatalogue catalogue = read_archive(make_torch_archive(pickle));

    ASSERT_FALSE(catalogue.values.empty());
    EXPECT_TRUE(std::holds_alternative<ListSize>(catalogue.values[0].value)) << pickle;
  }
}

}  // namespace
}  // namespace cairn::formats
