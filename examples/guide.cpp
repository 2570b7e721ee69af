// SPDX-License-Identifier: Apache-2.0
// The code of docs/guide.md. Each function is one of its sections; main runs all and checks what they did.
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/handlers/json.hpp>
#include <cairn/tools/array_reader.hpp>
#include <cairn/tools/diff.hpp>
#include <cairn/tools/export.hpp>
#include <nlohmann/json.hpp>

#include "own_folder.hpp"

namespace {

void require(bool holds, const std::string& claim) {
  if (!holds) {
    throw std::logic_error("it does not hold that " + claim);
  }
}

void save_trees() {
  // [tree]
  std::vector<float> weights(6, 0.5F);
  const cairn::ArrayView matrix(weights.data(), {2, 3}, cairn::DType::float32);
  cairn::Tree state = {
      {"params", {{"w", matrix}, {"bias", cairn::Array::zeros({3}, cairn::DType::bfloat16)}}},
      {"layers", cairn::Tree::list({64, 128, 10})},
      {"name", "first try"},
      {"is_training", true}};
  state["step"] = 100;
  cairn::save("run/100", state);
  // [/tree]

  // [read]
  const cairn::Tree loaded = cairn::load("run/100");
  const auto step = loaded.get<std::int64_t>("step");
  const auto copy = loaded.get<std::vector<float>>("params/w");
  const cairn::Array& array = *loaded.at("params/w").array_if();  // Shape, dtype and elements.
  // [/read]
  require(step == 100 && copy == weights && array.shape() == cairn::Shape{2, 3},
          "the tree is as it was saved");
}

void replace() {
  const cairn::Tree state = {{"step", 101}};
  // [overwrite]
  cairn::SaveOptions options;
  options.overwrite = true;  // Else Errc::already_exists.
  options.custom_metadata = R"({"reason": "a better one"})";
  cairn::save("run/100", state, options);
  // [/overwrite]
  require(cairn::load("run/100") == state, "the checkpoint was replaced");
}

void save_many_things() {
  // [checkpointables]
  const cairn::Tree model = {{"w", cairn::Array::zeros({4}, cairn::DType::float32)}};
  const nlohmann::json config = {{"learning_rate", 1e-3}};
  const cairn::Array mask = cairn::Array::zeros({1000}, cairn::DType::boolean);
  cairn::save_checkpointables("run/many", {{"model", model}, {"config", config}, {"mask", mask}});

  cairn::Loaded loaded =
      cairn::load_checkpointables("run/many", {"model", "config"});  // The mask stays on disk.
  const auto learning_rate = loaded.take<nlohmann::json>("config").at("learning_rate").get<double>();
  // [/checkpointables]
  require(learning_rate == 1e-3 && !loaded.has("mask"), "only what was asked for is loaded");
}

void advance(std::vector<float>& weights) {
  for (float& weight : weights) {
    weight += 1;
  }
}

void train() {
  std::vector<float> weights(1000);
  // [async]
  const cairn::Context context;  // The engine, its threads and its buffers: once in a program.
  cairn::AsyncResponse saving;
  for (int step = 1; step <= 30; ++step) {
    advance(weights);
    if (step % 10 == 0) {
      saving.wait();  // For the save before this one; rethrows what went wrong with it.
      const cairn::Tree state = {{"weights", weights}, {"step", step}};
      saving = cairn::save_async("run/step-" + std::to_string(step), state, {}, context);
    }  // Here the weights may change again; they are written in the background.
  }
  const cairn::SaveResult result = saving.wait();
  // [/async]
  require(result.path.filename() == "step-30", "the last save was waited for");
  require(cairn::load("run/step-10").get<std::vector<float>>("weights").front() == 10,
          "later changes do not reach a checkpoint");
}

void watch() {
  const cairn::Tree state = {{"w", cairn::Array::zeros({1000, 1000}, cairn::DType::float32)}};
  // [watch]
  cairn::SaveOptions options;
  options.deadline = std::chrono::minutes(10);  // Then the save fails with Errc::timed_out.
  const cairn::AsyncResponse saving = cairn::save_async("run/watched", state, options);
  const cairn::SaveProgress progress = saving.progress();  // Bytes: total, staged, written.
  const cairn::SaveResult result = saving.wait();          // Path, bytes, times, engine.
  // [/watch]
  require(progress.staged_bytes <= progress.total_bytes && result.bytes > 4'000'000, "progress is reported");
  // [watch_load]
  const cairn::TreeResponse loading = cairn::load_async("run/watched");
  const cairn::LoadProgress loaded = loading.progress();  // Bytes: total, loaded (read and verified).
  const cairn::Tree restored = loading.wait();
  // [/watch_load]
  require(loaded.loaded_bytes <= loaded.total_bytes && restored == state, "progress of loads is reported");
}

void save_more_often_than_the_disk_can() {
  cairn::Tree state = {{"step", 0}};
  std::size_t durable = 0;
  // [coalesce]
  cairn::SaveOptions options;
  options.coalesce = true;
  std::vector<cairn::AsyncResponse> saving;
  for (int step = 0; step < 20; ++step) {
    state["step"] = step;
    saving.push_back(cairn::save_async("run/coalesced_" + std::to_string(step), state, options));
  }
  for (const cairn::AsyncResponse& one : saving) {
    try {
      one.wait();
      ++durable;
    } catch (const cairn::Error& error) {
      if (error.code() != cairn::Errc::superseded) {
        throw;
      }
    }
  }
  // [/coalesce]
  require(durable >= 2, "the oldest and the newest are saved");
  require(cairn::load("run/coalesced_19") == state, "the newest is never given up");
}

void save_without_copies() {
  std::vector<float> weights(1000, 1.0F);
  // [borrow]
  const cairn::Tree state = {{"weights", weights}};
  cairn::SaveOptions options;
  options.snapshot = cairn::Snapshot::borrow;
  const cairn::AsyncResponse saving = cairn::save_async("run/borrowed", state, options);
  // Read the weights here, but do not change them.
  saving.wait();
  // [/borrow]

  // [share]
  options.snapshot = cairn::Snapshot::share;
  const cairn::Tree shared = {{"weights", cairn::Array::adopt(std::move(weights))}};
  const cairn::AsyncResponse sharing = cairn::save_async("run/shared", shared, options);
  sharing.wait();
  // [/share]
  require(cairn::load("run/borrowed") == cairn::load("run/shared"), "both ways save the same");
}

void save_within_a_budget() {
  const cairn::Tree state = {{"w", cairn::Array::zeros({1000, 1000}, cairn::DType::float32)}};
  // [budget]
  cairn::ContextOptions options;
  options.staging_bytes = 64 << 20;  // Saves and loads together stage no more than that.
  options.reserve_bytes = 64 << 20;  // All of it now, so that the first save is as quick as the tenth.
  const cairn::Context context(options);
  cairn::save("run/budget", state, {}, context);
  // [/budget]
  require(context.staged_bytes() == 0, "staging memory is given back");
}

void look_closely() {
  const cairn::Tree state = {{"w", cairn::Array::zeros({1000, 1000}, cairn::DType::float32)}};
  const cairn::Context context;
  // [report]
  const cairn::SaveResult saved = cairn::save("run/seen", state, {}, context);
  std::ostringstream log;
  log << cairn::to_text(saved) << '\n';  // A few lines; to_json has the same for programs.
  if (saved.time(cairn::Step::background) > std::chrono::seconds(10)) {
    log << "The disk wrote " << saved.work(cairn::Work::write).bytes << " bytes, "
        << saved.transfers.mean_depth << " requests in flight.\n";
  }
  const cairn::LoadResult loaded = cairn::load_checkpointables("run/seen", {}, {}, context).result();
  // [/report]
  require(loaded.bytes >= 4'000'000 && !log.str().empty(), "results are reported");

  // [trace]
  cairn::SaveOptions options;
  options.trace = cairn::trace_to_file("run/save.trace.json");  // For ui.perfetto.dev.
  cairn::save("run/traced", state, options, context);
  // [/trace]
  require(std::filesystem::file_size("run/save.trace.json") > 1000, "a trace is written");

  // [metrics]
  const std::string text = cairn::prometheus_text(context);  // To be served under /metrics.
  // [/metrics]
  require(text.find("cairn_saves_committed_total 2") != std::string::npos, "saves are counted");
}

void load_in_another_form() {
  const std::vector<float> weights = {1, 2, 3};
  const cairn::Tree saved = {{"params", {{"w", weights}, {"b", weights}}},
                             {"optimizer", {{"m", weights}, {"v", weights}}}};
  cairn::save("run/form", saved);
  // [wanted]
  std::vector<double> mine(3);
  cairn::AbstractTree wanted = cairn::metadata("run/form");  // Reads no array.
  wanted["params"].set_dtype(cairn::DType::bfloat16);        // Stored as float32: cast while loading.
  wanted["params"]["w"].place_into(mine);                    // Into memory of one's own, in its type.
  wanted["optimizer"] = cairn::placeholder;                  // Leave it on disk.
  const cairn::Tree state = cairn::load("run/form", wanted);
  // [/wanted]
  require(mine == std::vector<double>{1, 2, 3}, "the weights are where they were wanted");
  require(state.at("params/b").array_if()->dtype() == cairn::DType::bfloat16, "they were cast");
  require(!state.contains("optimizer"), "a placeholder loads nothing");

  // [partial]
  cairn::AbstractTree part;
  part["params"]["w"] = cairn::AbstractArray({3}, cairn::DType::float64);
  // What else is stored is left out; without `partial` it is Errc::structure_mismatch.
  const cairn::Tree loaded = cairn::load("run/form", part, cairn::partial);
  // [/partial]
  // [pad]
  cairn::AbstractTree longer = cairn::metadata("run/form");
  longer["params"]["w"].as_array().pad_and_crop({5});  // Three elements are stored; two zeros follow.
  const cairn::Tree padded = cairn::load("run/form", longer);
  // [/pad]
  require(padded.get<std::vector<float>>("params/w") == std::vector<float>{1, 2, 3, 0, 0}, "zeros follow");

  // [map]
  cairn::TreeLoadOptions lazily;
  lazily.map = true;
  cairn::LoadOptions options_of_map;
  options_of_map.handler_options.set(lazily);
  const cairn::Tree views = cairn::load("run/form", options_of_map);
  const cairn::Array w = views.at("params/w").as<cairn::Array>();
  const float last = w.data<const float>()[2];  // Reads the page that it is on.
  // [/map]
  require(last == 3, "a mapped array has its values");
  require(loaded.get<std::vector<double>>("params/w") == mine && loaded.size() == 1, "a part can be loaded");
}

void store_in_another_form() {
  const std::vector<float> weights = {1, 2, 3};
  const cairn::Tree state = {{"w", weights}};
  // [storage]
  cairn::SaveOptions options;
  options.handler_options.set(cairn::ArrayOptions(cairn::DType::bfloat16, cairn::Narrowing::allowed));
  cairn::save("run/half", state, options);
  // [/storage]
  require(cairn::load("run/half").at("w").as<cairn::Array>().dtype() == cairn::DType::bfloat16,
          "it is stored as asked");
}

cairn::Tree newest_or_none(const std::filesystem::path& path) {
  // [errors]
  try {
    return cairn::load(path);
  } catch (const cairn::Error& error) {
    if (error.code() == cairn::Errc::not_found) {
      return {};  // There is none yet.
    }
    std::cerr << error.what() << '\n';  // Names the culprit: the checkpoint, the file, the array.
    throw;
  }
  // [/errors]
}

void keep_the_newest() {
  const cairn::Tree state = {{"step", 2}};
  cairn::save("run/old", cairn::Tree{{"step", 1}});
  // [remove]
  cairn::save("run/new", state);        // Durable when it returns: only now may the old one go.
  cairn::remove_checkpoint("run/old");  // Whole, or gone, whenever the program is killed.
  // [/remove]
  require(!std::filesystem::exists("run/old") && cairn::load("run/new") == state, "only the old one is gone");
}

void keep_the_best() {
  const cairn::Tree state = {{"step", 3}};
  // [copy]
  cairn::save("run/best", state);
  cairn::copy_checkpoint("run/best", "archive/best");  // Durable, and compared, when it returns.
  // [/copy]
  require(cairn::load("archive/best") == state, "the copy holds the same values");
}

void look_inside() {
  const cairn::Array matrix = cairn::Array::zeros({2, 3}, cairn::DType::float32);
  matrix.data<float>()[5] = 4;
  cairn::save("run/tuned", {{"w", matrix}});
  cairn::save("run/other", {{"w", cairn::Array::zeros({2, 3}, cairn::DType::float32)}});
  // [boxes]
  const cairn::ArrayReader reader("run/tuned");
  for (const std::string& name : reader.names()) {
    std::cout << name << ' ' << reader.form(name).shape << '\n';
  }
  const cairn::Array row = reader.read("w", cairn::Box({1, 0}, {1, 3}));
  const std::vector<cairn::ArrayStatistics> statistics = reader.statistics(reader.names());
  // [/boxes]
  require(row == matrix.part(cairn::Box({1, 0}, {1, 3})), "the box has its elements");
  require(statistics.front().zeros == 5, "zeros are counted");
  // [diff]
  cairn::DiffOptions options;
  options.tolerance = 1e-3;
  const cairn::CheckpointDiff diff = cairn::diff_checkpoints("run/tuned", "run/other", options);
  for (const cairn::Difference& each : diff.differences) {
    std::cout << each.name << ": " << name(each.aspect) << '\n';
  }
  cairn::export_arrays("run/tuned", "weights.safetensors");
  // [/diff]
  require(diff.differences.size() == 1, "one array differs");
}

void clean() {
  cairn::Tree state = {{"step", 0}};
  int step = 0;
  // [latest]
  cairn::LoadLatestOptions options;
  options.fall_back = true;
  if (auto latest = cairn::load_latest("run/steps", {"state"}, options)) {
    state = latest->loaded.take<cairn::Tree>("state");
    for (const cairn::PassedOver& each : latest->passed_over) {
      std::cerr << each.path.string() << ": " << each.why << '\n';
    }
  }
  step = state.get<int>("step") + 1;
  cairn::save("run/steps/" + std::to_string(step), {{"step", step}});
  for (auto old = cairn::list_checkpoints("run/steps"); old.size() > 3; old.erase(old.begin())) {
    cairn::remove_checkpoint(old.front().path);  // The three newest stay.
  }
  // [/latest]
  require(step == 1, "the first of its steps");
  // [recover]
  const auto report = cairn::recover("run");
  for (const cairn::store::RecoveryEntry& entry : report.entries) {
    if (entry.kind == cairn::store::EntryClass::committed) {
      std::cout << entry.name << " can be loaded\n";
    } else if (entry.is_removed) {
      std::cout << entry.name << " was left by a killed program\n";
    }
  }
  // [/recover]
  require(report.entries.size() >= 9, "recovery reports what there is");
}

}  // namespace

int main() try {
  enter_own_folder("guide");
  save_trees();
  replace();
  save_many_things();
  train();
  watch();
  save_more_often_than_the_disk_can();
  save_without_copies();
  save_within_a_budget();
  look_closely();
  load_in_another_form();
  store_in_another_form();
  require(newest_or_none("run/none").is_null(), "absence is not mistaken for damage");
  keep_the_newest();
  keep_the_best();
  look_inside();
  clean();
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
