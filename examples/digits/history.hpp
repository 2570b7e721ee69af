// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cairn/contract/load_context.hpp>
#include <cairn/contract/save_context.hpp>

namespace digits {

/// Holds what was measured after one step.
struct Measurement {
  std::int64_t step = 0;
  float loss = 0;       ///< Mean over the images of the step.
  double accuracy = 0;  ///< On the images that are not trained on.

  bool operator==(const Measurement&) const = default;
};

/// How the training went. It saves and loads itself: Cairn finds the members `save` and `load`.
class History {
 public:
  void add(Measurement measurement) { measurements_.push_back(measurement); }
  [[nodiscard]] const std::vector<Measurement>& measurements() const noexcept { return measurements_; }

  cairn::Awaitable<cairn::Background<>> save(cairn::SaveContext context) const;

  /// Errors: std::runtime_error, naming the line, when the file is none that `save` wrote.
  cairn::Awaitable<cairn::Background<>> load(cairn::LoadContext context);

  /// "step,loss,accuracy", a line for each measurement; numbers are read back to the bit.
  [[nodiscard]] std::string to_csv() const;
  static std::vector<Measurement> parse_csv(std::string_view text);

 private:
  cairn::Background<> read(cairn::LoadContext context);

  std::vector<Measurement> measurements_;
};

}  // namespace digits
