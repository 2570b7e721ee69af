// SPDX-License-Identifier: Apache-2.0
// Ranks that load a checkpoint together: each byte is read by one of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "api/fixture.hpp"
#include "async/internal/event.hpp"
#include "core/joint_job.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::JointJob;
using ::testing::Not;
using testing::RankEnd;

/// 8 MiB: chunks, windows and a rest.
Array large_array() {
  Array array({2048, 1025}, DType::int32);
  const auto elements = array.data<std::int32_t>();
  std::iota(elements.begin(), elements.end(), 0);
  return array;
}

Sharding by_columns(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"model"}), {{}, {"model"}});
}

Sharding by_rows(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
}

ShardedArray cut_for(const Array& whole, const Sharding& sharding, std::uint32_t rank) {
  std::vector<Array> locals;
  for (const PlacedBox& placed : sharding.boxes(rank, whole.shape())) {
    locals.push_back(whole.part(placed.box).clone());
  }
  return shard(sharding, rank, whole.shape(), whole.dtype(), std::move(locals));
}

class Together : public testing::ApiTest {
 protected:
  Together() {
    options_.together = true;
    TreeLoadOptions of_tree;
    of_tree.partial = true;
    options_.handler_options.set(of_tree);
  }

  void save_rows() const {
    Tree tree;
    tree["w"] = cut_for(whole_, by_rows(1), 0);
    tree["bias"] = bias_;
    tree["step"] = 7;
    SaveOptions options;
    options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(3 << 20)));
    save(target(), tree, options, *context_);
  }

  /// What a rank wants.
  using Wanted = std::function<AbstractTree(std::uint32_t rank)>;

  [[nodiscard]] AbstractTree wanted_of(const Sharding& sharding, std::uint32_t rank) const {
    AbstractTree wanted;
    wanted["w"] = cairn::wanted(AbstractArray{whole_.shape(), whole_.dtype()}, sharding, rank);
    wanted["bias"] = AbstractArray{bias_.shape(), bias_.dtype()};
    wanted["step"] = as_saved;
    return wanted;
  }

  /// How a load ended on one rank.
  struct End {
    Tree tree;
    std::uint64_t bytes = 0;
    std::exception_ptr failure;
    [[nodiscard]] std::string text() const { return failure ? describe(failure) : "loaded"; }
  };

  using Act = std::function<Loaded(std::size_t rank)>;

  /// Each rank acts; what they have loaded as 'state'.
  static std::vector<End> on_all(JointJob& job, const Act& act) {
    std::vector<End> ends(job.size());
    std::vector<std::future<void>> running;
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      running.push_back(std::async(std::launch::async, [&, rank] {
        try {
          Loaded loaded = act(rank);
          ends[rank].bytes = loaded.result().bytes;
          ends[rank].tree = loaded.take<Tree>("state");
        } catch (...) {
          ends[rank].failure = std::current_exception();
        }
      }));
    }
    for (const std::future<void>& each : running) {
      each.wait();
    }
    return ends;
  }

  std::vector<End> load_on(JointJob& job, const Wanted& wanted) const {
    return on_all(job, [&](std::size_t rank) {
      return load_checkpointables(target(), {{"state", wanted(static_cast<std::uint32_t>(rank))}}, options_,
                                  job.context(rank));
    });
  }

  [[nodiscard]] std::uint64_t stored_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(target() / "state")) {
      bytes += entry.file_size();
    }
    return bytes;
  }

  LoadOptions options_;
  const Array whole_ = large_array();
  const Array bias_ = whole_.part(Box({0, 0}, {1, 7})).clone();
};

TEST_F(Together, ReadEachByteOnceForColumnsOfRows) {
  save_rows();
  for (const std::uint32_t ranks : {1U, 2U, 5U, 8U}) {
    SCOPED_TRACE(ranks);
    JointJob job{JointJob::Options(ranks)};
    std::uint64_t read = 0;
    const std::vector<End> ends =
        load_on(job, [&](std::uint32_t rank) { return wanted_of(by_columns(ranks), rank); });
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(ends[rank].text(), "loaded");
      EXPECT_EQ(ends[rank].tree.at("w").as<ShardedArray>(), cut_for(whole_, by_columns(ranks), rank));
      EXPECT_EQ(ends[rank].tree.at("bias").as<Array>(), bias_);
      read += ends[rank].bytes;
      EXPECT_GT(ends[rank].bytes, 0U) << "all take their part";
    }
    EXPECT_EQ(read, stored_bytes());
  }
}

TEST_F(Together, ReadEachByteOnceInEachGroupOfRanks) {
  save_rows();
  JointJob job{JointJob::Options(4)};

  const std::vector<End> ends = on_all(job, [&](std::size_t rank) {
    LoadOptions options = options_;
    options.group = rank % 2 == 0 ? std::vector<std::uint32_t>{0, 2} : std::vector<std::uint32_t>{1, 3};
    AbstractTree wanted;
    wanted["w"] = AbstractArray{whole_.shape(), whole_.dtype()};
    return load_checkpointables(target(), {{"state", wanted}}, options, job.context(rank));
  });

  for (const End& end : ends) {
    EXPECT_EQ(end.text(), "loaded");
    EXPECT_EQ(end.tree.at("w").as<Array>(), whole_);
  }
  for (const std::size_t rank : {0, 1}) {
    const std::uint64_t read = ends[rank].bytes + ends[rank + 2].bytes;
    EXPECT_GT(read, whole_.byte_count());
    EXPECT_LT(read, stored_bytes() + (64 << 10));
  }
}

TEST_F(Together, MayWantOtherThingsOrNothing) {
  save_rows();
  JointJob job{JointJob::Options(3)};
  std::vector<End> ends = load_on(job, [&](std::uint32_t rank) {
    if (rank == 1) {
      AbstractTree nothing;
      nothing["step"] = as_saved;
      return nothing;
    }
    return wanted_of(rank == 0 ? by_rows(2) : by_columns(3), rank == 0 ? 1 : 2);
  });

  ASSERT_EQ(ends[0].text(), "loaded");
  ASSERT_EQ(ends[1].text(), "loaded");
  ASSERT_EQ(ends[2].text(), "loaded");
  EXPECT_EQ(ends[0].tree.at("w").as<ShardedArray>(), cut_for(whole_, by_rows(2), 1));
  EXPECT_EQ(ends[1].tree.at("step").as<int>(), 7);
  EXPECT_EQ(ends[2].tree.at("w").as<ShardedArray>(), cut_for(whole_, by_columns(3), 2));
}

TEST_F(Together, MaySayWithAnEmptyTreeThatARankWantsNothing) {
  save_rows();
  JointJob job{JointJob::Options(3)};
  const std::vector<End> ends = load_on(job, [&](std::uint32_t rank) {
    return rank == 1 ? AbstractTree() : wanted_of(by_columns(2), rank / 2);
  });

  EXPECT_EQ(ends[1].text(), "loaded");
  EXPECT_EQ(ends[1].tree, Tree::map());
  EXPECT_EQ(ends[2].text(), "loaded");
  EXPECT_EQ(ends[2].tree.at("w").as<ShardedArray>(), cut_for(whole_, by_columns(2), 1));
}

TEST_F(Together, MayLoadAllThereIsAlongATreeOfRanks) {
  save_rows();
  JointJob::Options of_job(7);
  of_job.fan_out = 2;
  JointJob job(of_job);
  std::uint64_t read = 0;
  for (const End& end : on_all(job, [&](std::size_t rank) {
         return load_checkpointables(target(), {}, options_, job.context(rank));
       })) {
    ASSERT_EQ(end.text(), "loaded");
    EXPECT_EQ(end.tree.at("w").as<Array>(), whole_);
    read += end.bytes;
  }
  EXPECT_EQ(read, stored_bytes());
}

TEST_F(Together, LoadIntoMemoryThatIsThereAndCast) {
  save_rows();
  JointJob job{JointJob::Options(2)};
  std::vector<Array> memory;
  for (int rank = 0; rank < 2; ++rank) {
    memory.emplace_back(whole_.shape(), DType::float64);
  }
  const std::vector<End> ends = load_on(job, [&](std::uint32_t rank) {
    AbstractTree wanted;
    AbstractArray form{whole_.shape(), DType::float64};
    form.destination = memory[rank];
    wanted["w"] = form;
    return wanted;
  });
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ends[rank].text(), "loaded");
    EXPECT_EQ(memory[rank].data<double>()[12345], 12345.0);
    EXPECT_EQ(memory[rank].data<double>().back(), double(whole_.element_count() - 1));
  }
}

TEST_F(Together, AllHearOfAByteThatIsWrong) {
  save_rows();
  const std::string file = target() / "state/data-r00000-001.safetensors";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(1'000'000).put('!');
  JointJob job{JointJob::Options(4)};
  int culprits = 0;
  for (const End& end : load_on(job, [&](std::uint32_t rank) { return wanted_of(by_columns(4), rank); })) {
    EXPECT_THAT(end.text(), HasSubstr("data-r00000-001.safetensors"));
    EXPECT_THAT(end.text(), AllOf(HasSubstr("checksum mismatch"), Not(HasSubstr("peer failed"))));
    culprits += end.text().find("rank ") == std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(culprits, 1) << "the others are told by whom it was found";
}

TEST_F(Together, AllAreToldAlikeOfACheckpointThatIsNotThere) {
  JointJob job{JointJob::Options(3)};
  for (const End& end : on_all(job, [&](std::size_t rank) {
         return load_checkpointables(directory_ / "nothing", {}, options_, job.context(rank));
       })) {
    EXPECT_THAT(end.text(),
                AllOf(HasSubstr("nothing"), HasSubstr(": not found"), Not(HasSubstr("peer failed"))));
  }
}

TEST_F(Together, AllHearOfARankThatIsRefused) {
  save_rows();
  JointJob job{JointJob::Options(3)};
  const std::vector<End> ends = load_on(job, [&](std::uint32_t rank) {
    AbstractTree wanted;
    wanted[rank == 2 ? "other" : "w"] = AbstractArray{whole_.shape(), whole_.dtype()};
    return wanted;
  });
  EXPECT_THAT(ends[2].text(), AllOf(HasSubstr("other"), Not(HasSubstr("peer failed"))));
  EXPECT_THAT(ends[0].text(), AllOf(HasSubstr("peer failed"), HasSubstr("rank 2"), HasSubstr("other")));
  EXPECT_THAT(ends[1].text(), AllOf(HasSubstr("peer failed"), HasSubstr("rank 2"), HasSubstr("other")));
}

TEST_F(Together, MustLoadTheSame) {
  save_rows();
  save(directory_ / "another", Tree{{"step", 8}}, {}, *context_);
  JointJob job{JointJob::Options(3)};
  for (const End& end : on_all(job, [&](std::size_t rank) {
         return load_checkpointables(rank == 1 ? directory_ / "another" : target(), {}, options_,
                                     job.context(rank));
       })) {
    EXPECT_THAT(end.text(), AllOf(HasSubstr("the ranks do not load the same: the path: ranks 0 and 2 have '"),
                                  HasSubstr("rank 1 has '"), HasSubstr("another'")));
  }
}

TEST_F(Together, AllHearOfALoadThatIsOutOfTime) {
  save_rows();
  JointJob job{JointJob::Options(2)};
  std::promise<void> has_ended;
  const std::vector<End> ends = on_all(job, [&](std::size_t rank) {
    if (rank == 1) {
      has_ended.get_future().wait();
      return load_checkpointables(target(), {}, options_, job.context(1));
    }
    const std::shared_ptr<void> tell(nullptr, [&](std::nullptr_t) { has_ended.set_value(); });
    LoadOptions hasty = options_;
    hasty.deadline = std::chrono::milliseconds(20);
    return load_checkpointables(target(), {}, hasty, job.context(0));
  });
  EXPECT_THAT(ends[0].text(), HasSubstr("timed out"));
  EXPECT_THAT(ends[1].text(), AllOf(HasSubstr("peer failed"), HasSubstr("rank 0"), HasSubstr("timed out")));
}

TEST_F(Together, NameTheRankWhoseDiskDoesNotAnswer) {
  save_rows();
  for (const std::size_t slow : {0, 1, 3}) {
    JointJob::Options of_job(4);
    of_job.fan_out = 2;
    JointJob job(of_job);
    const async::Event others_have_ended;
    std::atomic<int> left{3};
    job.syscalls(slow).before_large_read = [&] { others_have_ended.get(); };

    const std::vector<End> ends = on_all(job, [&](std::size_t rank) {
      const std::shared_ptr<void> ended(nullptr, [&, rank](std::nullptr_t) {
        if (rank != slow && --left == 0) {
          others_have_ended.set();
        }
      });
      LoadOptions options = options_;
      if (rank == 2) {
        options.deadline = std::chrono::milliseconds(500);
      }
      return load_checkpointables(target(), {{"state", wanted_of(by_columns(4), std::uint32_t(rank))}},
                                  options, job.context(rank));
    });

    for (const End& end : ends) {
      EXPECT_THAT(end.text(), HasSubstr(fmt::format("still waiting for rank {}:", slow)));
    }
  }
}

TEST_F(Together, AreNotKeptWaitingByALostRank) {
  save_rows();
  JointJob::Options of_job(3);
  of_job.lost_after = std::chrono::milliseconds(300);
  JointJob job(of_job);
  const std::vector<End> ends = on_all(job, [&](std::size_t rank) {
    if (rank != 2) {
      while (job.network().sent_bytes(2) == 0) {  // It has joined.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      job.network().cut(2);
    }
    return load_checkpointables(target(), {}, options_, job.context(rank));
  });
  EXPECT_THAT(ends[0].text(), HasSubstr("rank 2 is lost"));
  EXPECT_THAT(ends[1].text(), HasSubstr("rank 2 is lost"));
  EXPECT_THAT(ends[2].text(), HasSubstr("rank 0 is lost"));  // It does not hear the others, either.
}

TEST_F(Together, LoadForeignFilesToo) {
  save(target(), Tree{{"w", whole_}}, {}, *context_);
  const fs::path foreign = directory_ / "foreign";
  fs::create_directory(foreign);
  fs::copy(target() / "state/data-r00000-000.safetensors", foreign);
  JointJob job{JointJob::Options(2)};
  for (const End& end : on_all(job, [&](std::size_t rank) {
         return load_checkpointables(foreign, {}, options_, job.context(rank));
       })) {
    ASSERT_EQ(end.text(), "loaded");
    EXPECT_EQ(end.tree.at("w").as<Array>(), whole_);
  }
}

TEST_F(Together, SavesAndLoadsTakeTurns) {
  JointJob job{JointJob::Options(4)};
  for (int step = 0; step < 3; ++step) {
    const std::vector<RankEnd> saved = job.on_all([&](std::size_t rank) {
      Tree tree;
      tree["w"] = cut_for(whole_, by_rows(4), static_cast<std::uint32_t>(rank));
      tree["step"] = step;
      return save(target(), tree, testing::overwriting_save(), job.context(rank));
    });
    for (const RankEnd& end : saved) {
      ASSERT_EQ(end.text(), "committed");
    }
    for (const End& end : on_all(job, [&](std::size_t rank) {
           return load_checkpointables(target(), {}, options_, job.context(rank));
         })) {
      ASSERT_EQ(end.text(), "loaded");
      EXPECT_EQ(end.tree.at("step").as<int>(), step);
      EXPECT_EQ(end.tree.at("w").as<Array>(), whole_);
    }
  }
}

/// What a random rank wants of arrays of two dimensions: of each a box, all of it, or nothing.
AbstractTree random_wish(std::mt19937& dice, const std::map<std::string, Array>& arrays) {
  AbstractTree wanted;
  wanted["step"] = as_saved;
  for (const auto& [name, array] : arrays) {
    const auto kind = dice() % 4;
    if (kind == 0) {
      continue;
    }
    if (kind == 1) {
      wanted[name] = as_saved;
      continue;
    }
    const std::uint64_t top = dice() % array.shape()[0];
    const std::uint64_t left = dice() % array.shape()[1];
    const Shape extents{1 + dice() % (array.shape()[0] - top), 1 + dice() % (array.shape()[1] - left)};
    AbstractShardedArray boxes(array.shape(), dice() % 2 == 0 ? DType::int32 : DType::float64);
    boxes.shards.push_back({Box({top, left}, extents), std::nullopt});
    wanted[name] = boxes;
  }
  return wanted;
}

template <class Element>
bool holds(const Array& loaded, const Array& saved) {
  const auto elements = saved.data<std::int32_t>();
  return std::ranges::equal(loaded.data<Element>(), elements,
                            [](Element one, std::int32_t other) { return one == Element(other); });
}

/// How many of the arrays that were loaded have other elements than were saved.
int wrong_arrays(const Tree& loaded, const std::map<std::string, Array>& arrays) {
  int wrong = 0;
  for (const auto& [name, array] : arrays) {
    const Tree* leaf = loaded.find(name);
    if (leaf == nullptr) {
      continue;
    }
    if (leaf->is_array()) {
      wrong += leaf->as<Array>() == array ? 0 : 1;
      continue;
    }
    const Shard part = leaf->as<ShardedArray>().shards().at(0);
    const Array stored = array.part(part.box).clone();
    const bool is_right = part.data.dtype() == DType::int32 ? holds<std::int32_t>(part.data, stored)
                                                            : holds<double>(part.data, stored);
    wrong += is_right ? 0 : 1;
  }
  return wrong;
}

TEST_F(Together, GiveEachRankWhatItWantsWhateverHappensToAnother) {
  std::mt19937 dice(7);
  int loaded = 0;
  int failed = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    std::map<std::string, Array> arrays;
    Tree tree = {{"step", round}};
    for (int i = 0; i < 4; ++i) {
      const Shape shape{1 + dice() % 700, 1 + dice() % 900};
      Array array(shape, DType::int32);
      std::iota(array.data<std::int32_t>().begin(), array.data<std::int32_t>().end(), i * 1000);
      tree["a" + std::to_string(i)] = array;
      arrays.emplace("a" + std::to_string(i), array);
    }
    const fs::path path = directory_ / std::to_string(round);
    SaveOptions how;
    how.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(200'000 + dice() % 3'000'000)));
    save(path, tree, how, *context_);
    JointJob::Options of_job(1 + dice() % 6);
    of_job.fan_out = 2 + dice() % 15;
    JointJob job(of_job);
    std::vector<AbstractTree> wishes;
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      wishes.push_back(random_wish(dice, arrays));
    }
    const bool is_hurried = round % 3 == 0;
    const bool is_refused = round % 10 == 5;
    const std::size_t unlucky = dice() % job.size();
    const std::chrono::microseconds patience(1 + dice() % 20'000);
    if (is_refused) {
      wishes[unlucky]["nowhere"] = as_saved;
    }
    const std::vector<End> ends = on_all(job, [&](std::size_t rank) {
      LoadOptions options = options_;
      if (is_hurried && rank == unlucky) {
        options.deadline = patience;
      }
      return load_checkpointables(path, {{"state", wishes[rank]}}, options, job.context(rank));
    });
    for (const End& end : ends) {
      EXPECT_TRUE(!end.failure || is_hurried || is_refused) << end.text();
      EXPECT_TRUE(end.failure || !is_refused) << "what one cannot have ends it on all";
      if (!end.failure) {
        EXPECT_EQ(wrong_arrays(end.tree, arrays), 0);
      }
      ++(end.failure ? failed : loaded);
    }
    fs::remove_all(path);
  }
  EXPECT_GT(loaded, 40);
  EXPECT_GT(failed, 0);
}

TEST_F(Together, AllHearOfARefusalBeforeThereIsALoad) {
  save_rows();
  JointJob job{JointJob::Options(2)};
  const std::vector<End> ends = on_all(job, [&](std::size_t rank) {
    Array memory(whole_.shape(), whole_.dtype());
    AbstractArray form{whole_.shape(), whole_.dtype()};
    form.destination = memory;
    AbstractTree wanted;
    wanted["w"] = form;
    Requests requests = {{"state", wanted}};
    if (rank == 1) {
      requests.push_back({"more", wanted});
    }
    return load_checkpointables(target(), requests, options_, job.context(rank));
  });
  EXPECT_THAT(ends[1].text(), AllOf(HasSubstr("'more/w'"), Not(HasSubstr("peer failed"))));
  EXPECT_THAT(ends[0].text(), AllOf(HasSubstr("peer failed"), HasSubstr("rank 1"), HasSubstr("'more/w'")));
}

TEST_F(Together, AreLoadsAndNotQuestions) {
  save_rows();
  EXPECT_THAT([&] { static_cast<void>(metadata(target(), options_, *context_)); },
              Fails(Errc::invalid_argument, HasSubstr("`together` applies to loads, not to metadata")));
}

TEST_F(Together, LoadFilesOfOtherPrograms) {
  TreeLoadOptions of_tree;
  of_tree.leave_out = true;
  LoadOptions alone;
  alone.handler_options.set(of_tree);
  options_.handler_options.set(of_tree);
  for (const char* path :
       {"torch/state_dict.pt", "torch_more/views.pt", "megatron/flat_tp2_dp3", "megatron/tp2_pp2"}) {
    SCOPED_TRACE(path);
    const fs::path files = testing::test_data() / path;
    const Tree expected = load_checkpointables(files, {}, alone, *context_).take<Tree>("state");
    JointJob job{JointJob::Options(3)};
    std::vector<End> ends = on_all(job, [&](std::size_t rank) {
      AbstractTree nothing;
      for (const auto& [key, leaf] : expected.as_map()) {
        nothing[key] = placeholder;
      }
      return load_checkpointables(files, {rank == 1 ? Request("state", nothing) : Request("state")}, options_,
                                  job.context(rank));
    });
    EXPECT_EQ(ends[0].text(), "loaded");
    EXPECT_EQ(ends[0].tree, expected);
    EXPECT_EQ(ends[1].text(), "loaded");
    EXPECT_EQ(ends[1].tree, Tree::map());
    EXPECT_EQ(ends[2].text(), "loaded");
    EXPECT_EQ(ends[2].tree, expected);
  }
}

TEST_F(Together, DoNotLookForTheLatest) {
  save_rows();
  LoadLatestOptions options;
  options.load.together = true;
  EXPECT_THAT([&] { static_cast<void>(load_latest(directory_.path(), {}, options, *context_)); },
              Fails(Errc::invalid_argument, HasSubstr("which is the latest")));
}

}  // namespace
}  // namespace cairn
