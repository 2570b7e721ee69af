// SPDX-License-Identifier: Apache-2.0
#include "digits/final_file.hpp"

#include <fstream>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

namespace digits {
namespace {

class FinalFile {
 public:
  explicit FinalFile(const std::filesystem::path& path) : path_(path), out_(path, std::ios::binary) {}

  template <class Range>
  void write(const Range& values) {
    const auto bytes = std::as_bytes(std::span(values));
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  void write(const Parameters& parameters) {
    for (const auto layer : kLayers) {
      write(parameters.*layer);
    }
  }

  void close() {
    out_.close();
    if (!out_) {
      throw std::runtime_error("cannot write " + path_.string());
    }
  }

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace

void write_final(const TrainingState& state, std::string_view history, const std::filesystem::path& path) {
  FinalFile file(path);
  file.write(state.weights);
  file.write(state.first_moment);
  file.write(state.second_moment);
  file.write(state.random);
  file.write(state.order);
  file.write(fmt::format("step {} position {}\n", state.step, state.position_in_epoch));
  file.write(history);
  file.close();
}

}  // namespace digits
