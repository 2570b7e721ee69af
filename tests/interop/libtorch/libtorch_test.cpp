// SPDX-License-Identifier: Apache-2.0
#include "cairn/interop/libtorch.hpp"

#include <complex>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/cairn.hpp"
#include "cairn/interop/eigen.hpp"
#include "cairn/interop/libtorch_optimizer.hpp"
#include "cairn/testing/conformance_support.hpp"

namespace cairn::interop {
namespace {

std::string refusal(const std::function<void()>& act, Errc code) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TensorAsArray, SharesMemoryAndKeepsItAlive) {
  torch::Tensor tensor = torch::arange(6, torch::kFloat).reshape({2, 3});
  const float* memory = tensor.data_ptr<float>();

  const Array array = array_of(std::exchange(tensor, {}));

  EXPECT_EQ(reinterpret_cast<const float*>(array.view().data()), memory);
  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_EQ(array.data<const float>()[5], 5.0F);
}

TEST(TensorAsArray, HasTheStridesOfTheTensor) {
  const torch::Tensor tensor = torch::arange(24, torch::kInt).reshape({4, 6});
  for (const torch::Tensor& each :
       {tensor.t(), tensor.slice(1, 1, 6, 2), tensor.select(0, 2), tensor.expand({3, 4, 6})}) {
    const Array copy = Array::copy_of(view_of(each));
    EXPECT_TRUE(torch::equal(tensor_of(copy), each));
  }
}

TEST(TensorAsArray, HasEveryTypeThatBothKnow) {
  for (const detail::TorchType& type : detail::kTorchTypes) {
    const torch::Tensor tensor = torch::ones({3}, torch::kFloat).to(type.scalar);
    const Array array = array_of(tensor);
    EXPECT_EQ(array.dtype(), type.dtype);
    const torch::Tensor back = copy_as_tensor(array.view());
    EXPECT_EQ(back.scalar_type(), type.scalar);
    EXPECT_TRUE(torch::equal(back.view(torch::kByte), tensor.view(torch::kByte))) << name(type.dtype);
  }
  EXPECT_EQ(scalar_type_of(DType::float32), torch::kFloat);
  expect_says(refusal([] { static_cast<void>(scalar_type_of(DType::float4)); }, Errc::dtype_mismatch), "F4");
}

TEST(TensorAsArray, MayBeEmptyOrAScalar) {
  EXPECT_EQ(array_of(torch::tensor(2.5, torch::kDouble)).data<const double>()[0], 2.5);
  EXPECT_EQ(array_of(torch::zeros({0, 4})).shape(), (Shape{0, 4}));
}

TEST(TensorAsArray, IsRefusedWhereItIsNotInMemoryAsItIs) {
  const auto view = [](const torch::Tensor& tensor) {
    return [tensor] { static_cast<void>(view_of(tensor)); };
  };
  expect_says(refusal(view({}), Errc::invalid_argument), "undefined");
  expect_says(refusal(view(torch::zeros({2, 2}).to_sparse()), Errc::invalid_argument), "Sparse");
  expect_says(refusal(view(torch::zeros({2}, torch::kComplexHalf)), Errc::dtype_mismatch), "ComplexHalf");
  expect_says(refusal(view(torch::ones({2}, torch::kComplexFloat).conj()), Errc::invalid_argument),
              "resolve_conj");
  expect_says(
      refusal(view(torch::zeros({2}, torch::TensorOptions().device(torch::kMeta))), Errc::invalid_argument),
      "meta");
  expect_says(refusal(view(torch::quantize_per_tensor(torch::ones({2}), 0.1, 10, torch::kQInt8)),
                      Errc::dtype_mismatch),
              "QInt8");
}

TEST(ArrayAsTensor, SharesMemoryAndKeepsItAlive) {
  torch::Tensor tensor;
  const std::byte* memory = nullptr;
  {
    const Array array = Array::zeros({3, 2}, DType::int64);
    memory = array.view().data();
    tensor = tensor_of(array);
  }
  tensor[2][1] = 9;
  EXPECT_EQ(tensor.data_ptr(), memory);
  EXPECT_EQ(tensor.sum().item<std::int64_t>(), 9);
}

TEST(ArrayAsTensor, HasTheStridesOfTheArray) {
  const Array array = array_of(torch::arange(6, torch::kShort).reshape({2, 3}));
  const torch::Tensor transposed = tensor_of(Array::borrow(array.mutable_view().transposed()));
  EXPECT_EQ(transposed.size(0), 3);
  EXPECT_EQ(transposed[2][1].item<std::int16_t>(), 5);
}

TEST(ArrayAsTensor, IsRefusedWhereATensorCannotBeSo) {
  const float elements[2] = {1, 2};
  expect_says(
      refusal([&] { static_cast<void>(tensor_of(Array::borrow(ArrayView(elements, {2}, DType::float32)))); },
              Errc::invalid_argument),
      "read-only");
  EXPECT_EQ(copy_as_tensor(ArrayView(elements, {2}, DType::float32))[1].item<float>(), 2.0F);
}

struct Net : torch::nn::Module {
  Net()
      : first(register_module("first", torch::nn::Linear(4, 3))),
        norm(register_module("norm", torch::nn::BatchNorm1d(3))) {}
  torch::Tensor forward(const torch::Tensor& x) { return norm(first(x)); }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
};

TEST(Module, IsLoadedIntoItsOwnMemory) {
  const testing::TemporaryFolder folder;
  Net saved;
  saved.forward(torch::randn({8, 4}));
  save(folder.path() / "m", Tree(arrays_of(saved)));
  Net other;
  const void* memory = other.first->weight.data_ptr();
  EXPECT_NE(arrays_of(other), arrays_of(saved));

  Tree state = arrays_of(other);
  load_into(folder.path() / "m", state);

  EXPECT_EQ(other.first->weight.data_ptr(), memory);
  EXPECT_EQ(arrays_of(other), arrays_of(saved));
  EXPECT_TRUE(torch::equal(other.norm->running_mean, saved.norm->running_mean));
}

struct TiedNet : torch::nn::Module {
  TiedNet()
      : embedding(register_parameter("embedding", torch::randn({10, 4}))),
        head(register_parameter("head", embedding)) {}
  torch::Tensor embedding;
  torch::Tensor head;
};

TEST(Module, MayHaveTiedWeights) {
  const testing::TemporaryFolder folder;
  const TiedNet saved;
  save(folder.path() / "m", Tree(arrays_of(saved)));
  const TiedNet other;

  Tree state = arrays_of(other);
  load_into(folder.path() / "m", state);

  EXPECT_TRUE(torch::equal(other.head, saved.embedding));
  EXPECT_EQ(other.head.data_ptr(), other.embedding.data_ptr());
}

TEST(Module, NamesWhatIsNoArray) {
  Net net;
  net.register_buffer("odd", torch::zeros({2, 2}).to_sparse());
  expect_says(refusal([&] { static_cast<void>(arrays_of(net)); }, Errc::invalid_argument), "'odd'");
}

/// Trains a few steps.
void train(torch::nn::Linear& model, torch::optim::Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    torch::manual_seed(step);
    const torch::Tensor input = torch::randn({8, 4});
    optimizer.zero_grad();
    model(input).pow(2).sum().backward();
    optimizer.step();
  }
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <class Optimizer, class Options>
MakeOptimizer with(Options options) {
  return [options](std::vector<torch::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

TEST(Optimizer, GoesOnWithTheSameBits) {
  using namespace torch::optim;
  const MakeOptimizer makers[] = {
      with<SGD>(SGDOptions(0.01)),
      with<SGD>(SGDOptions(0.01).momentum(0.9)),
      with<Adam>(AdamOptions(0.01).amsgrad(true)),
      with<AdamW>(AdamWOptions(0.01)),
      with<RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true)),
      with<Adagrad>(AdagradOptions(0.01)),
  };
  for (const MakeOptimizer& make : makers) {
    const testing::TemporaryFolder folder;
    torch::manual_seed(1);
    torch::nn::Linear model(4, 2);
    const auto optimizer = make(model->parameters());
    train(model, *optimizer, 3);
    optimizer->param_groups()[0].options().set_lr(0.02);
    save_checkpointables(folder.path() / "m",
                         {{"model", Tree(arrays_of(*model))}, {"optimizer", Tree(arrays_of(*optimizer))}});
    train(model, *optimizer, 3);

    torch::nn::Linear other(4, 2);
    Loaded loaded = load_checkpointables(folder.path() / "m");
    for (const auto& [name, array] : loaded.take<Tree>("model").as<NamedArrays>()) {
      torch::NoGradGuard guard;
      other->named_parameters()[name].copy_(tensor_of(array));
    }
    const auto resumed = make(other->parameters());
    go_on_from(*resumed, loaded.take<Tree>("optimizer").as<NamedArrays>());
    train(other, *resumed, 3);

    EXPECT_EQ(arrays_of(*other), arrays_of(*model));
    EXPECT_EQ(arrays_of(*resumed), arrays_of(*optimizer));
  }
}

TEST(Optimizer, RefusesWhatIsNotItsOwn) {
  torch::nn::Linear model(4, 2);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.5));
  NamedArrays arrays = arrays_of(optimizer);
  arrays.emplace("state.7.exp_avg", Array::zeros({2}, DType::float32));
  expect_says(refusal([&] { go_on_from(optimizer, arrays); }, Errc::structure_mismatch), "'state.7.exp_avg'");
  torch::optim::LBFGS other(model->parameters(), torch::optim::LBFGSOptions(0.5));
  expect_says(refusal([&] { static_cast<void>(arrays_of(other)); }, Errc::type_mismatch), "LBFGS");
}

}  // namespace
}  // namespace cairn::interop
