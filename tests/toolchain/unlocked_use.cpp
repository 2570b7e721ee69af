// SPDX-License-Identifier: Apache-2.0
// Must not compile with clang: a variable is used while the mutex that guards it is not locked.
#include "base/internal/mutex.hpp"

namespace {

class Box {
 public:
  int value() { return value_; }

 private:
  cairn::Mutex mutex_;
  int value_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace

int main() {
  return Box().value();
}
