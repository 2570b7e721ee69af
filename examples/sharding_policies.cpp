// SPDX-License-Identifier: Apache-2.0
// Which file gets which arrays: policies that are there, policies of one's own, and others for some arrays.
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

cairn::Array ten_first() {
  cairn::Array array = cairn::Array::zeros({3}, cairn::DType::float32);
  array.data<float>()[0] = 10;
  return array;
}

cairn::Tree two_models() {
  return {{"one", {{"x", ten_first()}, {"y", ten_first()}}}, {"two", {{"x", ten_first()}}}};
}

void save_with_policies_of_ones_own() {
  const cairn::SaveResult separate =
      save_with("run/separate", two_models(), std::make_shared<ModelSeparation>());
  std::cout << separate.work(cairn::Work::divide).count << " files\n";  // 2

  save_with("run/normalised", two_models(), std::make_shared<Normalize>(0.0F, 20.0F));
  const cairn::Tree loaded = cairn::load("run/normalised");
  std::cout << "stored as " << loaded.at("two").at("x").as<cairn::Array>().data<float>()[0] << "\n";  // 0.5
}

void save_in_files_of_a_size() {
  // [max_shard_size]
  // One array of 4 MB, which no file may have: it is cut.
  const cairn::Tree model = {{"x", cairn::Array::zeros({1000, 1000}, cairn::DType::float32)}};
  cairn::SaveOptions options;
  options.handler_options.set(cairn::ShardingOptions(std::make_shared<cairn::MaxShardSize>(500'000)));
  const cairn::SaveResult result = cairn::save("run/limited", model, options);
  std::cout << "limited: " << result.work(cairn::Work::divide).count << " files\n";  // 8

  // Loads need not know.
  std::cout << "whole: " << cairn::load("run/limited").at("x").as<cairn::Array>().shape()
            << "\n";  // [1000, 1000]
  // [/max_shard_size]
}

void save_what_is_wanted_first() {
  // [importance]
  // What is wanted before all else gets a file of its own, and a load of it opens no other.
  save_with("run/important", two_models(),
            std::make_shared<cairn::ByPrefix>(std::vector<std::string>{"state/one/x"}));
  const cairn::AbstractTree stored = cairn::metadata("run/important");
  cairn::AbstractTree first;
  first["one"]["x"] = stored.at("one/x");
  const cairn::Tree early = cairn::load("run/important", first, cairn::partial);
  std::cout << "first: " << early.at("one").at("x").as<cairn::Array>().shape() << "\n";  // [3]
  // [/importance]
}

void save_by_place() {
  // [place]
  // A file for each device, so that each is written by what is near it; and all in one, for those who copy files about.
  const cairn::SaveResult by_device =
      save_with("run/by_device", two_models(), std::make_shared<cairn::ShardByDevice>());
  const cairn::SaveResult in_one = save_with("run/in_one", two_models(), std::make_shared<cairn::AllInOne>());
  std::cout << "devices: " << by_device.work(cairn::Work::divide).count
            << ", in one: " << in_one.work(cairn::Work::divide).count << "\n";  // 1, 1
  // [/place]
}

void save_by_two_policies_in_a_row() {
  // [composition]
  // A file for each model, and no file of more than 16 bytes: the second policy divides the files of the first.
  const auto policy =
      cairn::compose(std::make_shared<ModelSeparation>(), std::make_shared<cairn::MaxShardSize>(16));
  const cairn::SaveResult result = save_with("run/composed", two_models(), policy);
  std::cout << "composed: " << result.work(cairn::Work::divide).count << " files\n";  // 3
  // [/composition]
}

void save_by_other_policies_for_some() {
  // [rules]
  // Of the model, what lies below "one" is in small files; of the average nothing is cut.
  cairn::ArrayRules rules;
  rules.add("one/**", std::make_shared<cairn::MaxShardSize>(16));
  rules.add_for("average", "**", cairn::ArrayForm(std::make_shared<cairn::AllInOne>()));
  cairn::SaveOptions options;
  options.handler_options.set(rules);
  cairn::save_checkpointables("run/ruled", {{"model", two_models()}, {"average", two_models()}}, options);

  const cairn::CheckpointMetadata stored = cairn::checkpointables_metadata("run/ruled");
  for (const cairn::FilesOfPolicy& made : stored.items.at("model").description().policies) {
    std::cout << made.policy << " " << made.files.size()
              << " files\n";  // "Split ... size of 16 bytes. 2 files"
  }
  // [/rules]
}

}  // namespace

int main() try {
  enter_own_folder("sharding_policies");
  save_with_policies_of_ones_own();
  save_in_files_of_a_size();
  save_what_is_wanted_first();
  save_by_place();
  save_by_two_policies_in_a_row();
  save_by_other_policies_for_some();
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
