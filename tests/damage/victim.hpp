// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/handlers/json.hpp"

#include "handlers/counter.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/verify.hpp"
#include "support/temp_dir.hpp"

namespace cairn::damage {

/// Says whether a load may overlook a damage: then it must give the values that were saved, and `verify`
/// alone complains.
enum class Load { fails, may_succeed };

/// A checkpoint of a few KiB to be damaged, and one who judges what is then said of it.
class Victim {
 public:
  /// Checkpoints of different numbers have the same files, none of which has the same bytes.
  Victim(std::filesystem::path path, std::int64_t number, const Context& context)
      : path_(std::move(path)), number_(number), context_(&context) {
    SaveOptions options;
    options.custom_metadata = fmt::format(R"({{"number": {}}})", number);
    testing::Counter counter;
    counter.value = number;
    save_checkpointables(path_, {{"tree", tree()}, {"config", config()}, {"counter", counter}}, options,
                         context);
    for (const std::string& name : testing::list_tree(path_)) {
      if (std::filesystem::is_regular_file(path_ / name)) {
        files_.emplace(name, testing::read_text(path_ / name));
      }
    }
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The bytes of every file, by its path relative to the checkpoint.
  [[nodiscard]] const std::map<std::string, std::string>& files() const { return files_; }

  /// Returns what is wrong with what a load and `verify` say of the checkpoint, which is damaged; nothing when each
  /// of them complains with one of `culprits` in its text.
  [[nodiscard]] std::string misjudged(const std::vector<std::string>& culprits,
                                      Load load = Load::fails) const {
    return misjudged_by([&] { return load_complaint(); }, culprits, load == Load::may_succeed, "load") +
           misjudged_by([&] { return verify_complaint(); }, culprits, false, "verify");
  }

  /// Returns what a load of everything says; nothing when it gives the values that were saved. Where files of the
  /// checkpoint `other` come and go, its custom metadata are an answer, too: COMMIT vouches for checkpoint.json, and
  /// both may have been its own.
  [[nodiscard]] std::string load_complaint(std::optional<std::int64_t> other = {}) const {
    testing::Counter counter;
    std::string metadata;
    Loaded loaded;
    try {
      metadata = checkpointables_metadata(path_, *context_).custom_metadata;
      loaded = load_checkpointables(path_, {"tree", "config", {"counter", into(counter)}}, {}, *context_);
    } catch (const Error& error) {
      return error.what();
    }
    const std::int64_t told = nlohmann::json::parse(metadata).at("number");
    const bool is_same = (told == number_ || told == other) && loaded.take<Tree>("tree") == tree() &&
                         loaded.take<nlohmann::json>("config") == config() && counter.value == number_;
    return is_same ? "" : std::string(kOtherValues);
  }

  [[nodiscard]] std::string verify_complaint() const {
    store::VerifyOptions options;
    options.threads = 1;
    try {
      std::string text;
      const store::VerifyReport report = store::verify(io::posix_syscalls(), path_, options);
      for (const store::VerifyProblem& problem : report.problems) {
        text += problem.text + "\n";
      }
      for (const std::string& foreign : report.foreign) {
        text += foreign + "\n";
      }
      return text;
    } catch (const Error& error) {
      return error.what();
    }
  }

  static constexpr std::string_view kOtherValues = "gave other values";

 private:
  template <class Complaint>
  static std::string misjudged_by(const Complaint& complaint, const std::vector<std::string>& culprits,
                                  bool may_be_silent, std::string_view who) {
    std::string text;
    try {
      text = complaint();
    } catch (const std::exception& error) {
      return fmt::format("{} threw no cairn::Error: {}\n", who, error.what());
    }
    if (text.empty()) {
      return may_be_silent ? "" : fmt::format("{} was silent\n", who);
    }
    for (const std::string& culprit : culprits) {
      if (text != kOtherValues && text.find(culprit) != std::string::npos) {
        return "";
      }
    }
    return fmt::format("{}: {}\n", who, text);
  }

  [[nodiscard]] Tree tree() const {
    const auto real = static_cast<float>(number_);
    const auto whole = static_cast<std::int32_t>(number_);
    return {{"w", Array::adopt(std::vector<float>{real, 2, 3, 4, 5, 6}).reshaped({2, 3})},
            {"mask", Array::adopt(std::vector<std::int32_t>{whole, 0, -1})},
            {"half", Array::zeros({3}, DType::bfloat16)},
            {"empty", Array::zeros({0, 4}, DType::uint8)},
            {"step", number_},
            {"note", "größer"}};
  }
  [[nodiscard]] nlohmann::json config() const { return {{"width", 512}, {"number", number_}}; }

  std::filesystem::path path_;
  std::int64_t number_;
  const Context* context_;
  std::map<std::string, std::string> files_;
};

}  // namespace cairn::damage
