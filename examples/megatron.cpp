// SPDX-License-Identifier: Apache-2.0
// The state of a small transformer in the terms of Megatron-Core: layers are stacked along an axis of their own,
// experts along a second one, tensors are cut by tensor parallelism, the optimizer's states are flattened and cut by
// data parallelism. Any number of ranks loads what others have saved.
//
//   mpirun -n 8 megatron save 2 2 2 [PATH]    # TP, PP, DP; save_for_torch writes files that torch reads, too
//   mpirun -n 8 megatron load 4 1 2 [PATH]
//   mpirun -n 1 megatron load 1 1 1 [PATH]
//   mpirun -n 4 megatron move 2 1 2 PATH FOLDER    # what Megatron-Core saved in FOLDER becomes a checkpoint
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/coord/coordinator.hpp>
#include <cairn/megatron/dist_checkpointing.hpp>
#include <cairn/mpi/transport.hpp>
#include <mpi.h>

namespace {

namespace megatron = cairn::megatron;
using cairn::Array;
using cairn::Box;
using cairn::DType;
using cairn::Shape;
using megatron::RankOffset;
using megatron::ShardedObject;
using megatron::ShardedTensor;
using megatron::StateDict;

constexpr std::uint64_t kLayers = 4;
constexpr std::uint64_t kExperts = 4;
constexpr std::uint64_t kHidden = 16;
constexpr std::uint64_t kWords = 64;

/// Which part of the job a rank is: tensor parallelism is innermost, then data, then pipeline.
struct Place {
  Place(std::uint32_t rank, std::uint32_t tp_ranks, std::uint32_t pp_ranks, std::uint32_t dp_ranks)
      : tp(rank % tp_ranks),
        dp(rank / tp_ranks % dp_ranks),
        pp(rank / tp_ranks / dp_ranks),
        tp_size(tp_ranks),
        pp_size(pp_ranks),
        dp_size(dp_ranks) {}

  std::uint32_t tp;
  std::uint32_t dp;
  std::uint32_t pp;
  std::uint32_t tp_size;
  std::uint32_t pp_size;
  std::uint32_t dp_size;
};

/// Elements that tell one tensor, and one place in it, from another.
Array filled(const Shape& shape, float seed) {
  Array array(shape, DType::float32);
  float next = seed;
  for (float& element : array.data<float>()) {
    element = next++;
  }
  return array;
}

/// The part of a tensor that is cut in `parts` along an axis.
Array part_of(const Array& whole, std::size_t axis, std::uint64_t number, std::uint64_t parts) {
  Shape offsets(whole.shape().size(), 0);
  Shape extents = whole.shape();
  extents[axis] /= parts;
  offsets[axis] = number * extents[axis];
  return whole.part(Box(std::move(offsets), std::move(extents))).clone();
}

// [layer]
/// One layer. Its number is a prepended axis of the tensors; so is that of the expert.
StateDict layer_of(std::uint64_t layer, const Place& here) {
  const float seed = static_cast<float>(layer) * 1000;
  const RankOffset in_stack{0, layer, kLayers};
  const Array qkv = part_of(filled({3 * kHidden, kHidden}, seed), 0, here.tp, here.tp_size);
  const std::vector<Array> halves = {
      part_of(filled({4 * kHidden, kHidden}, seed + 1), 0, here.tp, here.tp_size),
      part_of(filled({4 * kHidden, kHidden}, seed + 2), 0, here.tp, here.tp_size)};
  StateDict layer_state = {
      {"qkv", ShardedTensor::from_rank_offsets("layers.qkv", qkv, {in_stack, {1, here.tp, here.tp_size}},
                                               {here.dp, 1})},
      {"fc1", megatron::swiglu_factory("layers.fc1", megatron::concatenate(halves), 1,
                                       {in_stack, {1, here.tp, here.tp_size}}, {here.dp, 1})}};
  StateDict::List experts;
  for (std::uint64_t expert = here.dp; expert < kExperts; expert += here.dp_size) {
    const Array weights = filled({kHidden, kHidden}, seed + static_cast<float>(expert));
    experts.emplace_back(ShardedTensor::from_rank_offsets("layers.experts", weights,
                                                          {in_stack, {1, expert, kExperts}}, {here.tp, 2}));
  }
  layer_state["experts"] = StateDict::list(std::move(experts));
  return layer_state;
}
// [/layer]

// [state]
/// A rank holds this.
StateDict state_of(const Place& here) {
  StateDict state = {{"iteration", 1200}, {"args", {{"lr", 3e-4}, {"hidden", kHidden}}}};
  const std::uint64_t layers = kLayers / here.pp_size;
  StateDict::List stack;
  for (std::uint64_t i = 0; i < layers; ++i) {
    stack.push_back(layer_of(here.pp * layers + i, here));
  }
  state["model"]["layers"] = StateDict::list(std::move(stack));
  const Array words = part_of(filled({kWords, kHidden}, 0), 0, here.tp, here.tp_size);
  const bool is_last = here.pp + 1 == here.pp_size;
  if (here.pp == 0 || is_last) {  // The head is the embedding.
    const megatron::ReplicaId copy = {here.pp == 0 ? 0U : 1U, 0U, here.dp};
    state["model"]["embedding"] =
        ShardedTensor::from_rank_offsets("embedding", words, {{0, here.tp, here.tp_size}}, copy);
  }
  if (here.pp == 0) {  // The optimizer keeps it flat, and each rank of data parallelism a piece of it.
    const std::uint64_t each = words.element_count() / here.dp_size;
    const megatron::FlatRange range{here.dp * each, (here.dp + 1) * each};
    const Array flat = words.reshaped({words.element_count()});
    state["optimizer"]["exp_avg"] = ShardedTensor::from_rank_offsets_flat(
        "optimizer.state.exp_avg.embedding", part_of(flat, 0, here.dp, here.dp_size), words.shape(),
        {{0, here.tp, here.tp_size}}, range);
  }
  return state;
}

/// The random states of a rank, which are saved whole.
ShardedObject random_states(const Place& here) {
  return {"rng_state",
          cairn::Tree{{"seed", 10 * here.pp + here.tp}},
          {here.pp_size, here.tp_size},
          {here.pp, here.tp},
          here.dp};
}
// [/state]

/// The same without elements, so that a load makes memory for them. Factories need some to fill.
StateDict request_of(const Place& here) {
  return megatron::map(state_of(here), [](const StateDict& leaf) -> StateDict {
    if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
      return tensor->without_data();
    }
    if (const auto* factory = leaf.leaf_if<megatron::ShardedTensorFactory>()) {
      megatron::ShardedTensorFactory empty = *factory;
      empty.data = Array::zeros(factory->data->shape(), DType::float32);
      return empty;
    }
    return leaf;
  });
}

/// What a load must give: the elements of a state where its tensors are.
cairn::Tree expected_of(const Place& here) {
  return megatron::map(state_of(here),
                       [](const StateDict& leaf) -> StateDict {
                         if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
                           return *tensor->data;
                         }
                         if (const auto* factory = leaf.leaf_if<megatron::ShardedTensorFactory>()) {
                           return *factory->data;
                         }
                         return leaf;
                       })
      .tree();
}

void run(const std::string& what, const Place& here, const std::filesystem::path& path,
         const cairn::Context& context, bool is_first) {
  // [calls]
  if (what == "save" || what == "save_for_torch") {
    StateDict state = state_of(here);
    state["rng"] = random_states(here);
    megatron::StateDictSaveOptions options;
    options.strategy = std::make_shared<megatron::FullyParallelSave>();
    options.content_metadata = {{"distrib_optim_sharding_type", "fully_sharded_model_space"}};
    options.rules.for_torch = what == "save_for_torch";  // One box of a tensor in each file.
    options.save.overwrite = true;
    const cairn::SaveResult saved = megatron::save(state, path, options, context);
    if (is_first) {
      std::cout << "saved " << saved.bytes << " bytes on this rank\n";
    }
    return;
  }
  StateDict request = request_of(here);
  const ShardedObject random = random_states(here);
  const StateDict stored = megatron::load_sharded_metadata(path, context);
  if (stored.map_if()->contains(
          random.unique_key())) {  // Else they are those of another grid: the job seeds anew.
    request["rng"] = random;
  }
  const megatron::LoadedStateDict loaded = megatron::load(request, path, {}, context);
  // [/calls]
  cairn::Tree state = loaded.state;
  state.as_map().erase("content_metadata");
  state.as_map().erase("rng");
  if (state != expected_of(here)) {
    throw cairn::Error(cairn::Errc::checksum_mismatch, "what was loaded is not what was saved");
  }
  if (is_first) {
    const megatron::StateDict tensors = megatron::load_tensors_metadata(path, context);
    std::cout << "loaded; tensors in all: " << tensors.map_if()->size() << '\n';
  }
}

// [move]
/// Returns what a rank takes of a checkpoint, however it was saved: rows of each tensor, and some leaves without rows.
StateDict share_of(const StateDict& stored, std::uint64_t rank, std::uint64_t ranks) {
  StateDict share;
  std::uint64_t number = 0;
  for (const auto& [key, leaf] : *stored.map_if()) {
    const bool is_mine = number++ % ranks == rank;
    const auto* tensor = leaf.leaf_if<ShardedTensor>();
    if (tensor != nullptr && !tensor->global_shape.empty()) {
      ShardedTensor part = *tensor;
      const std::uint64_t rows = part.global_shape[0];
      part.axis_fragmentations.reset();  // They need not be equally many.
      part.global_offset[0] = rows * rank / ranks;
      part.local_shape[0] = rows * (rank + 1) / ranks - part.global_offset[0];
      share[key] = std::move(part);
    } else if (is_mine) {
      share[key] = leaf;
    }
  }
  return share;
}

/// A leaf of a request with what was loaded for it.
StateDict with_value(const StateDict& leaf, const cairn::Tree& value) {
  if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
    ShardedTensor filled = *tensor;
    filled.data = value.as<Array>();
    return filled;
  }
  ShardedObject object = *leaf.leaf_if<ShardedObject>();
  object.data = value;
  return object;
}

/// Loads what Megatron-Core saved, and saves it. Both folders load through one state dict.
void move(const std::filesystem::path& folder, const std::filesystem::path& path, std::uint64_t rank,
          std::uint64_t ranks, const cairn::Context& context) {
  const StateDict request = share_of(megatron::load_sharded_metadata(folder, context), rank, ranks);
  const megatron::LoadedStateDict loaded = megatron::load(request, folder, {}, context);
  for (const std::string& problem : loaded.result.problems) {
    std::cerr << folder.string() << ": " << problem
              << '\n';  // Such as parts of objects that have no place in a tree.
  }
  StateDict moved = loaded.state;  // With common state.
  for (const auto& [key, leaf] : *request.map_if()) {
    moved[key] = with_value(leaf, loaded.state.as_map().at(key));
  }
  megatron::StateDictSaveOptions options;
  options.save.overwrite = true;
  megatron::save(moved, path, options, context);
  if (megatron::load(request, path, {}, context).state != loaded.state) {
    throw cairn::Error(cairn::Errc::checksum_mismatch, "what was moved is not what there was");
  }
}
// [/move]

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int status = 0;
  try {
    const auto job = std::make_shared<cairn::coord::Coordinator>(cairn::mpi_transport());
    cairn::ContextOptions options;
    options.coordinator = job;
    const cairn::Context context(options);
    const auto number = [&](int i) { return static_cast<std::uint32_t>(std::stoul(argv[i])); };
    if (argc < 5 || number(2) * number(3) * number(4) != job->size()) {
      std::cerr << "megatron save|load TP PP DP [PATH], or megatron move TP PP DP PATH FOLDER; with as many "
                   "ranks as "
                   "their product\n";
      status = 2;
    } else if (argc > 6) {
      move(argv[6], argv[5], job->rank(), job->size(), context);
      if (job->rank() == 0) {
        std::cout << "moved " << argv[6] << '\n';
      }
    } else {
      const Place here(static_cast<std::uint32_t>(job->rank()), number(2), number(3), number(4));
      run(argv[1], here, argc > 5 ? argv[5] : "example_megatron", context, job->rank() == 0);
    }
  } catch (const std::exception& error) {
    std::cerr << "megatron: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
