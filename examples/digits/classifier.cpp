// SPDX-License-Identifier: Apache-2.0
#include "digits/classifier.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

#include "digits/adam.hpp"

namespace digits {
namespace {

struct Activations {
  std::array<float, kHidden> hidden;  // After the rectifier.
  std::array<float, kClasses> probabilities;
};

/// Fills with numbers whose variance keeps the size of what flows through a rectified layer.
void randomise(std::vector<float>& weights, std::size_t inputs, RandomState& random) {
  const float limit = std::sqrt(6.0f / static_cast<float>(inputs));
  for (float& weight : weights) {
    weight = limit * (2.0f * next_uniform(random) - 1.0f);
  }
}

bool fits(const Parameters& parameters) {
  return parameters.w1.size() == kPixels * kHidden && parameters.b1.size() == kHidden &&
         parameters.w2.size() == kHidden * kClasses && parameters.b2.size() == kClasses;
}

void require_fit(const TrainingState& state) {
  if (!fits(state.weights) || !fits(state.first_moment) || !fits(state.second_moment)) {
    throw std::invalid_argument("the state belongs to another network");
  }
}

void require_images(const TrainingState& state, const Images& images, const Settings& settings) {
  if (state.order.size() != images.size() || state.position_in_epoch > images.size()) {
    throw std::invalid_argument("the state was trained on " + std::to_string(state.order.size()) +
                                " images, not " + std::to_string(images.size()));
  }
  if (settings.batch_size == 0 || settings.batch_size > images.size()) {
    throw std::invalid_argument("no batch of " + std::to_string(settings.batch_size) + " in " +
                                std::to_string(images.size()) + " images");
  }
}

void softmax(std::span<float, kClasses> values) {
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0.0f;
  for (float& value : values) {
    value = std::exp(value - largest);  // At most 1, so it cannot overflow.
    sum += value;
  }
  for (float& value : values) {
    value /= sum;
  }
}

Activations run_forward(const Parameters& weights, std::span<const float, kPixels> image) {
  Activations out;
  std::copy(weights.b1.begin(), weights.b1.end(), out.hidden.begin());
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    const float* row = &weights.w1[pixel * kHidden];
    for (std::size_t unit = 0; unit < kHidden; ++unit) {
      out.hidden[unit] += image[pixel] * row[unit];
    }
  }
  std::copy(weights.b2.begin(), weights.b2.end(), out.probabilities.begin());
  for (std::size_t unit = 0; unit < kHidden; ++unit) {
    out.hidden[unit] = std::max(out.hidden[unit], 0.0f);
    const float* row = &weights.w2[unit * kClasses];
    for (std::size_t digit = 0; digit < kClasses; ++digit) {
      out.probabilities[digit] += out.hidden[unit] * row[digit];
    }
  }
  softmax(out.probabilities);
  return out;
}

/// Adds the gradient of one image's loss.
void add_gradient(Parameters& gradient, const Parameters& weights, std::span<const float, kPixels> image,
                  std::uint8_t label, const Activations& forward) {
  std::array<float, kClasses> output_slope = forward.probabilities;  // Of softmax and cross-entropy together.
  output_slope[label] -= 1.0f;
  std::array<float, kHidden> hidden_slope{};
  for (std::size_t unit = 0; unit < kHidden; ++unit) {
    for (std::size_t digit = 0; digit < kClasses; ++digit) {
      gradient.w2[unit * kClasses + digit] += forward.hidden[unit] * output_slope[digit];
      hidden_slope[unit] += weights.w2[unit * kClasses + digit] * output_slope[digit];
    }
    if (forward.hidden[unit] <= 0.0f) {
      hidden_slope[unit] = 0.0f;
    }
    gradient.b1[unit] += hidden_slope[unit];
  }
  for (std::size_t digit = 0; digit < kClasses; ++digit) {
    gradient.b2[digit] += output_slope[digit];
  }
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    float* row = &gradient.w1[pixel * kHidden];
    for (std::size_t unit = 0; unit < kHidden; ++unit) {
      row[unit] += image[pixel] * hidden_slope[unit];
    }
  }
}

void apply(TrainingState& state, Parameters& gradient, const Settings& settings) {
  const float share = 1.0f / static_cast<float>(settings.batch_size);
  const AdamRates rates = adam_rates(settings.learning_rate, state.step + 1);
  for (const auto layer : kLayers) {
    for (float& value : gradient.*layer) {
      value *= share;
    }
    descend(state.weights.*layer, state.first_moment.*layer, state.second_moment.*layer, gradient.*layer,
            rates);
  }
}

}  // namespace

Parameters zeros() {
  return {std::vector<float>(kPixels * kHidden), std::vector<float>(kHidden),
          std::vector<float>(kHidden * kClasses), std::vector<float>(kClasses)};
}

TrainingState initial_state(const Settings& settings, std::size_t image_count) {
  TrainingState state;
  state.random = seeded(settings.seed);
  state.weights = zeros();
  state.first_moment = zeros();
  state.second_moment = zeros();
  randomise(state.weights.w1, kPixels, state.random);
  randomise(state.weights.w2, kHidden, state.random);
  state.order = shuffled(image_count, state.random);
  return state;
}

std::span<const std::uint32_t> next_batch(TrainingState& state, const Images& images,
                                          const Settings& settings) {
  require_images(state, images, settings);
  if (images.size() - state.position_in_epoch < settings.batch_size) {
    state.order = shuffled(images.size(), state.random);
    state.position_in_epoch = 0;
  }
  const auto batch = std::span(state.order).subspan(state.position_in_epoch, settings.batch_size);
  state.position_in_epoch += settings.batch_size;
  return batch;
}

float add_gradients(Parameters& gradient, const Parameters& weights, const Images& images,
                    std::span<const std::uint32_t> batch) {
  float loss = 0.0f;
  for (const std::uint32_t index : batch) {
    const std::uint8_t label = images.labels.at(index);
    const Activations forward = run_forward(weights, images.image(index));
    loss -= std::log(std::max(forward.probabilities[label],
                              1e-30f));  // The logarithm of 0 would spoil the mean.
    add_gradient(gradient, weights, images.image(index), label, forward);
  }
  return loss;
}

float train_step(TrainingState& state, const Images& images, const Settings& settings) {
  require_fit(state);
  const auto batch = next_batch(state, images, settings);
  Parameters gradient = zeros();
  const float loss = add_gradients(gradient, state.weights, images, batch);
  apply(state, gradient, settings);
  ++state.step;
  return loss / static_cast<float>(settings.batch_size);
}

double accuracy(const TrainingState& state, const Images& images) {
  std::size_t right = 0;
  for (std::size_t index = 0; index < images.size(); ++index) {
    const Activations forward = run_forward(state.weights, images.image(index));
    const auto best = std::max_element(forward.probabilities.begin(), forward.probabilities.end());
    right += best - forward.probabilities.begin() == images.labels[index] ? 1u : 0u;
  }
  return static_cast<double>(right) / static_cast<double>(images.size());
}

}  // namespace digits
