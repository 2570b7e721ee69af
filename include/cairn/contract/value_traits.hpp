// SPDX-License-Identifier: Apache-2.0
#pragma once

// Types of values say here whether they can be copied, whose memory they show, and how a copy is watched.

#include <array>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// Says whether copying a `T` compiles, and gives a value of its own.
///
/// std::is_copy_constructible says yes of a vector of what cannot be copied, and of every class that has such a
/// member: asking for the copy would be an error in the user's program. So this is true of what is certain: trivial
/// types, and containers of the standard library that hold nothing else. A class of yours says so next to its
/// definition:
///   template <> struct cairn::IsCopyable<Model> : std::true_type {};
/// Used by: ContextOptions::check_handlers.
template <class T>
struct IsCopyable
    : std::bool_constant<std::is_trivially_copy_constructible_v<T> && std::is_destructible_v<T>> {};

template <class T>
struct IsCopyable<const T> : IsCopyable<T> {};

namespace detail {

template <class... T>
using AreCopyable = std::bool_constant<(IsCopyable<T>::value && ...)>;

}  // namespace detail

template <class C, class Traits, class A>
struct IsCopyable<std::basic_string<C, Traits, A>> : std::true_type {};

template <class T>
struct IsCopyable<std::shared_ptr<T>> : std::true_type {};

template <class T, std::size_t N>
struct IsCopyable<std::array<T, N>> : IsCopyable<T> {};

template <class T>
struct IsCopyable<std::optional<T>> : IsCopyable<T> {};

template <class T, class U>
struct IsCopyable<std::pair<T, U>> : detail::AreCopyable<T, U> {};

template <class... T>
struct IsCopyable<std::tuple<T...>> : detail::AreCopyable<T...> {};

template <class... T>
struct IsCopyable<std::variant<T...>> : detail::AreCopyable<T...> {};

template <class T, class A>
struct IsCopyable<std::vector<T, A>> : IsCopyable<T> {};

template <class T, class A>
struct IsCopyable<std::deque<T, A>> : IsCopyable<T> {};

template <class T, class A>
struct IsCopyable<std::list<T, A>> : IsCopyable<T> {};

template <class T, class Less, class A>
struct IsCopyable<std::set<T, Less, A>> : detail::AreCopyable<T, Less> {};

template <class K, class T, class Less, class A>
struct IsCopyable<std::map<K, T, Less, A>> : detail::AreCopyable<K, T, Less> {};

template <class T, class Hash, class Equal, class A>
struct IsCopyable<std::unordered_set<T, Hash, Equal, A>> : detail::AreCopyable<T, Hash, Equal> {};

template <class K, class T, class Hash, class Equal, class A>
struct IsCopyable<std::unordered_map<K, T, Hash, Equal, A>> : detail::AreCopyable<K, T, Hash, Equal> {};

/// Says whether a value that was moved into a save has moved all that it shows: a vector has, a view has not.
/// What has not is the caller's until the save has released it. Specialise it for types that refer to memory
/// of others; those whose copies share what they show have `kIsShared`, too.
template <class T>
struct OwnsItsMemory {
  static bool check(const T& /*value*/) { return true; }
};

/// Says whether a load in the form that an abstract value asks for may write into memory of the caller's.
/// Such a load is answered only when nothing of it touches that memory any more; specialise it with `false`
/// for types that name no memory, so that their loads need not wait for handlers that do not end.
template <class Abstract>
struct WritesToCaller {
  static bool check(const Abstract& /*wanted*/) { return true; }
};

namespace contract {

class WatchedPages;

/// `operator new` and `operator delete` of cairn/testing/watched_new.hpp ask these first. The former returns null
/// where nothing is being copied for a check, the latter false for memory that is not from there.
void* allocate_watched(std::size_t bytes, std::size_t alignment);
bool free_watched(void* memory) noexcept;

}  // namespace contract

/// Pages for the copy of one value, which nobody may touch while they are watched.
///
/// The first touch is noted; then they can be read and written again: the culprit goes on, and the save whose value
/// it is fails with its name. The processor reports touches as SIGSEGV; system calls are answered with EFAULT.
/// Addresses of pages that are gone are not used again at once: a touch of those ends the process, which says whose
/// they were.
/// Invariant: what was made here is destroyed by `end`, the last first; the memory lasts as long as this object.
/// Threads:   one at a time; touches may come from any thread.
class WatchedMemory {
 public:
  /// `whose` names the value in the last words of a process that uses it when this is gone: "'point' (handler
  /// example.point/1)".
  explicit WatchedMemory(std::string_view whose = {});
  ~WatchedMemory();
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;

  /// The memory gives what its thread allocates with `operator new` while one of these lives, in programs that have
  /// cairn/testing/watched_new.hpp.
  class Allocations {
   public:
    explicit Allocations(WatchedMemory* memory) noexcept;
    ~Allocations();
    Allocations(const Allocations&) = delete;
    Allocations& operator=(const Allocations&) = delete;

   private:
    WatchedMemory* outer_;
  };

  /// Memory that is zero. `what` names it when it is touched: "the array 'params/w'"; empty: "the value".
  ///
  /// Units:  bytes; `alignment` is a power of two.
  /// Errors: ENOMEM.
  [[nodiscard]] std::byte* allocate(std::size_t bytes, std::size_t alignment, std::string_view what = {});

  /// Makes an object there.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    reserve_one();
    T* object =
        ::new (static_cast<void*>(allocate(sizeof(T), alignof(T)))) T(std::forward<Arguments>(arguments)...);
    made_.emplace_back(object, [](void* self) { static_cast<T*>(self)->~T(); });
    may_allocate_ = may_allocate_ || !std::is_trivially_copyable_v<T>;
    return *object;
  }

  /// Says that a part of the value is not copied, but the caller's own: "the array 'w' on cuda:0".
  void leave_out(std::string_view what);
  [[nodiscard]] const std::vector<std::string>& left_out() const noexcept { return left_out_; }
  /// Returns whether what was made may have memory that is not from here, and so is not watched.
  [[nodiscard]] bool has_unwatched() const noexcept;

  /// From here on nobody may touch it, until `end`.
  ///
  /// Errors: OS errors when pages cannot be protected; then none of them is watched.
  void watch();
  /// Returns what was touched first, in the words given to `allocate`; nothing when nothing was.
  [[nodiscard]] std::optional<std::string> touched() const;
  /// The memory can be used again; destroys what was made there.
  void end() noexcept;

 private:
  friend void* contract::allocate_watched(std::size_t bytes, std::size_t alignment);

  struct Retire {
    void operator()(contract::WatchedPages* pages) const noexcept;
  };

  struct Block {
    const std::byte* begin;
    std::size_t bytes;
    std::string what;
  };

  void reserve_one();

  std::unique_ptr<contract::WatchedPages, Retire> pages_;
  std::byte* next_ = nullptr;  // The free part of the last pages.
  std::byte* end_ = nullptr;
  std::size_t pages_bytes_ = 0;  // So many were taken last.
  std::vector<Block> blocks_;
  std::vector<std::pair<void*, void (*)(void*)>> made_;
  std::vector<std::string> left_out_;
  bool may_allocate_ = false;
};

/// Copies a value that a handler is given into memory that is watched; null when there is no way to copy it.
///
/// Specialise it for types whose copies share memory with the original, so that this memory is watched, too:
///   static const T* make(const T& value, const std::shared_ptr<WatchedMemory>& memory);
/// All others need IsCopyable only.
template <class T>
struct WatchedCopy {
  static const T* make(const T& value, const std::shared_ptr<WatchedMemory>& memory) {
    if constexpr (IsCopyable<T>::value) {
      return &memory->make<T>(value);
    } else {
      return nullptr;
    }
  }
};

}  // namespace cairn
