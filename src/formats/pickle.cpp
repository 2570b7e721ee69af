// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/pickle.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::formats {
namespace {

// Nodes that every pickle shares: None is number 0.
constexpr std::uint32_t kFalse = 1;
constexpr std::uint32_t kTrue = 2;
constexpr std::uint32_t kEmptyTuple = 3;
constexpr std::uint32_t kFirstInteger = 4;
constexpr std::uint64_t kSharedIntegers = 256;
constexpr unsigned kNewestProtocol = 5;

/// Text forms of before protocol 1, extensions, and buffers that are not in the file.
struct UnreadOpcode {
  std::uint8_t opcode;
  std::string_view name;
};
constexpr UnreadOpcode kUnread[] = {
    {'i', "INST"},    {'o', "OBJ"},   {'P', "PERSID"},       {0x82, "EXT1"},
    {0x83, "EXT2"},   {0x84, "EXT4"}, {'g', "GET"},          {'p', "PUT"},
    {'S', "STRING"},  {'I', "INT"},   {'L', "LONG"},         {'F', "FLOAT"},
    {'V', "UNICODE"}, {'2', "DUP"},   {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};

}  // namespace

/// The machine: a stack of nodes, the heights at which marks lie in it, and a memo of nodes by number.
class PickleReader {
 public:
  PickleReader(std::span<const std::byte> input, std::string_view path) : path_(path) {
    if (input.size() > kMaxPickleBytes) {
      throw Error(Errc::malformed_metadata, fmt::format("{}: a pickle of {} bytes; {} at most are read", path,
                                                        input.size(), kMaxPickleBytes));
    }
    out_.input_ = input;
    // As much as descriptions of tensors need; what grows by doubling is there twice for a moment.
    out_.nodes_.reserve(kFirstInteger + kSharedIntegers + input.size() / 6);
    out_.runs_.reserve(1 + input.size() / 2);
    out_.objects_.reserve(input.size() / 20);
    out_.runs_.push_back(0);  // A run at 0 would read as none.
    for (const PickleKind kind :
         {PickleKind::none, PickleKind::boolean, PickleKind::boolean, PickleKind::tuple}) {
      out_.nodes_.push_back({kind, false, 0, out_.nodes_.size() == kTrue ? 1u : 0u});
    }
    for (std::uint64_t i = 0; i < kSharedIntegers; ++i) {
      out_.nodes_.push_back({PickleKind::integer, false, 0, i});
    }
  }

  Pickle run() {
    while (true) {
      opcode_at_ = at_;
      const auto opcode = take<std::uint8_t>();
      if (opcode == '.') {
        break;
      }
      if (!read_memo(opcode) && !read_number(opcode) && !read_text(opcode) && !read_container(opcode) &&
          !read_items(opcode) && !read_object(opcode)) {
        refuse_opcode(opcode);
      }
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      refuse("it ends with other than one value");
    }
    if (at_ != out_.input_.size()) {
      refuse("bytes follow its end");
    }
    out_.root_ = stack_.back();
    return std::move(out_);
  }

 private:
  using Node = Pickle::Node;

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: byte {} of the pickle: {}", path_, opcode_at_, why));
  }

  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const {
    const auto* const known =
        std::find_if(std::begin(kUnread), std::end(kUnread),
                     [&](const UnreadOpcode& unread) { return unread.opcode == opcode; });
    refuse(known == std::end(kUnread) ? fmt::format("{:#04x} is not an opcode", opcode)
                                      : fmt::format("the opcode {} is not read", known->name));
  }

  // ---- the input

  std::string_view take_bytes(std::uint64_t size) {
    if (size > out_.input_.size() - at_) {
      refuse(fmt::format("{} bytes are asked for, and {} are left", size, out_.input_.size() - at_));
    }
    const std::string_view bytes(reinterpret_cast<const char*>(out_.input_.data()) + at_,
                                 static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return bytes;
  }

  template <class T>
  T take() {
    T value{};
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }

  // ---- nodes and the stack

  PickleNode make(Node node) {
    const auto number = static_cast<std::uint32_t>(out_.nodes_.size());  // At most two for each byte.
    out_.nodes_.push_back(node);
    return PickleNode{number};
  }

  // These return true, as do the functions below that push: the opcode has been read.
  bool push(PickleNode node) {
    stack_.push_back(node);
    return true;
  }
  bool push(std::uint32_t shared) { return push(PickleNode{shared}); }

  [[nodiscard]] std::size_t fence() const noexcept { return marks_.empty() ? 0 : marks_.back(); }

  [[nodiscard]] PickleNode top() const {
    if (stack_.size() <= fence()) {
      refuse("the stack is empty");
    }
    return stack_.back();
  }

  PickleNode pop() {
    const PickleNode node = top();
    stack_.pop_back();
    return node;
  }

  /// The nodes above so many of the stack.
  [[nodiscard]] std::span<const PickleNode> above(std::size_t height) const {
    return std::span(stack_).subspan(height);
  }

  std::size_t pop_mark() {
    if (marks_.empty()) {
      refuse("no mark lies on the stack");
    }
    const std::size_t height = marks_.back();
    marks_.pop_back();
    return height;
  }

  [[nodiscard]] Node& node(PickleNode number) { return out_.nodes_[static_cast<std::uint32_t>(number)]; }

  // ---- opcodes

  bool read_memo(std::uint8_t opcode) {
    switch (opcode) {
      case 0x94:  // MEMOIZE
        return put(static_cast<std::uint32_t>(memo_.size() + sparse_memo_.size()));
      case 'q':
        return put(take<std::uint8_t>());
      case 'r':
        return put(take<std::uint32_t>());
      case 'h':
        return get(take<std::uint8_t>());
      case 'j':
        return get(take<std::uint32_t>());
      default:
        return false;
    }
  }

  /// Numbers that follow one another lie in a row; any others cost an entry each, however large they are.
  bool put(std::uint32_t number) {
    const PickleNode value = top();
    if (number < memo_.size()) {
      memo_[number] = value;
    } else if (number == memo_.size()) {
      memo_.push_back(value);
      sparse_memo_.erase(number);
    } else {
      sparse_memo_[number] = value;
    }
    return true;
  }

  bool get(std::uint32_t number) {
    if (number < memo_.size()) {
      return push(memo_[number]);
    }
    const auto found = sparse_memo_.find(number);
    if (found == sparse_memo_.end()) {
      refuse(fmt::format("nothing was memorised as number {}", number));
    }
    return push(found->second);
  }

  bool read_number(std::uint8_t opcode) {
    switch (opcode) {
      case 'N':
        return push(kNoneNode);
      case 0x88:
        return push(kTrue);
      case 0x89:
        return push(kFalse);
      case 'K':
        return push(kFirstInteger + take<std::uint8_t>());
      case 'M':
        return push_integer(take<std::uint16_t>());
      case 'J':
        return push_integer(take<std::int32_t>());
      case 'G': {
        const std::uint64_t bits = __builtin_bswap64(take<std::uint64_t>());
        return push(make({PickleKind::real, false, 0, bits}));
      }
      case 0x8a:
        return push_long(take_bytes(take<std::uint8_t>()));
      case 0x8b:
        return push_long(take_bytes(take<std::uint32_t>()));
      default:
        return false;
    }
  }

  bool push_integer(std::int64_t value) {
    if (value >= 0 && static_cast<std::uint64_t>(value) < kSharedIntegers) {
      return push(kFirstInteger + static_cast<std::uint32_t>(value));
    }
    return push(make({PickleKind::integer, false, 0, static_cast<std::uint64_t>(value)}));
  }

  /// Takes a little-endian two's complement number.
  bool push_long(std::string_view bytes) {
    const auto has_sign = [](char byte) { return (static_cast<unsigned char>(byte) & 0x80u) != 0; };
    const bool is_negative = !bytes.empty() && has_sign(bytes.back());
    const char filling = is_negative ? '\xff' : '\0';
    while (bytes.size() > 1 && bytes.back() == filling && has_sign(bytes[bytes.size() - 2]) == is_negative) {
      bytes.remove_suffix(1);
    }
    std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    if (bytes.size() <= sizeof value) {
      return push_integer(static_cast<std::int64_t>(value));
    }
    const bool is_unsigned = bytes.size() == sizeof value + 1 && bytes.back() == '\0';
    return push(
        make({is_unsigned ? PickleKind::unsigned_integer : PickleKind::huge_integer, false, 0, value}));
  }

  bool read_text(std::uint8_t opcode) {
    switch (opcode) {
      case 'U':  // Texts of Python 2 among them.
      case 0x8c:
        return push(make_text(PickleKind::text, take<std::uint8_t>()));
      case 'T':
      case 'X':
        return push(make_text(PickleKind::text, take<std::uint32_t>()));
      case 0x8d:
        return push(make_text(PickleKind::text, take<std::uint64_t>()));
      case 'C':
        return push(make_text(PickleKind::bytes, take<std::uint8_t>()));
      case 'B':
        return push(make_text(PickleKind::bytes, take<std::uint32_t>()));
      case 0x8e:
      case 0x96:
        return push(make_text(PickleKind::bytes, take<std::uint64_t>()));
      default:
        return false;
    }
  }

  PickleNode make_text(PickleKind kind, std::uint64_t size) {
    const std::uint64_t begin = at_;
    return make({kind, false, static_cast<std::uint32_t>(take_bytes(size).size()), begin});
  }

  bool read_container(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ')':
        return push(kEmptyTuple);
      case ']':
        return push(make({PickleKind::list, false, 0, 0}));
      case '}':
        return push(make({PickleKind::map, false, 0, 0}));
      case 0x8f:
        return push(make({PickleKind::set, false, 0, 0}));
      case 't':
        return push_tuple(pop_mark());
      case 0x85:
      case 0x86:
      case 0x87: {
        const std::size_t count = opcode - 0x84u;
        if (stack_.size() - fence() < count) {
          refuse("the stack is empty");
        }
        return push_tuple(stack_.size() - count);
      }
      case 'l':
        return push_filled(PickleKind::list);
      case 'd':
        return push_filled(PickleKind::map);
      case 0x91:
        return push_filled(PickleKind::set);
      default:
        return false;
    }
  }

  std::uint32_t room_for(std::size_t count) const {
    if (count + 2 > std::numeric_limits<std::uint32_t>::max() - out_.runs_.size()) {
      refuse("it has too many items");
    }
    return static_cast<std::uint32_t>(out_.runs_.size());
  }

  void append_runs(std::span<const PickleNode> items) {
    for (const PickleNode item : items) {
      out_.runs_.push_back(static_cast<std::uint32_t>(item));
    }
  }

  bool push_tuple(std::size_t height) {
    const std::span<const PickleNode> items = above(height);
    if (items.empty()) {
      return push(kEmptyTuple);
    }
    const std::uint32_t begin = room_for(items.size());
    append_runs(items);
    const auto size = static_cast<std::uint32_t>(items.size());
    stack_.resize(height);
    return push(make({PickleKind::tuple, false, size, begin}));
  }

  bool push_filled(PickleKind kind) {
    const std::size_t height = pop_mark();
    const PickleNode container = make({kind, false, 0, 0});
    add_items(container, height, kind);
    return push(container);
  }

  bool read_items(std::uint8_t opcode) {
    switch (opcode) {
      case 'a':
        return add_items_below_top(1, PickleKind::list);
      case 's':
        return add_items_below_top(2, PickleKind::map);
      case 'e':
        return add_marked_items(PickleKind::list);
      case 'u':
        return add_marked_items(PickleKind::map);
      case 0x90:
        return add_marked_items(PickleKind::set);
      case '0':
        if (stack_.size() == fence()) {  // As Python has it: a mark goes, too.
          static_cast<void>(pop_mark());
        } else {
          static_cast<void>(pop());
        }
        return true;
      case '1':
        stack_.resize(pop_mark());
        return true;
      default:
        return false;
    }
  }

  bool add_items_below_top(std::size_t count, PickleKind kind) {
    if (stack_.size() - fence() <= count) {
      refuse("the stack is empty");
    }
    const std::size_t height = stack_.size() - count;
    add_items(stack_[height - 1], height, kind);
    return true;
  }

  bool add_marked_items(PickleKind kind) {
    const std::size_t height = pop_mark();
    if (height <= fence()) {
      refuse("no container lies below the mark");
    }
    add_items(stack_[height - 1], height, kind);
    return true;
  }

  /// Adds what lies above `height` to a container of that kind, or to an object that takes such items, and drops it.
  void add_items(PickleNode container, std::size_t height, PickleKind kind) {
    const std::span<const PickleNode> items = above(height);
    Node& target = node(container);
    const bool is_mapping = kind == PickleKind::map;
    const bool is_object = target.kind == PickleKind::object;
    if (target.kind != kind && (!is_object || (target.size > 0 && target.is_mapping != is_mapping))) {
      refuse("items are added to what takes none");
    }
    if (is_mapping && items.size() % 2 != 0) {
      refuse("a key has no value");
    }
    if (!items.empty()) {
      const std::uint32_t place = room_for(items.size());
      std::uint64_t& ends =
          is_object ? out_.objects_[static_cast<std::size_t>(target.value)].runs : target.value;
      if (target.size > 0) {
        out_.runs_[static_cast<std::size_t>(ends >> 32)] = place;
      }
      const std::uint64_t first = target.size > 0 ? ends & 0xffff'ffffu : place;
      ends = first | std::uint64_t{place} << 32;
      out_.runs_.push_back(0);
      out_.runs_.push_back(static_cast<std::uint32_t>(items.size()));
      append_runs(items);
      target.size += static_cast<std::uint32_t>(items.size());
      target.is_mapping = is_mapping;
    }
    stack_.resize(height);
  }

  bool read_object(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const PickleNode module = take_line();
        return push_global(module, take_line());
      }
      case 0x93: {
        const PickleNode name = pop();
        return push_global(pop(), name);
      }
      case 'R':
      case 0x81: {
        const PickleNode arguments = pop();
        return push_object(pop(), arguments);
      }
      case 0x92: {
        const bool has_names = out_.size(pop()) > 0;
        const PickleNode arguments = pop();
        return push_object(pop(), has_names ? kNoneNode : arguments);
      }
      case 'b': {
        const PickleNode state = pop();
        if (out_.kind(top()) != PickleKind::object) {
          refuse("a state is given to what takes none");
        }
        PickleNode& slot = out_.objects_[static_cast<std::size_t>(node(top()).value)].state;
        if (slot != kNoneNode) {
          refuse("an object gets two states");
        }
        slot = state;
        return true;
      }
      case 'Q': {
        const PickleNode identity = pop();
        return push(make({PickleKind::persistent, false, 0, static_cast<std::uint32_t>(identity)}));
      }
      case 0x80:
        return check_protocol(take<std::uint8_t>());
      case 0x95: {
        const auto size = take<std::uint64_t>();
        if (size > out_.input_.size() - at_) {
          refuse("a frame ends beyond the pickle");
        }
        return true;
      }
      default:
        return false;
    }
  }

  bool check_protocol(unsigned protocol) const {
    if (protocol > kNewestProtocol) {
      throw Error(Errc::unsupported_version,
                  fmt::format("{}: a pickle of protocol {}; {} is the newest that is read", path_, protocol,
                              kNewestProtocol));
    }
    return true;
  }

  PickleNode take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(out_.input_.data()) + at_,
                                out_.input_.size() - at_);
    const std::size_t size = rest.find('\n');
    if (size == std::string_view::npos) {
      refuse("a name has no end");
    }
    const PickleNode line = make_text(PickleKind::text, size);
    ++at_;
    return line;
  }

  bool push_global(PickleNode module, PickleNode name) {
    if (out_.kind(module) != PickleKind::text || out_.kind(name) != PickleKind::text) {
      refuse("a class is named by other than texts");
    }
    const std::uint64_t both =
        static_cast<std::uint32_t>(module) | std::uint64_t{static_cast<std::uint32_t>(name)} << 32;
    return push(make({PickleKind::global, false, 0, both}));
  }

  bool push_object(PickleNode callable, PickleNode arguments) {
    if (arguments != kNoneNode && out_.kind(arguments) != PickleKind::tuple) {
      refuse("arguments are not a tuple");
    }
    const std::uint64_t number = out_.objects_.size();
    out_.objects_.push_back({callable, arguments, kNoneNode, 0});
    return push(make({PickleKind::object, false, 0, number}));
  }

  std::string_view path_;
  Pickle out_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<PickleNode> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleNode> memo_;
  std::unordered_map<std::uint32_t, PickleNode> sparse_memo_;
};

Pickle Pickle::read(std::span<const std::byte> input, std::string_view path) {
  return PickleReader(input, path).run();
}

std::string_view Pickle::text(PickleNode node) const noexcept {
  return {reinterpret_cast<const char*>(input_.data()) + at(node).value, at(node).size};
}

Pickle::Items Pickle::items(PickleNode node) const noexcept {
  const Node& container = at(node);
  Items items;
  items.runs_ = runs_.data();
  if (container.kind == PickleKind::tuple) {
    items.at_ = static_cast<std::uint32_t>(container.value);
    items.left_ = container.size;
  } else if (container.size > 0) {
    const std::uint64_t runs = container.kind == PickleKind::object ? object_at(node).runs : container.value;
    items.next_run_ = static_cast<std::uint32_t>(runs);
  }
  return items;
}

PickleNode Pickle::item(PickleNode tuple, std::size_t i) const noexcept {
  return PickleNode{runs_[static_cast<std::size_t>(at(tuple).value) + i]};
}

std::optional<PickleNode> Pickle::find(PickleNode map, std::string_view key) const noexcept {
  std::optional<PickleNode> found;
  PickleNode name{};
  PickleNode value{};
  for (Items all = items(map); all.next(name) && all.next(value);) {
    if (kind(name) == PickleKind::text && text(name) == key) {
      found = value;
    }
  }
  return found;
}

std::string Pickle::class_name(PickleNode node) const {
  if (kind(node) == PickleKind::object) {
    node = callable(node);
  }
  if (kind(node) != PickleKind::global) {
    return {};
  }
  const std::uint64_t both = at(node).value;
  std::string module(text(PickleNode{static_cast<std::uint32_t>(both)}));
  if (module == "__builtin__") {
    module = "builtins";
  } else if (constexpr std::string_view kOldNumpy = "numpy.core."; module.starts_with(kOldNumpy)) {
    module.insert(std::string_view("numpy.").size(), "_");
  }
  return module.append(".").append(text(PickleNode{static_cast<std::uint32_t>(both >> 32)}));
}

}  // namespace cairn::formats
