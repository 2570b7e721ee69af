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
  // Never destroyed: threads of a context that is still busy at the end of the program go on using it.
  static SingleProcess& coordinator = *new SingleProcess;
  return coordinator;
}

}  // namespace cairn
