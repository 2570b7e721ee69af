// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/megatron/dist_checkpointing.hpp"
#include "cairn/megatron/handler.hpp"

#include "api/fixture.hpp"
#include "core/joint_job.hpp"
#include "megatron/memory_checkpoint.hpp"

namespace cairn::testing {

/// Saves and loads state dicts by ranks that are threads.
class StatesOfRanks : public ApiTest {
 protected:
  using DictOfRank = std::function<megatron::StateDict(std::uint32_t rank)>;

  static megatron::StateDictSaveOptions overwriting() {
    megatron::StateDictSaveOptions options;
    options.save.overwrite = true;
    return options;
  }

  std::vector<RankEnd> save_on(JointJob& job, const DictOfRank& dict,
                               const megatron::StateDictSaveOptions& options = overwriting()) const {
    return job.on_all([&](std::size_t rank) {
      return megatron::save(dict(static_cast<std::uint32_t>(rank)), target(), options, job.context(rank));
    });
  }

  void expect_saved(const DictOfRank& dict, std::size_t ranks,
                    const megatron::StateDictSaveOptions& options = overwriting()) const {
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_on(job, dict, options)) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  }

  /// Expects that all ranks are told the same, and that nothing stays.
  void expect_refused(const DictOfRank& dict, std::size_t ranks, const ::testing::Matcher<std::string>& why,
                      const megatron::StateDictSaveOptions& options = {}) const {
    JointJob job{JointJob::Options(ranks)};
    const std::vector<RankEnd> ends = save_on(job, dict, options);
    for (const RankEnd& end : ends) {
      EXPECT_THAT(end.text(), why);
      EXPECT_EQ(end.text(), ends.front().text());
    }
    EXPECT_THAT(left(), ::testing::IsEmpty());
  }

  /// What each rank of a job has loaded, or why not.
  struct LoadEnd {
    megatron::LoadedStateDict loaded;
    std::string text;
  };

  std::vector<LoadEnd> load_on(const DictOfRank& requested, std::size_t ranks,
                               const megatron::StateDictLoadOptions& options = {}) const {
    return load_on(requested, ranks, target(), options);
  }

  std::vector<LoadEnd> load_on(const DictOfRank& requested, std::size_t ranks,
                               const std::filesystem::path& path,
                               const megatron::StateDictLoadOptions& options = {}) const {
    JointJob job{JointJob::Options(ranks)};
    std::vector<LoadEnd> loaded(ranks);
    const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
      loaded[rank].loaded =
          megatron::load(requested(static_cast<std::uint32_t>(rank)), path, options, job.context(rank));
      return SaveResult();
    });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      loaded[rank].text = ends[rank].failure ? ends[rank].text() : std::string();
    }
    return loaded;
  }

  [[nodiscard]] megatron::LoadedStateDict load_alone(
      const megatron::StateDict& requested, const megatron::StateDictLoadOptions& options = {}) const {
    return megatron::load(requested, target(), options, *context_);
  }
};

}  // namespace cairn::testing
