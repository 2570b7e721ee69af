// SPDX-License-Identifier: Apache-2.0
#include "sharded/train_step.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "digits/adam.hpp"
#include "sharded/layers.hpp"

namespace sharded {
namespace {

using digits::Parameters;

// Of a batch, whatever the number of ranks: 1, 2, 3, 4, 6 and 12 ranks have equally much to do.
constexpr std::size_t kParts = 12;

std::size_t weight_count(const Parameters& weights) {
  std::size_t count = 0;
  for (const auto layer : digits::kLayers) {
    count += (weights.*layer).size();
  }
  return count;
}

/// Where each of `pieces` nearly equal pieces of `count` things begins, and at last where they end.
std::vector<std::size_t> even_begins(std::size_t count, std::size_t pieces) {
  std::vector<std::size_t> begins;
  for (std::size_t piece = 0; piece <= pieces; ++piece) {
    begins.push_back(count * piece / pieces);
  }
  return begins;
}

void copy_to(std::span<float> flat, const Parameters& parameters) {
  auto next = flat.begin();
  for (const auto layer : digits::kLayers) {
    next = std::copy((parameters.*layer).begin(), (parameters.*layer).end(), next);
  }
}

/// Adds the gradients of all parts, the first part first.
Parameters sum_of(std::span<const float> parts) {
  Parameters sum = digits::zeros();
  auto next = parts.begin();
  while (next != parts.end()) {
    for (const auto layer : digits::kLayers) {
      for (float& value : sum.*layer) {
        value += *next++;
      }
    }
  }
  return sum;
}

/// Returns the sum of the gradients of all images of a batch, the same on every rank.
Parameters gradient_of(const Parameters& weights, const digits::Images& images,
                       std::span<const std::uint32_t> batch, const Job& job) {
  const std::size_t length = weight_count(weights);  // Of one part's gradient.
  const std::vector<std::size_t> image_begins = even_begins(batch.size(), kParts);
  std::vector<std::size_t> begins = even_begins(kParts, job.size());
  std::vector<float> parts(kParts * length);
  for (std::size_t part = begins[job.rank()]; part < begins[job.rank() + 1]; ++part) {
    Parameters gradient = digits::zeros();
    digits::add_gradients(gradient, weights, images,
                          batch.subspan(image_begins[part], image_begins[part + 1] - image_begins[part]));
    copy_to(std::span(parts).subspan(part * length, length), gradient);
  }
  for (std::size_t& begin : begins) {
    begin *= length;
  }
  job.exchange(parts, begins);
  return sum_of(parts);
}

}  // namespace

RankState initial_state(const digits::Settings& settings, std::size_t image_count, const Job& job) {
  RankState state = digits::initial_state(settings, image_count);
  const cairn::Sharding rows = rows_of(job.size());
  for (const Layer& layer : layers()) {
    const std::vector<std::size_t> begins = row_begins(rows, layer.shape);
    const std::size_t own = begins[job.rank() + 1] - begins[job.rank()];
    (state.first_moment.*layer.values).assign(own, 0.0f);
    (state.second_moment.*layer.values).assign(own, 0.0f);
  }
  return state;
}

digits::TrainingState whole_state(const RankState& state, const Job& job) {
  digits::TrainingState whole = state;
  const cairn::Sharding rows = rows_of(job.size());
  for (const auto moment : {&RankState::first_moment, &RankState::second_moment}) {
    whole.*moment = digits::zeros();
    for (const Layer& layer : layers()) {
      const std::vector<std::size_t> begins = row_begins(rows, layer.shape);
      const std::span<float> values = whole.*moment.*layer.values;
      std::ranges::copy(state.*moment.*layer.values, own_part(values, begins, job.rank()).begin());
      job.exchange(values, begins);
    }
  }
  return whole;
}

void train_step(RankState& state, const digits::Images& images, const digits::Settings& settings,
                const Job& job) {
  const auto batch = digits::next_batch(state, images, settings);
  Parameters gradient = gradient_of(state.weights, images, batch, job);
  const float share = 1.0f / static_cast<float>(settings.batch_size);
  const digits::AdamRates rates = digits::adam_rates(settings.learning_rate, state.step + 1);
  const cairn::Sharding rows = rows_of(job.size());
  for (const Layer& layer : layers()) {
    const std::vector<std::size_t> begins = row_begins(rows, layer.shape);
    const std::span<float> weights = state.weights.*layer.values;
    const std::span<float> own = own_part(std::span(gradient.*layer.values), begins, job.rank());
    for (float& value : own) {
      value *= share;
    }
    digits::descend(own_part(weights, begins, job.rank()), state.first_moment.*layer.values,
                    state.second_moment.*layer.values, own, rates);
    job.exchange(weights, begins);
  }
  ++state.step;
}

}  // namespace sharded
