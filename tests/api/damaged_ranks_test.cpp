// SPDX-License-Identifier: Apache-2.0
// Files of one rank that are missing or damaged: loads say whose they are, and by which policy they were divided.
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "api/fixture.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::JointJob;
using ::testing::Not;

/// What three ranks have saved.
class DamagedRanks : public testing::ApiTest {
 protected:
  DamagedRanks() {
    JointJob job{JointJob::Options(3)};
    const Sharding rows = Sharding::of_spec(Mesh({3}, {"data"}), {{"data"}});
    SaveOptions options;
    options.handler_options.set(ShardingOptions(std::make_shared<AllInOne>()));
    job.on_all([&](std::size_t rank) {
      std::vector<Array> locals = {Array::zeros({100, 8}, DType::float32)};
      const Tree tree = {
          {"w", shard(rows, static_cast<std::uint32_t>(rank), {300, 8}, DType::float32, std::move(locals))}};
      return save(target(), tree, options, job.context(rank));
    });
  }

  [[nodiscard]] std::filesystem::path file_of_rank_1() const {
    return target() / "state" / "data-r00001-000.safetensors";
  }

  const ::testing::Matcher<std::string> tells_of_it_ =
      AllOf(HasSubstr("data-r00001-000.safetensors"), HasSubstr("(written by rank 1)"),
            HasSubstr("(sharding policy \"" + AllInOne().description() + "\")"));
};

TEST_F(DamagedRanks, AreNamedWhenAFileIsMissing) {
  std::filesystem::remove(file_of_rank_1());

  EXPECT_THAT([&] { static_cast<void>(load(target(), {}, *context_)); },
              Fails(Errc::not_found, tells_of_it_));
}

TEST_F(DamagedRanks, AreNamedWhenABitIsFlipped) {
  std::string bytes = testing::read_text(file_of_rank_1());
  bytes.back() ^= 1;
  testing::write_text(file_of_rank_1(), bytes);

  EXPECT_THAT([&] { static_cast<void>(load(target(), {}, *context_)); },
              Fails(Errc::checksum_mismatch, tells_of_it_));
}

TEST_F(DamagedRanks, AreNamedWhenAFileIsCut) {
  std::filesystem::resize_file(file_of_rank_1(), 100);

  EXPECT_THAT([&] { static_cast<void>(load(target(), {}, *context_)); },
              Fails(Errc::checksum_mismatch, tells_of_it_));
}

TEST_F(DamagedRanks, NameThePolicyOfTheFileOfSeveral) {
  const std::filesystem::path path = directory_ / "two";
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<AllInOne>()));
  options.handler_options.set(
      ArrayRules().add("v", std::make_shared<ByPrefix>(std::vector<std::string>{"state/v"})));
  const Array array = Array::zeros({100, 8}, DType::float32);
  save(path, Tree{{"v", array}, {"w", array}}, options, *context_);
  const std::string first = ByPrefix({"state/v"}).description();
  const std::string second = AllInOne().description();

  for (const auto& [file, told, untold] : {std::tuple("data-r00000-000.safetensors", first, second),
                                           std::tuple("data-r00000-001.safetensors", second, first)}) {
    const std::string bytes = testing::read_text(path / "state" / file);
    const auto names_its_policy =
        AllOf(HasSubstr(file), HasSubstr("(sharding policy \"" + told + "\")"), Not(HasSubstr(untold)));
    testing::write_text(path / "state" / file, bytes.substr(0, bytes.size() - 1) + "x");
    EXPECT_THAT([&] { static_cast<void>(load(path, {}, *context_)); },
                Fails(Errc::checksum_mismatch, names_its_policy));
    std::filesystem::remove(path / "state" / file);
    EXPECT_THAT([&] { static_cast<void>(load(path, {}, *context_)); },
                Fails(Errc::not_found, names_its_policy));
    testing::write_text(path / "state" / file, bytes);
  }
}

TEST_F(DamagedRanks, AreNotNamedWhereOneProcessHasSaved) {
  const std::filesystem::path alone = directory_ / "alone";
  save(alone, Tree{{"w", Array::zeros({100, 8}, DType::float32)}}, {}, *context_);
  std::filesystem::resize_file(alone / "state" / "data-r00000-000.safetensors", 100);

  EXPECT_THAT([&] { static_cast<void>(load(alone, {}, *context_)); },
              Fails(Errc::checksum_mismatch, AllOf(Not(HasSubstr("written by")), Not(HasSubstr("policy")))));
}

}  // namespace
}  // namespace cairn
