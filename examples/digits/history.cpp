// SPDX-License-Identifier: Apache-2.0
#include "digits/history.hpp"

#include <charconv>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace digits {
namespace {

constexpr std::string_view kFile = "history.csv";
constexpr std::string_view kHeader = "step,loss,accuracy";

/// Takes the line up to the next line end off `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) {
    throw std::runtime_error(fmt::format("{}: '{}' has no line end", kFile, text));
  }
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

/// Takes a number and what must follow it off `line`.
template <class T>
bool take_number(std::string_view& line, T& value, std::string_view follows) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{}) {
    return false;
  }
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (!line.starts_with(follows) || (follows.empty() && !line.empty())) {
    return false;
  }
  line.remove_prefix(follows.size());
  return true;
}

}  // namespace

cairn::Awaitable<cairn::Background<>> History::save(cairn::SaveContext context) const {
  co_return context.write_file(kFile, to_csv());  // The text is made now, and written while training goes on.
}

cairn::Awaitable<cairn::Background<>> History::load(cairn::LoadContext context) {
  co_return read(std::move(context));
}

cairn::Background<> History::read(cairn::LoadContext context) {
  const std::string text = co_await context.read_file(kFile);
  measurements_ = parse_csv(text);
}

std::string History::to_csv() const {
  std::string text = fmt::format("{}\n", kHeader);
  for (const Measurement& each : measurements_) {
    text += fmt::format("{},{},{}\n", each.step, each.loss, each.accuracy);
  }
  return text;
}

std::vector<Measurement> History::parse_csv(std::string_view text) {
  if (take_line(text) != kHeader) {
    throw std::runtime_error(fmt::format("{}:1: expected '{}'", kFile, kHeader));
  }
  std::vector<Measurement> measurements;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    Measurement read;
    if (!take_number(line, read.step, ",") || !take_number(line, read.loss, ",") ||
        !take_number(line, read.accuracy, "")) {
      throw std::runtime_error(fmt::format("{}:{}: expected three numbers", kFile, measurements.size() + 2));
    }
    measurements.push_back(read);
  }
  return measurements;
}

}  // namespace digits
