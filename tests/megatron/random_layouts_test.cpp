// SPDX-License-Identifier: Apache-2.0
// Random tensors in random layouts: what was saved in one loads in another, as `global[box].flatten()[range]` says.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/factory.hpp"
#include "cairn/megatron/sharded_tensor.hpp"

#include "megatron/states_of_ranks.hpp"
#include "support/dice.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::cut;
using testing::Dice;
using testing::flat;
using testing::MemoryCheckpoint;

/// Numbers 0 = first < … = last <= end, at random: the ends of parts, some of which are empty.
std::vector<std::uint64_t> random_cuts(Dice& dice, std::uint64_t end, std::size_t parts) {
  std::vector<std::uint64_t> cuts = {0, end};
  for (std::size_t i = 1; i < parts; ++i) {
    cuts.push_back(dice.below(end + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// A global tensor: its first axes are prepended ones.
struct Global {
  std::string key;
  std::size_t prepended = 0;
  Array elements;
};

Global random_global(Dice& dice, std::string key) {
  const std::array<std::uint64_t, 6> extents = {1, 2, 3, 4, 6, 12};
  Global global{std::move(key), dice.below(3), {}};
  Shape shape(global.prepended + dice.below(4), 1);
  std::uint64_t elements = 1;
  for (std::uint64_t& extent : shape) {
    extent = dice.pick(extents);
    extent = elements * extent > 600 ? 1 : extent;
    elements *= extent;
  }
  global.elements = counted(shape, static_cast<std::int32_t>(dice.below(1000)));
  return global;
}

/// A part of a global tensor that one rank is to have; the data are those of the global one.
ShardedTensor part_of(const Global& global, const Box& box, bool is_regular,
                      const std::vector<RankOffset>& offsets, const ShardedTensorOptions& options,
                      const FlatRange* range) {
  Shape local(box.rank() - global.prepended, 1);
  std::copy(box.extents().begin() + global.prepended, box.extents().end(), local.begin());
  const Array data = cut(global.elements, box);
  if (range) {
    const Array piece = cut(flat(data), Box({range->begin}, {range->size()}));
    ShardedTensor tensor =
        ShardedTensor::from_rank_offsets_flat(global.key, piece, local, offsets, *range, options);
    return tensor;
  }
  if (is_regular) {
    return ShardedTensor::from_rank_offsets(global.key, data.reshaped(local), offsets, options);
  }
  return {global.key,    data.reshaped(local), data.dtype(),       local,           global.elements.shape(),
          box.offsets(), std::nullopt,         options.replica_id, global.prepended};
}

/// Divides a global tensor among holders: a regular grid whose cells are whole or flattened, with copies of any replica
/// numbers, or uneven parts along one axis. Each holder has tensors with non-overlapping boxes.
class Division {
 public:
  Division(Dice& dice, const Global& global) {
    const Shape& shape = global.elements.shape();
    if (shape.size() > global.prepended && dice.one_in(4)) {
      divide_unevenly(dice, global);
      return;
    }
    Shape parts(shape.size(), 1);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::array<std::uint64_t, 5> wanted = {1, 2, 3, 4, 6};
      const std::uint64_t count = dice.pick(wanted);
      parts[axis] = axis < global.prepended ? shape[axis] : (shape[axis] % count == 0 ? count : 1);
    }
    const std::size_t data_parallel = 1 + dice.below(3);
    const bool is_flat = dice.one_in(2);
    for (Shape cell(shape.size(), 0);;) {
      add_cell(dice, global, parts, cell, data_parallel, is_flat);
      std::size_t axis = shape.size();
      while (axis-- > 0 && ++cell[axis] == parts[axis]) {
        cell[axis] = 0;
      }
      if (axis == SIZE_MAX) {
        break;
      }
    }
  }

  std::vector<ShardedTensor> mains;
  std::vector<ShardedTensor> copies;  ///< Cut otherwise, or as the main ones.

 private:
  void divide_unevenly(Dice& dice, const Global& global) {
    const Shape& shape = global.elements.shape();
    const std::size_t axis = global.prepended + dice.below(shape.size() - global.prepended);
    const auto cuts = random_cuts(dice, shape[axis], 1 + dice.below(5));
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      for (Shape offsets(shape.size(), 0);;) {  // Each element of the prepended axes.
        Shape extents = shape;
        std::fill(extents.begin(), extents.begin() + global.prepended, 1);
        offsets[axis] = cuts[i];
        extents[axis] = cuts[i + 1] - cuts[i];
        mains.push_back(part_of(global, Box(offsets, extents), false, {}, {}, nullptr));
        std::size_t prepended = global.prepended;
        while (prepended-- > 0 && ++offsets[prepended] == shape[prepended]) {
          offsets[prepended] = 0;
        }
        if (prepended == SIZE_MAX) {
          break;
        }
      }
    }
  }

  void add_cell(Dice& dice, const Global& global, const Shape& parts, const Shape& cell,
                std::size_t data_parallel, bool is_flat) {
    std::vector<RankOffset> offsets;
    Shape begin = cell;
    Shape extents = global.elements.shape();
    for (std::size_t axis = 0; axis < parts.size(); ++axis) {
      extents[axis] /= parts[axis];
      begin[axis] *= extents[axis];
      offsets.push_back({axis, cell[axis], parts[axis]});
    }
    const Box box(begin, extents);
    const ShardedTensorOptions main({0, 0}, global.prepended);
    const auto number = [&] { return static_cast<std::uint32_t>(1 + dice.below(3)); };
    const std::uint64_t elements = *element_count(extents);
    const auto add_flat = [&](std::vector<ShardedTensor>& to, const ShardedTensorOptions& options) {
      const auto cuts = random_cuts(dice, elements, data_parallel);
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const FlatRange range{cuts[i], cuts[i + 1]};
        to.push_back(part_of(global, box, true, offsets, options, &range));
      }
    };
    if (is_flat) {
      add_flat(mains, main);
      if (dice.one_in(3)) {
        add_flat(copies, ShardedTensorOptions({number(), 0}, global.prepended));
      }
      return;
    }
    mains.push_back(part_of(global, box, true, offsets, main, nullptr));
    for (std::size_t copy = 1; copy < data_parallel; ++copy) {
      copies.push_back(part_of(global, box, true, offsets,
                               ShardedTensorOptions({0, number()}, global.prepended), nullptr));
    }
  }
};

/// Adds each tensor to the list of some rank: main ones to the lower ranks, copies to those behind, so that boxes of a
/// rank that overlap are equal.
void deal(Dice& dice, std::vector<StateDict>& ranks, const Division& division) {
  const auto add = [](StateDict& dict, const ShardedTensor& tensor) {
    if (!dict.contains("tensors")) {
      dict["tensors"] = StateDict::list();
    }
    dict["tensors"].list_if()->push_back(tensor);
  };
  const std::size_t lower = (ranks.size() + 1) / 2;
  for (const ShardedTensor& tensor : division.mains) {
    add(ranks[dice.below(lower)], tensor);
  }
  for (const ShardedTensor& tensor : division.copies) {
    if (lower < ranks.size() && tensor.flattened_range) {
      StateDict& dict = ranks[lower];  // Flat copies of one cut do not overlap.
      add(dict, tensor);
    } else if (!tensor.flattened_range) {
      add(ranks[dice.below(ranks.size())], tensor);
    }
  }
}

std::vector<StateDict> random_states(Dice& dice, const std::vector<Global>& globals) {
  std::vector<StateDict> ranks(1 + dice.below(9));
  for (const Global& global : globals) {
    deal(dice, ranks, Division(dice, global));
  }
  return ranks;
}

/// The same dict with other elements: what was there must be loaded.
StateDict emptied(const StateDict& dict) {
  return map(dict, [](const StateDict& leaf) -> StateDict {
    ShardedTensor tensor = *leaf.leaf_if<ShardedTensor>();
    tensor.data = Array::zeros(tensor.data->shape(), tensor.dtype);
    return tensor;
  });
}

TEST(RandomLayouts, LoadWhatAnyOtherHasSaved) {
  std::size_t loaded_tensors = 0;
  std::size_t flat_ones = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    std::vector<Global> globals;
    for (std::size_t i = 0; i < 1 + seed % 3; ++i) {
      globals.push_back(random_global(dice, "key" + std::to_string(i)));
    }

    const MemoryCheckpoint checkpoint(random_states(dice, globals));

    for (const Global& global : globals) {
      ASSERT_EQ(checkpoint.tensors.at(global.key), global.elements) << "seed " << seed;
    }
    for (const StateDict& right : random_states(dice, globals)) {
      const Tree loaded = checkpoint.load(emptied(right));
      if (!right.contains("tensors")) {
        continue;
      }
      std::size_t position = 0;
      for (const StateDict& leaf : *right["tensors"].list_if()) {
        const auto& tensor = *leaf.leaf_if<ShardedTensor>();
        if (tensor.flattened_range && tensor.flattened_range->size() == 0) {
          continue;  // Left out.
        }
        flat_ones += tensor.flattened_range ? 1 : 0;
        ++loaded_tensors;
        ASSERT_EQ(loaded["tensors"][position++].as<Array>(), *tensor.data) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(loaded_tensors, 3000U);
  EXPECT_GT(flat_ones, 1000U);
}

class RandomLayoutsOfRanks : public testing::StatesOfRanks {};

TEST_F(RandomLayoutsOfRanks, LoadWhatAnyOtherHasSaved) {
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    std::vector<Global> globals;
    for (std::size_t i = 0; i < 1 + seed % 3; ++i) {
      globals.push_back(random_global(dice, "key" + std::to_string(i)));
    }
    const std::vector<StateDict> left = random_states(dice, globals);
    const std::vector<StateDict> right = random_states(dice, globals);

    expect_saved([&left](std::uint32_t rank) { return left[rank]; }, left.size());
    const std::vector<LoadEnd> ends =
        load_on([&right](std::uint32_t rank) { return emptied(right[rank]); }, right.size());

    const auto stored = load_plain_tensors(target(), *context_);
    for (const Global& global : globals) {
      ASSERT_EQ(stored.at(global.key), global.elements);
    }
    for (std::size_t rank = 0; rank < right.size(); ++rank) {
      ASSERT_EQ(ends[rank].text, "");
      std::size_t position = 0;
      const StateDict* tensors = right[rank].find("tensors");
      for (std::size_t i = 0; tensors != nullptr && i < tensors->list_if()->size(); ++i) {
        const auto& tensor = *(*tensors)[i].leaf_if<ShardedTensor>();
        if (!tensor.flattened_range || tensor.flattened_range->size() > 0) {
          ASSERT_EQ(ends[rank].loaded.state.at("tensors")[position++].as<Array>(), *tensor.data);
        }
      }
    }
  }
}

TEST(RandomLayouts, LoadGatedUnitsThroughTheirFactories) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Dice dice(seed);
    const bool has_layers = dice.one_in(2);
    const bool is_of_two_keys = dice.one_in(2);
    const Array whole = counted({2, 24, 3});  // Layers; gate above up, 12 rows each; input.
    const auto dicts = [&](std::uint64_t tp, std::uint64_t dp, bool is_flat, std::int32_t sign) {
      std::vector<StateDict> ranks;
      const std::uint64_t rows = 12 / tp;
      for (std::uint64_t rank = 0; rank < tp * dp; ++rank) {
        StateDict& dict = ranks.emplace_back();
        for (std::uint64_t layer = 0; layer < 2; ++layer) {
          const std::uint64_t first = rank % tp * rows;
          const std::vector<Array> halves = {cut(whole, Box({layer, first, 0}, {1, rows, 3})),
                                             cut(whole, Box({layer, 12 + first, 0}, {1, rows, 3}))};
          Array local = concatenate(halves, 1).reshaped({2 * rows, 3});
          for (std::int32_t& element : local.data<std::int32_t>()) {
            element *= sign;
          }
          std::vector<RankOffset> offsets = {{has_layers ? 1U : 0U, rank % tp, tp}};
          if (has_layers) {
            offsets.push_back({0, layer, 2});
          }
          const std::string key = has_layers ? "fc1" : "fc1." + std::to_string(layer);
          ShardedTensorFactory factory = swiglu_factory(key, local, has_layers ? 1 : 0, offsets,
                                                        {ReplicaId(), has_layers ? 1U : 0U}, is_of_two_keys);
          if (is_flat) {
            const std::uint64_t elements = local.element_count();
            const std::uint64_t dp_rank = rank / tp;
            const FlatRange range{elements * dp_rank / dp, elements * (dp_rank + 1) / dp};
            factory.flattened_range = range;
            factory.data = cut(flat(local), Box({range.begin}, {range.size()}));
          } else {
            factory.replica_id = {static_cast<std::uint32_t>(rank / tp), 0};
          }
          dict["layers"][std::to_string(layer)]["fc1"] = factory;
        }
      }
      return ranks;
    };
    const std::array<std::uint64_t, 4> tensor_parallel = {1, 2, 3, 6};

    const MemoryCheckpoint checkpoint(
        dicts(dice.pick(tensor_parallel), 1 + dice.below(4), dice.one_in(2), 1));
    const std::uint64_t tp = dice.pick(tensor_parallel);
    const std::uint64_t dp = 1 + dice.below(4);
    const bool is_flat = dice.one_in(2);
    const std::vector<StateDict> right = dicts(tp, dp, is_flat, 1);
    const std::vector<StateDict> requested = dicts(tp, dp, is_flat, -1);

    if (has_layers && !is_of_two_keys) {
      ASSERT_EQ(checkpoint.tensors.at("fc1"), whole);
    }
    for (std::size_t rank = 0; rank < right.size(); ++rank) {
      const Tree loaded = checkpoint.load(requested[rank]);
      for (const char* path : {"layers/0/fc1", "layers/1/fc1"}) {
        ASSERT_EQ(loaded.get<Array>(path), *right[rank].at(path).leaf_if<ShardedTensorFactory>()->data)
            << "seed " << seed << " rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace cairn::megatron
