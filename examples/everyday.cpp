// SPDX-License-Identifier: Apache-2.0
// What programs do with values of their own: containers in trees, numbers in other forms, parts of arrays,
// storage that differs by array. Each function is a section of
// docs/guide.md; main runs all and checks what they did.
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/handlers/json_tree.hpp>
#include <nlohmann/json.hpp>

#include "own_folder.hpp"

namespace {

void require(bool holds, const std::string& claim) {
  if (!holds) {
    throw std::logic_error("it does not hold that " + claim);
  }
}

void keep_containers() {
  // [containers]
  const std::map<std::string, std::vector<std::string>> vocabulary = {{"en", {"yes", "no"}}};
  const std::vector<std::vector<float>> rows = {{1, 2, 3}, {4}};
  const std::optional<double> best;  // Null in the tree.
  const nlohmann::json config = {{"layers", {64, 10}}};
  const cairn::Tree state = {{"vocabulary", vocabulary}, {"rows", rows}, {"best", best}, {"config", config}};
  cairn::save("run/containers", state);

  const cairn::Tree loaded = cairn::load("run/containers");
  const auto again = loaded.get<std::vector<std::vector<float>>>("rows");
  const auto layers = loaded.get<nlohmann::json>("config").at("layers");
  // [/containers]
  require(again == rows && layers[0] == 64 && !loaded.get<std::optional<double>>("best"),
          "containers come back");
}

void keep_single_values() {
  // [single_values]
  const std::vector<float> weights = {1, 2, 3};
  cairn::save_checkpointables("run/single",
                              {{"weights", weights}, {"step", 42}, {"note", "before the break"}});

  cairn::Loaded loaded = cairn::load_checkpointables("run/single");
  const int step = loaded.take<int>("step");
  const auto note = loaded.take<std::string>("note");
  // [/single_values]
  require(step == 42 && note == "before the break", "single values come back");
}

void cast_numbers() {
  const std::vector<float> moments = {1, 2};
  cairn::save("run/numbers", {{"x", 3}, {"y", 2.5}, {"optimizer", {{"m", moments}}}});
  // [numbers]
  cairn::AbstractTree wanted;               // Written down, without asking for metadata first.
  wanted["x"] = cairn::TreeKind::floating;  // 3 becomes 3.0, which it is.
  wanted["y"] = {cairn::TreeKind::integer, cairn::Narrowing::allowed};  // 2.5 becomes 2.
  wanted["optimizer"] = cairn::as_saved;                                // Whatever is stored there.
  const cairn::Tree loaded = cairn::load("run/numbers", wanted);

  const auto z = cairn::Tree(7).as<double>();  // As exactly as a load does it.
  // [/numbers]
  require(loaded.get<double>("x") == 3 && loaded.get<int>("y") == 2 && z == 7, "numbers are cast");
  require(loaded.get<std::vector<float>>("optimizer/m") == moments, "the optimizer is as it was saved");
}

void load_rows() {
  const cairn::Tree saved = {{"embedding", cairn::Array::zeros({5000, 64}, cairn::DType::float32)},
                             {"step", 1}};
  cairn::save("run/rows", saved);
  // [rows]
  cairn::AbstractTree wanted = cairn::metadata("run/rows");
  // Offsets, then extents: 100 rows from row 100 on, all 64 columns. Only rows 100 to 199 are read.
  wanted["embedding"].as_array().want(cairn::Box({100, 0}, {100, 64}));
  const cairn::Tree loaded = cairn::load("run/rows", wanted);
  const cairn::Array rows = loaded["embedding"].as<cairn::Array>();  // [100, 64]
  // [/rows]
  require(rows.shape() == cairn::Shape{100, 64}, "a hundred rows are loaded");
}

void store_by_rules() {
  const std::vector<float> weights = {1, 2, 3};
  const std::vector<float> norm = {4, 5, 6};
  const std::vector<float> moments = {7, 8, 9};
  const cairn::Tree state = {{"params", {{"w", weights}, {"norm", norm}}}, {"m", moments}};
  // [rules]
  cairn::ArrayRules rules;
  rules.add("params/**", cairn::DType::bfloat16, cairn::Narrowing::allowed)
      .add("params/norm", cairn::ArrayForm::as_in_memory())  // Later rules win.
      .add("m", cairn::Snapshot::copy);                      // It changes soon: the others are borrowed.
  cairn::SaveOptions options;
  options.snapshot = cairn::Snapshot::borrow;
  options.handler_options.set(rules);
  cairn::save("run/rules", state, options);
  // [/rules]
  const cairn::AbstractTree stored = cairn::metadata("run/rules");
  require(stored.at("params/w").as_array().dtype == cairn::DType::bfloat16, "weights are stored by the rule");
  require(stored.at("params/norm").as_array().dtype == cairn::DType::float32, "norms are stored as they are");
}

void tie_weights() {
  const cairn::Array embedding = cairn::Array::zeros({100, 8}, cairn::DType::float32);
  // [tied]
  cairn::Tree model = {{"embedding", embedding}, {"head", embedding}};  // Two names of one array.
  cairn::save("run/tied", model);                                       // Its bytes are written once.
  cairn::load_into("run/tied", model);                                  // And read once.

  cairn::Tree untied = {{"head", cairn::Array::zeros({100, 8}, cairn::DType::float32)}};
  cairn::save("run/untied", untied);  // One name only.
  cairn::TreeLoadOptions of_tree;
  of_tree.aliases = {{"head", "embedding"}};
  cairn::LoadOptions options;
  options.handler_options.set(of_tree);
  cairn::load_into("run/untied", model, options);  // Both names of the model from the one that is there.
  // [/tied]
  require(cairn::load("run/tied").size() == 2, "both names load");
}

}  // namespace

int main() try {
  enter_own_folder("everyday");
  keep_containers();
  keep_single_values();
  cast_numbers();
  load_rows();
  store_by_rules();
  tie_weights();
  std::cout << "all is as it was saved, or as it was wanted\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
