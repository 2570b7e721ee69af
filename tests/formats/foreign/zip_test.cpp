// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/zip.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "formats/foreign/checkpoint_files.hpp"
#include "support/fails.hpp"
#include "support/noise.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

ZipDirectory read_zip(std::string_view bytes) {
  ZipDirectory directory = read_zip_directory(reader_of(bytes), bytes.size(), "f");
  for (ZipMember& member : directory.members) {
    locate_zip_member(member, as_bytes(bytes.substr(member.header, zip_header_bytes(member))), "f");
  }
  return directory;
}

std::string two_members() {
  return make_archive({{"a", "first"}, {"b", "second"}});
}

void expect_bad_archive(const std::string& archive, const char* why) {
  EXPECT_THAT([&] { static_cast<void>(read_zip(archive)); }, Fails(Errc::malformed_metadata, HasSubstr(why)));
}

TEST(Zip, FindsWhereMembersLie) {
  const std::string archive = two_members();
  const ZipDirectory directory = read_zip(archive);

  ASSERT_EQ(directory.members.size(), 2u);
  EXPECT_EQ(archive.substr(directory.find("b")->begin, directory.find("b")->size), "second");
  EXPECT_EQ(directory.find("c"), nullptr);
}

TEST(Zip, ReadsNumbersOf64Bits) {
  ArchiveMember wide{"a", "first"};
  wide.is_wide = true;
  const std::string archive = make_archive({wide});

  EXPECT_EQ(archive.substr(read_zip(archive).members[0].begin, 5), "first");
}

TEST(Zip, ReadsDirectoriesBehindFourGigabytes) {
  // The entry of a member at 5 GiB with 6 GiB, as the directory of an archive of 11 GiB and more has it.
  ArchiveMember wide{"a", "x"};
  wide.is_wide = true;
  const std::string archive = make_archive({{"0", ""}, wide});
  const std::size_t begin = archive.find("PK\x01\x02");
  std::string directory = archive.substr(begin, archive.find("PK\x05\x06") - begin);
  const std::uint64_t numbers[] = {std::uint64_t{6} << 30, std::uint64_t{6} << 30, std::uint64_t{5} << 30};
  std::memcpy(directory.data() + directory.size() - sizeof numbers, numbers, sizeof numbers);

  const ZipDirectory read =
      parse_zip_directory(as_bytes(directory), {std::uint64_t{12} << 30, directory.size(), 2}, "f");

  EXPECT_EQ(read.find("a")->header, std::uint64_t{5} << 30);
  EXPECT_EQ(read.find("a")->size, std::uint64_t{6} << 30);
  EXPECT_THAT(
      [&] {
        static_cast<void>(
            parse_zip_directory(as_bytes(directory), {std::uint64_t{10} << 30, directory.size(), 2}, "f"));
      },
      Fails(Errc::malformed_metadata, HasSubstr("'a'")));
}

TEST(Zip, RefusesWhatDisagrees) {
  std::string cut = two_members();
  cut.pop_back();
  expect_bad_archive(cut, "no directory");
  expect_bad_archive(two_members() + "x", "no directory");
  expect_bad_archive(make_archive({{"a", "b"}}, "a comment"), "no directory");
  expect_bad_archive("x" + two_members(), "does not end where the archive ends");
  expect_bad_archive(make_archive({{"a", "1"}, {"a", "2"}}), "two members have this name");
  expect_bad_archive(make_archive({{"", "1"}}), "its name is empty");
  ArchiveMember other{"a", "1"};
  other.local_name = "b";
  expect_bad_archive(make_archive({other}), "of another member");
  ArchiveMember encrypted{"a", "1", 1};
  expect_bad_archive(make_archive({encrypted}), "encrypted");
  ArchiveMember compressed{"a", "1", 0, 8};
  expect_bad_archive(make_archive({compressed}), "compressed (method 8)");
}

TEST(Zip, RefusesMembersThatOverlapOrLeaveTheArchive) {
  ArchiveMember late{"b", "second"};
  late.header_shift = -3;
  expect_bad_archive(make_archive({{"a", "first"}, late}), "reach beyond");
  late.header_shift = 1'000'000;
  expect_bad_archive(make_archive({{"a", "first"}, late}), "reach beyond");
  ArchiveMember first{"a", "first"};
  first.header_shift = 1;
  expect_bad_archive(make_archive({first}), "");
  std::string lying = two_members();
  const std::size_t size_at = lying.find("PK\x01\x02") + 20;
  lying[size_at + 3] = lying[size_at + 7] = '\x7f';  // Two gigabytes, both times.
  expect_bad_archive(lying, "reach beyond");
}

TEST(Zip, RefusesCountsAndPlacesThatLie) {
  const std::string good = two_members();
  const std::size_t end = good.size() - 22;
  const auto with = [&](std::size_t at, char value) {
    std::string bad = good;
    bad[end + at] = value;
    return bad;
  };
  std::string one = with(8, 1);
  one[end + 10] = 1;
  expect_bad_archive(one, "has 2 members, but it says 1");
  one[end + 8] = one[end + 10] = 3;
  expect_bad_archive(one, "has no room for 3 members");
  expect_bad_archive(with(8, 1), "several parts");
  expect_bad_archive(with(4, 1), "several parts");
  expect_bad_archive(with(12, 1), "does not end where");
  expect_bad_archive(with(19, '\x7f'), "does not end where");
}

TEST(Crc32, OfPartsMakesThatOfAllInAnyOrder) {
  if (!can_compute_crc32()) {
    GTEST_SKIP() << "without CRC-32";
  }
  const std::vector<std::byte> bytes = testing::noise(300'007);
  const std::span<const std::byte> all = bytes;
  std::uint32_t sum = 0;
  for (const std::size_t begin : {std::size_t{1000}, std::size_t{0}, std::size_t{70'000}}) {
    const std::size_t end = begin == 0 ? 1000 : begin == 1000 ? 70'000 : bytes.size();
    sum ^= shift_crc32(update_crc32(0, all.subspan(begin, end - begin)), bytes.size() - end);
  }

  EXPECT_EQ(sum, update_crc32(0, all));
}

}  // namespace
}  // namespace cairn::formats
