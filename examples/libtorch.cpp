// SPDX-License-Identifier: Apache-2.0
// A training with libtorch: the module and what its optimizer has learnt are saved, and a run that was interrupted
// ends with the same bits as one that was not.
//
// Build: see tests/interop/libtorch; run: libtorch_example FOLDER
#include "cairn/interop/libtorch.hpp"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include <torch/torch.h>

#include "cairn/cairn.hpp"
#include "cairn/interop/libtorch_optimizer.hpp"
#include "cairn/training/checkpointer.hpp"

namespace {

constexpr std::uint64_t kSteps = 60;

torch::nn::Sequential make_model() {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::BatchNorm1d(32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 1));
  return model;
}

/// The data of a step, the same in every run.
torch::Tensor batch_of(std::uint64_t step) {
  torch::manual_seed(1000 + step);
  return torch::randn({64, 8});
}

/// Trains up to a step, from where the last run in this folder was. Returns the model.
torch::nn::Sequential train(const std::filesystem::path& folder, std::uint64_t until) {
  torch::nn::Sequential model = make_model();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  cairn::CheckpointerOptions how;
  how.save = cairn::save_when::every_steps(10);
  how.keep = cairn::keep::latest(2);
  cairn::Checkpointer run(folder, how);

  std::uint64_t first = 0;
  // [resume]
  cairn::Tree weights = cairn::interop::arrays_of(*model);
  if (auto latest =
          run.resume({{"model", cairn::into(weights)}, {"optimizer"}})) {  // Into the module's own memory.
    const auto learnt = latest->loaded.take<cairn::Tree>("optimizer");
    cairn::interop::go_on_from(optimizer, learnt.as<cairn::interop::NamedArrays>());
    first = latest->step;
  }
  // [/resume]
  for (std::uint64_t step = first + 1; step <= until; ++step) {
    const torch::Tensor input = batch_of(step);
    optimizer.zero_grad();
    const torch::Tensor loss = torch::mse_loss(model->forward(input), input.sum(1, true).sin());
    loss.backward();
    optimizer.step();
    // [save]
    run.save(step, {{"model", weights}, {"optimizer", cairn::Tree(cairn::interop::arrays_of(optimizer))}});
    // [/save]
  }
  run.close();
  return model;
}

/// Returns whether two modules hold the same bits.
bool are_same(const torch::nn::Sequential& one, const torch::nn::Sequential& other) {
  return cairn::interop::arrays_of(*one) == cairn::interop::arrays_of(*other);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "run_libtorch";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  torch::set_num_threads(1);
  const torch::nn::Sequential uninterrupted = train(folder / "uninterrupted", kSteps);
  train(folder / "interrupted", 37);  // Its last checkpoint is that of step 30.
  const torch::nn::Sequential resumed = train(folder / "interrupted", kSteps);
  const bool is_same = are_same(uninterrupted, resumed);
  std::cout << "resumed at step 30 of " << kSteps << ": " << (is_same ? "the same bits" : "OTHER BITS")
            << "\n";
  return is_same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
