// SPDX-License-Identifier: Apache-2.0
// Sharding policies of one's own: a file for each model, and values that are normalised on their way.
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/sharding/policy.hpp>

#include "own_folder.hpp"

namespace {

// [separation]
/// Gives each model a file of its own.
class ModelSeparation final : public cairn::ShardingPolicy {
 public:
  std::string description() const override { return "Separates tensors by the model that they belong to."; }

  std::vector<cairn::FilePlan> operator()(std::span<const cairn::ShardableTensor> tensors) const override {
    std::map<std::string_view, cairn::FilePlan> by_owner;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      by_owner[tensors[i].owner].push_back({i, {}, {}});  // "state/one", "state/two".
    }
    std::vector<cairn::FilePlan> files;
    for (auto& [owner, file] : by_owner) {
      files.push_back(std::move(file));
    }
    return files;
  }
};
// [/separation]

// [normalize]
/// Writes floats as they lie between two bounds: 0 is the lower one, 1 the upper.
class Normalize final : public cairn::ShardingPolicy {
 public:
  Normalize(float least, float most) : least_(least), most_(most) {}

  std::string description() const override { return "Normalises float values."; }

  std::vector<cairn::FilePlan> operator()(std::span<const cairn::ShardableTensor> tensors) const override {
    cairn::FilePlan file;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool has_floats = tensors[i].dtype == cairn::DType::float32;
      file.push_back({i, {}, has_floats ? normalised(*tensors[i].view) : nullptr});
    }
    return {file};
  }

 private:
  std::shared_ptr<const cairn::Array> normalised(const cairn::ArrayView& view) const {
    cairn::Array values = cairn::Array::copy_of(view);  // The program's own stay as they are.
    for (float& value : values.data<float>()) {
      value = (value - least_) / (most_ - least_);
    }
    return std::make_shared<const cairn::Array>(std::move(values));
  }

  float least_;
  float most_;
};
// [/normalize]

cairn::SaveResult save_with(const std::filesystem::path& path, const cairn::Tree& tree,
                            std::shared_ptr<const cairn::ShardingPolicy> policy) {
  cairn::SaveOptions options;
  options.handler_options.set(cairn::ShardingOptions(std::move(policy)));
  return cairn::save(path, tree, options);
}

}  // namespace

int main() try {
  enter_own_folder("sharding_policies");
  cairn::Array weights = cairn::Array::zeros({3}, cairn::DType::float32);
  weights.data<float>()[0] = 10;
  const cairn::Tree models = {{"one", {{"x", weights}, {"y", weights}}}, {"two", {{"x", weights}}}};

  const cairn::SaveResult separate = save_with("run/separate", models, std::make_shared<ModelSeparation>());
  std::cout << separate.work(cairn::Work::divide).count << " files\n";  // 2

  save_with("run/normalised", models, std::make_shared<Normalize>(0.0F, 20.0F));
  const cairn::Tree loaded = cairn::load("run/normalised");
  std::cout << "stored as " << loaded.at("two").at("x").as<cairn::Array>().data<float>()[0] << "\n";  // 0.5
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
