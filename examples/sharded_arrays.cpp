// SPDX-License-Identifier: Apache-2.0
// Arrays that are saved in parts, loaded in others, and divided among files by a policy.
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cairn/array/stored_slices.hpp>
#include <cairn/cairn.hpp>
#include <cairn/handlers/each_rank.hpp>
#include <cairn/sharding/policy.hpp>
#include <cairn/sharding/shards.hpp>

#include "own_folder.hpp"

namespace {

void save_parts(const std::filesystem::path& path) {
  // [save]
  // Four devices of this process hold two rows each.
  const auto rows = cairn::Sharding::of_spec(cairn::Mesh({4}, {"data"}), {{"data"}});
  std::vector<cairn::Shard> shards;
  for (std::uint32_t device = 0; device < 4; ++device) {
    cairn::Array local = cairn::Array::zeros({2, 6}, cairn::DType::float32);
    local.data<float>()[0] = static_cast<float>(device);
    shards.push_back({rows.boxes(device, {8, 6})[0].box, local});
  }
  const cairn::ShardedArray weights({8, 6}, cairn::DType::float32, std::move(shards),
                                    std::make_shared<const cairn::Sharding>(rows));
  cairn::save(path, cairn::Tree{{"weights", weights}, {"step", 100}});
  // [/save]
}

void load_parts(const std::filesystem::path& path) {
  // [load]
  cairn::AbstractTree wanted = cairn::metadata(path);
  std::cout << "stored in " << wanted["weights"].as_array().stored->size() << " parts\n";  // 4

  // Columns, as rank 1 of 3 holds them: [0:8, 2:4].
  const auto columns = cairn::Sharding::of_spec(cairn::Mesh({3}, {"model"}), {{}, {"model"}});
  wanted["weights"].shard(columns, 1);
  const cairn::Tree loaded = cairn::load(path, wanted);
  for (const cairn::Shard& shard : loaded.at("weights").as<cairn::ShardedArray>().shards()) {
    std::cout << "loaded " << shard.box << "\n";
  }

  // Any boxes, into memory of the program, in its dtype.
  std::vector<double> corner(4);
  cairn::AbstractShardedArray boxes({8, 6}, cairn::DType::float64);
  boxes.place_into(cairn::Box({6, 0}, {2, 2}),
                   cairn::MutableArrayView(corner.data(), {2, 2}, cairn::DType::float64));
  wanted["weights"] = boxes;
  static_cast<void>(cairn::load(path, wanted));
  std::cout << "the last device had " << corner[0] << "\n";  // 3

  // Or all of it, as if it had never been divided.
  const cairn::Tree whole = cairn::load(path);
  std::cout << "whole: " << whole.at("weights").as<cairn::Array>().shape() << "\n";  // [8, 6]
  // [/load]
}

/// What all ranks of a job call, each with what it wants; here there is one.
void load_together(const std::filesystem::path& path) {
  const auto columns = cairn::Sharding::of_spec(cairn::Mesh({3}, {"model"}), {{}, {"model"}});
  cairn::AbstractTree wanted = cairn::metadata(path);
  wanted["weights"].shard(columns, 2);
  const cairn::Context context;  // Of a rank: one with ContextOptions::coordinator.
  // [together]
  cairn::LoadOptions options;
  options.together = true;
  const cairn::Tree mine = cairn::load(path, wanted, options, context);
  // [/together]
  std::cout << "loaded " << mine.at("weights").as<cairn::ShardedArray>().shards().size() << " shards\n";
}

void save_in_files(const std::filesystem::path& path) {
  // [policy]
  // No file has more than 64 bytes of elements.
  cairn::SaveOptions options;
  options.handler_options.set(cairn::ShardingOptions(std::make_shared<cairn::MaxShardSize>(64)));
  const cairn::Array weights = cairn::Array::zeros({8, 6}, cairn::DType::float32);
  cairn::save(path, cairn::Tree{{"weights", weights}}, options);

  std::cout << cairn::metadata(path).policy() << "\n";  // What the policy says of itself.
  // [/policy]
}

void save_own_values(const std::filesystem::path& path) {
  const cairn::RankOfJob place;  // Rank 0 of 1; of a job it is RankOfJob(coordinator).
  // [each_rank]
  std::array<std::uint32_t, 624> random{};  // What an engine has, on every rank another one.
  cairn::Tree state = {{"random", cairn::of_each_rank(random, place)},
                       {"position", cairn::of_each_rank("shard-7, line 20", place)}};
  cairn::save(path, state);

  cairn::load_into(path, state);  // As many ranks: each gets its own.
  const cairn::Tree position = cairn::values_of_ranks(state.at("position"))[0];

  cairn::AbstractTree wanted = cairn::metadata(path);
  wanted["random"] = cairn::of_rank(wanted["random"], 0);  // Any program: that of rank 0,
  const cairn::Tree of_first = cairn::load(path, wanted);
  const std::vector<cairn::Tree> of_all =
      cairn::values_of_ranks(of_first.at("position"));  // or those of all.
  // [/each_rank]
  std::cout << "rank 0 was at " << position.as<std::string>() << ", one of " << of_all.size() << "\n";
}

}  // namespace

int main() try {
  enter_own_folder("sharded_arrays");
  save_parts("run/sharded");
  load_parts("run/sharded");
  load_together("run/sharded");
  save_in_files("run/files");
  save_own_values("run/own");
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
