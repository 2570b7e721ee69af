// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn {

/// Whether a value that was moved into a save has moved all that it shows: a vector has, a view has not. What has not is
/// the caller's until the save has released it. Specialise it for types that refer to memory of others; those whose copies
/// share what they show have `kIsShared`, too.
template <class T>
struct OwnsItsMemory {
  static bool check(const T& /*value*/) { return true; }
};

/// Whether a load in the form that an abstract value asks for may write into memory of the caller's. Such a load is answered
/// only when nothing of it touches that memory any more; specialise it with `false` for types that name no memory, so that
/// their loads need not wait for handlers that do not end.
template <class Abstract>
struct WritesToCaller {
  static bool check(const Abstract& /*wanted*/) { return true; }
};

}  // namespace cairn
