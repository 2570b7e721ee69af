// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/optimizer.hpp"

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::cut;
using testing::Fails;
using testing::flat;
using ::testing::HasSubstr;
using testing::MemoryCheckpoint;

/// Parameters of 7, 30, 1, 12, 9 and 25 elements in some buckets, behind each other with gaps up to a multiple of
/// `alignment`; each bucket is padded to a multiple of `padding`. Each parameter has elements of its own.
struct Buffered {
  Buffered(std::size_t buckets, std::uint64_t alignment, std::uint64_t padding) {
    const std::uint64_t sizes[] = {7, 30, 1, 12, 9, 25};
    std::uint64_t at = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
      Bucket bucket{at, 0, 0};
      for (std::size_t id = 6 * b / buckets; id < 6 * (b + 1) / buckets; ++id) {
        at = bucket.begin + (at - bucket.begin + alignment - 1) / alignment * alignment;
        buffer.params.push_back({id, at, at + sizes[id], b});
        at += sizes[id];
        const auto first = static_cast<std::int32_t>(100 * id);
        const Shape shape = id == 1 ? Shape{5, 6} : Shape{sizes[id]};
        params[id] = ShardedTensor::from_rank_offsets("p" + std::to_string(id), counted(shape, first),
                                                      {{0, 1, 2}}, {{0, 0, 0}});
      }
      bucket.unpadded_end = at;
      at = bucket.begin + (at - bucket.begin + padding - 1) / padding * padding;
      bucket.end = at;
      buffer.buckets.push_back(bucket);
    }
    elements = Array::zeros({at}, DType::int32);
    for (const BufferedParam& param : buffer.params) {
      for (std::uint64_t i = param.begin; i < param.end; ++i) {
        elements.data<std::int32_t>()[i] = static_cast<std::int32_t>(100 * param.id + i - param.begin);
      }
    }
  }

  [[nodiscard]] BucketStates states(const DataParallel& place) const {
    BucketStates made;
    for (const Bucket& bucket : buffer.buckets) {
      const std::uint64_t size = (bucket.end - bucket.begin) / place.size;
      made.push_back({{"exp_avg", cut(elements, Box({bucket.begin + place.rank * size}, {size}))}});
    }
    return made;
  }

  FlatBuffer buffer{"(torch.bfloat16, torch.float32)", {}, {}};
  ParamMap params;
  Array elements;
};

std::vector<DataParallel> places(std::uint32_t size) {
  std::vector<DataParallel> all;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    all.push_back({rank, size, 3, 0});
  }
  return all;
}

const ShardedTensor& tensor_in(const StateDict& dict, std::string_view path) {
  return *dict.at(path).leaf_if<ShardedTensor>();
}

TEST(FlatModelSpace, GivesEachParameterThePieceThatThisRankHas) {
  const Buffered buffered(1, 1, 84);

  const StateDict dict =
      flat_model_space(buffered.buffer, buffered.states({1, 4}), buffered.params, {1, 4, 0, 2});

  // Of 84 elements rank 1 has [21, 42): parameter 1 from element 14 on, parameter 2, four of parameter 3.
  ASSERT_EQ(dict.map_if()->size(), 3U);
  const ShardedTensor& piece = tensor_in(dict, "1/exp_avg");
  EXPECT_EQ(piece.key, "optimizer.state.exp_avg.p1");
  EXPECT_EQ(piece.flattened_range, (FlatRange{14, 30}));
  EXPECT_EQ(*piece.data, counted({16}, 114));
  EXPECT_EQ(piece.local_shape, (Shape{5, 6}));
  EXPECT_EQ(piece.box(), Box({5, 0}, {5, 6}));
  EXPECT_EQ(piece.replica_id, (ReplicaId{0, 0, 2}));
  EXPECT_EQ(tensor_in(dict, "3/exp_avg").flattened_range, (FlatRange{0, 4}));
}

TEST(FlatModelSpace, CallsTheMainCopyOfParametersAsAsked) {
  const Buffered buffered(1, 1, 84);
  BucketStates states = buffered.states({0, 1});
  states[0]["param"] = states[0].at("exp_avg");

  const StateDict sharded = flat_model_space(buffered.buffer, states, buffered.params, {});
  const StateDict reshardable = flat_model_space(buffered.buffer, states, buffered.params, {}, "param");

  EXPECT_EQ(tensor_in(sharded, "0/fp32_param").key, "optimizer.state.fp32_param.p0");
  EXPECT_EQ(tensor_in(reshardable, "0/param").key, "optimizer.state.param.p0");
}

TEST(FlatModelSpace, LoadsInAnyBucketsAndNumbersOfRanks) {
  const Buffered sources[] = {{1, 1, 84}, {2, 8, 48}, {3, 64, 768}};
  for (const Buffered& source : sources) {
    for (const std::uint32_t ranks : {1U, 2U, 4U}) {
      std::vector<StateDict> saved;
      for (const DataParallel& place : places(ranks)) {
        saved.push_back(flat_model_space(source.buffer, source.states(place), source.params, place));
        for (const auto& [id, param] : source.params) {  // The other rank of tensor parallelism, whole.
          const ShardedTensor& tensor = std::get<ShardedTensor>(param);
          if (place.rank == 0) {
            saved[0]["other"][std::to_string(id)] = ShardedTensor::from_rank_offsets(
                "optimizer.state.exp_avg." + tensor.key, counted(tensor.local_shape, -1000), {{0, 0, 2}});
          }
        }
      }
      const MemoryCheckpoint checkpoint(saved);
      EXPECT_EQ(flat(cut(checkpoint.tensors.at("optimizer.state.exp_avg.p1"), Box({5, 0}, {5, 6}))),
                counted({30}, 100));
      for (const Buffered& target : sources) {
        for (const DataParallel& place : places(3)) {
          BucketStates memory = target.states(place);
          for (auto& bucket : memory) {
            bucket["exp_avg"] = Array::zeros(bucket["exp_avg"].shape(), DType::int32);
          }
          static_cast<void>(checkpoint.load(flat_model_space(target.buffer, memory, target.params, place)));

          const BucketStates right = target.states(place);
          for (std::size_t b = 0; b < memory.size(); ++b) {
            ASSERT_EQ(memory[b]["exp_avg"], right[b].at("exp_avg"));
          }
        }
      }
    }
  }
}

TEST(FlatModelSpace, RefusesWhatDoesNotFit) {
  const Buffered right(2, 8, 48);
  const auto with = [&](auto change, DataParallel place = {0, 2}) {
    Buffered buffered = right;
    BucketStates states = right.states({0, 2});
    change(buffered, states);
    return [=] { return flat_model_space(buffered.buffer, states, buffered.params, place); };
  };

  EXPECT_THAT(with([](auto&, auto& states) { states.pop_back(); }),
              Fails(Errc::invalid_argument, HasSubstr("states of 1 buckets of a buffer of 2")));
  EXPECT_THAT(with([](auto&, auto& states) { states[0]["exp_avg"] = counted({3}); }),
              Fails(Errc::invalid_argument, HasSubstr("state 'exp_avg' of bucket 0 has shape [3]")));
  EXPECT_THAT(with([](auto& b, auto&) { b.params.erase(4); }),
              Fails(Errc::invalid_argument, HasSubstr("parameter 4 in bucket 1")));
  EXPECT_THAT(with([](auto& b, auto&) { b.buffer.params[0].end += 1; }),
              Fails(Errc::invalid_argument,
                    HasSubstr("'optimizer.state.exp_avg.p0': 8 elements of a buffer for a parameter "
                              "of 7")));
  EXPECT_THAT(with([](auto& b, auto&) { b.buffer.params[0].end = 1000; }),
              Fails(Errc::invalid_argument, HasSubstr("parameter 0 at [0, 1000) is not within its bucket")));
  EXPECT_THAT(with([](auto& b, auto&) { b.buffer.params[0].bucket = 7; }), Fails(Errc::invalid_argument));
  EXPECT_THAT(with([](auto& b, auto&) { std::get<ShardedTensor>(b.params[0]).replica_id = 0; }),
              Fails(Errc::invalid_argument, HasSubstr("has the replica (PP, TP, DP), not 1 numbers")));
  EXPECT_THAT(with([](auto&, auto&) {}, {0, 5}),
              Fails(Errc::invalid_argument, HasSubstr("equally among 5 ranks")));
  EXPECT_THAT(with([](auto&, auto&) {}, {2, 2}), Fails(Errc::invalid_argument));
}

TEST(FlatBucketSpace, NamesBucketsAsMegatronDoes) {
  const Buffered buffered(2, 1, 48);
  const std::vector<FlatBuffer> buffers = {buffered.buffer};
  const std::vector<BucketStates> states = {buffered.states({1, 2})};

  const StateDict dict = flat_bucket_space(buffers, states, {1, 2, 5, 3});

  // Buckets of 38 and 46 elements, in 48 each.
  const ShardedTensor& part =
      *dict["0"]["(torch.bfloat16, torch.float32)"][1]["exp_avg"].leaf_if<ShardedTensor>();
  EXPECT_EQ(part.key,
            "optimizer.distributed.dp_group_idx_5.gbuf_idx_0.dtype_(torch.bfloat16, "
            "torch.float32).bucket_idx_1.exp_avg");
  EXPECT_EQ(part.global_shape, (Shape{46}));
  EXPECT_EQ(part.global_offset, (Shape{24}));
  EXPECT_EQ(part.local_shape, (Shape{22}));
  EXPECT_FALSE(part.has_regular_grid());
  EXPECT_FALSE(part.replica_id.is_main()) << "another instance has that";
  const ShardedObject& numel = *dict.at("per_bucket_numel_unpadded").leaf_if<ShardedObject>();
  EXPECT_EQ(numel.unique_key(), "optimizer.distributed.dp_group_idx_5.per_bucket_numel_unpadded/shard_0_1");
  EXPECT_EQ(*numel.data, Tree::list({Tree{{"(torch.bfloat16, torch.float32)", Tree::list({38, 46})}}}));
  EXPECT_EQ(*dict.at("per_bucket_numel").leaf_if<ShardedObject>()->data,
            Tree::list({Tree{{"(torch.bfloat16, torch.float32)", Tree::list({48, 48})}}}));
}

TEST(FlatBucketSpace, LoadsWithOtherPaddingsAndNumbersOfRanks) {
  // Pairs of paddings of Megatron's test, by data-parallel ranks that divide both.
  const std::pair<std::uint64_t, std::uint64_t> paddings[] = {{56, 40}, {128, 128}, {8, 44}};
  for (const auto& [from, to] : paddings) {
    for (const std::uint32_t ranks : {1U, 2U, 4U}) {
      const Buffered source(2, 8, from);
      const Buffered target(2, 8, to);
      std::vector<StateDict> saved;
      for (const DataParallel& place : places(ranks)) {
        const std::vector<BucketStates> states = {source.states(place)};
        saved.push_back(flat_bucket_space(std::vector{source.buffer}, states, place));
      }
      const MemoryCheckpoint checkpoint(saved);
      for (const std::uint32_t others : {1U, 4U}) {
        for (const DataParallel& place : places(others)) {
          std::vector<BucketStates> memory = {target.states(place)};
          for (auto& bucket : memory[0]) {
            bucket["exp_avg"] = Array::zeros(bucket["exp_avg"].shape(), DType::int32);
          }
          const Tree loaded = checkpoint.load(flat_bucket_space(std::vector{target.buffer}, memory, place));

          const BucketStates right = target.states(place);
          for (std::size_t b = 0; b < right.size(); ++b) {
            ASSERT_EQ(memory[0][b]["exp_avg"], right[b].at("exp_avg"));
          }
          EXPECT_EQ(
              loaded["per_bucket_numel_unpadded"],
              Tree::list({Tree{{source.buffer.dtype, Tree::list({source.buffer.buckets[0].unpadded_end,
                                                                 source.buffer.buckets[1].unpadded_end -
                                                                     source.buffer.buckets[1].begin})}}}));
        }
      }
    }
  }
}

TEST(FlatBucketSpace, HasEmptyPartsBehindThePadding) {
  const Buffered buffered(1, 1, 256);
  const std::vector<BucketStates> states = {buffered.states({3, 4})};

  const StateDict dict = flat_bucket_space(std::vector{buffered.buffer}, states, {3, 4});

  const ShardedTensor& part = *dict["0"][buffered.buffer.dtype][0]["exp_avg"].leaf_if<ShardedTensor>();
  EXPECT_EQ(part.local_shape, (Shape{0}));
  EXPECT_NO_THROW(part.validate());
}

TEST(ObjectsOfGroup, AreOneForEachKey) {
  const StateDict objects = objects_of_group({{"step", 3}, {"groups", Tree::list({1})}}, {2, 4, 7, 1});

  const ShardedObject& step = *objects.at("step").leaf_if<ShardedObject>();
  EXPECT_EQ(step.unique_key(), "optimizer.distributed.dp_group_idx_7.step/shard_0_1");
  EXPECT_EQ(*step.data, Tree(3));
  EXPECT_EQ(step.replica_id, (ReplicaId{1, 2}));
  EXPECT_THAT([] { return objects_of_group(Tree(1), {}); }, Fails(Errc::type_mismatch));
}

}  // namespace
}  // namespace cairn::megatron
