// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/training/step_directory.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostDigits = 20;      // Of 64 bits.
constexpr std::size_t kMostNameBytes = 200;  // As any checkpoint's.

}  // namespace

StepFormat::StepFormat(std::string prefix, std::size_t width) : prefix_(std::move(prefix)), width_(width) {
  const bool is_plain = prefix_.find('/') == std::string::npos && prefix_.find('\0') == std::string::npos;
  if (!is_plain || prefix_.starts_with('.') || prefix_.ends_with(".g") ||
      prefix_.size() + kMostDigits > kMostNameBytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' cannot be a prefix of step names", prefix_.substr(0, kMostNameBytes)));
  }
  if (width_ > kMostDigits) {
    throw Error(Errc::invalid_argument,
                fmt::format("step names may have at most {1} digits, not {0}", width_, kMostDigits));
  }
}

std::string StepFormat::name(std::uint64_t step) const {
  std::string name = fmt::format("{}{:0{}}", prefix_, step, width_);
  if (width_ != 0 && name.size() != prefix_.size() + width_) {
    throw Error(Errc::invalid_argument, fmt::format("step {} has more than the {} digits of names like '{}'",
                                                    step, width_, this->name(0)));
  }
  return name;
}

std::optional<std::uint64_t> StepFormat::parse(std::string_view name) const noexcept {
  if (!name.starts_with(prefix_)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(prefix_.size());
  const bool has_width =
      width_ == 0 ? digits.size() == 1 || !digits.starts_with('0') : digits.size() == width_;
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (digits.empty() || !has_width || error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return step;
}

}  // namespace cairn
