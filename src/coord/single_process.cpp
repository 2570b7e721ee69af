// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/coordinator.hpp"

namespace cairn {
namespace {

class SingleProcess final : public Coordinator {
 public:
  std::size_t rank() const noexcept override { return 0; }
  std::size_t size() const noexcept override { return 1; }

  Awaitable<std::vector<std::string>> gather(std::string text) override {
    std::vector<std::string> texts;
    texts.push_back(std::move(text));
    co_return texts;
  }

  Awaitable<std::string> broadcast(std::string text, std::size_t /*root*/) override { co_return text; }
};

}  // namespace

Coordinator& single_process() {
  static SingleProcess coordinator;
  return coordinator;
}

}  // namespace cairn
