// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/pickle.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/decimal_digits.hpp"

namespace cairn::formats {
namespace {

// The words of a node, after its kind. Of a tuple: the number of items, the items. Of another container, and
// of an object: the number of items, the first and the last of its runs, or 0; then of an object its three parts. Of a
// global: two texts. Of what stands for an object: its identity. A run is the next run, or 0, the number of its items,
// the items.
constexpr std::uint32_t kSize = 1;
constexpr std::uint32_t kFirstRun = 2;
constexpr std::uint32_t kLastRun = 3;
constexpr std::uint32_t kStateWord = 6;
constexpr std::uint32_t kMappingBit = 0x100;  // Beside the kind of an object.

constexpr std::uint32_t kHighBit = static_cast<std::uint32_t>(kNoneNode);
constexpr PickleNode kEmptyTuple{kHighBit + 1};    // None has one word.
constexpr PickleNode kNothing{~std::uint32_t{0}};  // In the memo.
// Each look at an integer or at a name costs so much at most, since nodes are shared.
constexpr std::size_t kMostNumberBytes = 255;
constexpr std::size_t kMostNameBytes = 1024;
constexpr unsigned kNewestProtocol = 5;

/// An opcode that pushes a value, which is read from the input when somebody asks: of so many bytes, or of a length of
/// so many bytes and what it says.
struct Leaf {
  PickleKind kind{};
  std::uint8_t width = 0;
  bool has_length = false;
};
constexpr std::array<Leaf, 256> kLeaves = [] {
  using enum PickleKind;
  std::array<Leaf, 256> leaves{};
  leaves[0x88] = leaves[0x89] = {boolean};
  leaves['K'] = {integer, 1};
  leaves['M'] = {integer, 2};
  leaves['J'] = {integer, 4};
  leaves[0x8a] = {integer, 1, true};
  leaves[0x8b] = {integer, 4, true};
  leaves['G'] = {real, 8};
  leaves['U'] = leaves[0x8c] = {text, 1, true};  // Texts of Python 2 among them.
  leaves['T'] = leaves['X'] = {text, 4, true};
  leaves[0x8d] = {text, 8, true};
  leaves['C'] = {bytes, 1, true};
  leaves['B'] = {bytes, 4, true};
  leaves[0x8e] = leaves[0x96] = {bytes, 8, true};
  leaves['c'] = {global};  // Two lines.
  return leaves;
}();

/// Forms of protocols 0 and 1, extensions, and buffers that are not in the file.
struct UnreadOpcode {
  std::uint8_t opcode;
  std::string_view name;
};
constexpr UnreadOpcode kUnread[] = {
    {'i', "INST"},    {'o', "OBJ"},   {'P', "PERSID"},       {0x82, "EXT1"},
    {0x83, "EXT2"},   {0x84, "EXT4"}, {'g', "GET"},          {'p', "PUT"},
    {'S', "STRING"},  {'I', "INT"},   {'L', "LONG"},         {'F', "FLOAT"},
    {'V', "UNICODE"}, {'2', "DUP"},   {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};

constexpr bool is_leaf(PickleNode node) noexcept {
  return static_cast<std::uint32_t>(node) < kHighBit;
}

constexpr bool has_sign(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0x80u) != 0;
}

/// A little-endian number in two's complement, without the bytes that only repeat its sign.
std::string_view shortened(std::string_view bytes) noexcept {
  const char filling = !bytes.empty() && has_sign(bytes.back()) ? '\xff' : '\0';
  while (bytes.size() > 1 && bytes.back() == filling &&
         has_sign(bytes[bytes.size() - 2]) == has_sign(filling)) {
    bytes.remove_suffix(1);
  }
  return bytes;
}

std::uint64_t little_endian(std::string_view bytes) noexcept {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), bytes.size());
  return number;
}

std::string_view chars_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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
    out_.words_.reserve(input.size());  // Enough for tensors; what grows is there twice for a moment.
    make(PickleKind::none, {});
    make(PickleKind::tuple, {PickleNode{}});
  }

  Pickle run() {
    while (step()) {
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
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: byte {} of the pickle: {}", path_, opcode_at_, why));
  }

  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const {
    for (const UnreadOpcode& unread : kUnread) {
      if (unread.opcode == opcode) {
        const bool is_old = opcode < 0x80;  // Opcodes of later protocols have the highest bit.
        refuse(fmt::format(
            "the opcode {} is not read{}", unread.name,
            is_old ? ", nor are the protocols 0 and 1 that have it: write it again in Python with "
                     "protocol 2 or later (pickle_protocol of torch.save)"
                   : ""));
      }
    }
    refuse(fmt::format("{:#04x} is not an opcode", opcode));
  }

  /// Reads one opcode; false at the end. All that it calls return true.
  bool step() {
    opcode_at_ = at_;
    const auto code = take<std::uint8_t>();
    if (const Leaf leaf = kLeaves[code]; leaf.kind != PickleKind::none) {
      const std::uint64_t number = little_endian(take_bytes(leaf.width));
      static_cast<void>(take_bytes(leaf.has_length ? number : 0));
      if (leaf.kind == PickleKind::global) {
        skip_line();
        skip_line();
      }
      return push(PickleNode{static_cast<std::uint32_t>(opcode_at_)});
    }
    switch (code) {
      case '.':
        return false;
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':  // As Python has it: a mark may go, too.
        stack_.resize(stack_.size() == fence() ? take_mark() : below(1));
        return true;
      case '1':
        stack_.resize(take_mark());
        return true;
      case 0x94:  // MEMOIZE
        return put(memo_.size());
      case 'q':
        return put(take<std::uint8_t>());
      case 'r':
        return put(take<std::uint32_t>());
      case 'h':
        return get(take<std::uint8_t>());
      case 'j':
        return get(take<std::uint32_t>());
      case 'a':
        return add_items(below(1), PickleKind::list);
      case 's':
        return add_items(below(2), PickleKind::map);
      case 'e':
        return add_items(take_mark(), PickleKind::list);
      case 'u':
        return add_items(take_mark(), PickleKind::map);
      case 0x90:
        return add_items(take_mark(), PickleKind::set);
      default:
        return read_container(code);
    }
  }

  bool read_container(std::uint8_t code) {
    switch (code) {
      case 'N':
        return push(kNoneNode);
      case ')':
        return push(kEmptyTuple);
      case ']':
        return push_filled(PickleKind::list, stack_.size());
      case '}':
        return push_filled(PickleKind::map, stack_.size());
      case 0x8f:
        return push_filled(PickleKind::set, stack_.size());
      case 'l':
        return push_filled(PickleKind::list, take_mark());
      case 'd':
        return push_filled(PickleKind::map, take_mark());
      case 0x91:
        return push_filled(PickleKind::set, take_mark());
      case 't':
        return push_tuple(take_mark());
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(below(code - 0x84u));
      case 0x80:
        if (const unsigned protocol = take<std::uint8_t>(); protocol > kNewestProtocol) {
          throw Error(Errc::unsupported_version,
                      fmt::format("{}: a pickle of protocol {}; {} is the newest that is read", path_,
                                  protocol, kNewestProtocol));
        }
        return true;
      case 0x95:
        if (take<std::uint64_t>() > out_.input_.size() - at_) {
          refuse("a frame ends beyond the pickle");
        }
        return true;
      default:
        return read_object(code);
    }
  }

  bool read_object(std::uint8_t code) {
    switch (code) {
      case 0x93: {
        const PickleNode name = pop();
        const PickleNode module = pop();
        if (out_.kind(module) != PickleKind::text || out_.kind(name) != PickleKind::text) {
          refuse("a class is named by other than texts");
        }
        return push(make(PickleKind::global, {module, name}));
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
        return set_state(top(), state);
      }
      case 'Q':
        return push(make(PickleKind::persistent, {pop()}));
      default:
        refuse_opcode(code);
    }
  }

  // ---- the input

  std::string_view take_bytes(std::uint64_t size) {
    if (size > out_.input_.size() - at_) {
      refuse(fmt::format("{} bytes are asked for, and {} are left", size, out_.input_.size() - at_));
    }
    at_ += static_cast<std::size_t>(size);
    return chars_of(out_.input_).substr(at_ - static_cast<std::size_t>(size), static_cast<std::size_t>(size));
  }

  template <class T>
  T take() {
    return static_cast<T>(little_endian(take_bytes(sizeof(T))));
  }

  void skip_line() {
    const std::size_t end = chars_of(out_.input_).find('\n', at_);
    if (end == std::string_view::npos) {
      refuse("a name has no end");
    }
    at_ = end + 1;
  }

  // ---- nodes

  void append(std::span<const PickleNode> words) {
    if (words.size() > kHighBit - out_.words_.size()) {
      refuse("it has too many items");
    }
    out_.words_.insert(out_.words_.end(), words.begin(), words.end());
  }

  PickleNode make(PickleKind kind, std::initializer_list<PickleNode> words) {
    const PickleNode node{kHighBit + static_cast<std::uint32_t>(out_.words_.size())};
    const PickleNode first{static_cast<std::uint32_t>(kind)};
    append({&first, 1});
    append({words.begin(), words.size()});
    return node;
  }

  PickleNode& word(PickleNode node, std::uint32_t i) {
    return out_.words_[static_cast<std::uint32_t>(node) - kHighBit + i];
  }

  // ---- the stack; what pushes returns true: the pickle goes on

  bool push(PickleNode node) {
    stack_.push_back(node);
    return true;
  }

  [[nodiscard]] std::size_t fence() const noexcept { return marks_.empty() ? 0 : marks_.back(); }

  /// The height of the stack below so many nodes, all of them above the last mark.
  [[nodiscard]] std::size_t below(std::size_t count) const {
    if (stack_.size() - fence() < count) {
      refuse("the stack is empty");
    }
    return stack_.size() - count;
  }

  [[nodiscard]] PickleNode top() const { return stack_[below(1)]; }

  PickleNode pop() {
    const PickleNode node = top();
    stack_.pop_back();
    return node;
  }

  std::size_t take_mark() {
    if (marks_.empty()) {
      refuse("no mark lies on the stack");
    }
    const std::size_t height = marks_.back();
    marks_.pop_back();
    return height;
  }

  bool put(std::size_t number) {
    if (number >= out_.input_.size()) {  // As many as there are opcodes would do.
      refuse(fmt::format("a value is memorised as number {}", number));
    }
    memo_.resize(std::max(memo_.size(), number + 1), kNothing);
    memo_[number] = top();
    return true;
  }

  bool get(std::size_t number) {
    if (number >= memo_.size() || memo_[number] == kNothing) {
      refuse(fmt::format("nothing was memorised as number {}", number));
    }
    return push(memo_[number]);
  }

  bool push_tuple(std::size_t height) {
    const std::span<const PickleNode> items = std::span(stack_).subspan(height);
    const PickleNode tuple =
        items.empty() ? kEmptyTuple
                      : make(PickleKind::tuple, {PickleNode{static_cast<std::uint32_t>(items.size())}});
    append(items);
    stack_.resize(height);
    return push(tuple);
  }

  /// Makes a container of what lies above `height`.
  bool push_filled(PickleKind kind, std::size_t height) {
    const PickleNode container = make(kind, {PickleNode{}, PickleNode{}, PickleNode{}});
    stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(height), container);
    return add_items(height + 1, kind);
  }

  /// Adds what lies above `height` to the container of that kind below it, or to an object that takes such items.
  bool add_items(std::size_t height, PickleKind kind) {
    if (height <= fence()) {
      refuse("the stack is empty: no container lies below its items");
    }
    const PickleNode target = stack_[height - 1];
    const std::span<const PickleNode> items = std::span(stack_).subspan(height);
    const bool is_mapping = kind == PickleKind::map;
    const bool is_object = out_.kind(target) == PickleKind::object &&
                           (out_.size(target) == 0 || out_.is_mapping(target) == is_mapping);
    if (out_.kind(target) != kind && !is_object) {
      refuse("items are added to what takes none");
    }
    if (is_mapping && items.size() % 2 != 0) {
      refuse("a key has no value");
    }
    if (!items.empty()) {
      const PickleNode run{static_cast<std::uint32_t>(out_.words_.size())};
      const PickleNode head[] = {PickleNode{}, PickleNode{static_cast<std::uint32_t>(items.size())}};
      append(head);
      append(items);
      const auto last = static_cast<std::uint32_t>(word(target, kLastRun));
      (last == 0 ? word(target, kFirstRun) : out_.words_[last]) = run;
      word(target, kLastRun) = run;
      word(target, kSize) = PickleNode{static_cast<std::uint32_t>(out_.size(target) + items.size())};
      if (is_object && is_mapping) {
        word(target, 0) = PickleNode{static_cast<std::uint32_t>(PickleKind::object) | kMappingBit};
      }
    }
    stack_.resize(height);
    return true;
  }

  bool push_object(PickleNode callable, PickleNode arguments) {
    if (arguments != kNoneNode && out_.kind(arguments) != PickleKind::tuple) {
      refuse("arguments are not a tuple");
    }
    constexpr PickleNode kZero{};
    return push(make(PickleKind::object, {kZero, kZero, kZero, callable, arguments, kNoneNode}));
  }

  bool set_state(PickleNode object, PickleNode state) {
    if (out_.kind(object) != PickleKind::object) {
      refuse("a state is given to what takes none");
    }
    if (out_.state(object) != kNoneNode) {
      refuse("an object gets two states");
    }
    word(object, kStateWord) = state;
    return true;
  }

  std::string_view path_;
  Pickle out_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<PickleNode> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleNode> memo_;
};

Pickle Pickle::read(std::span<const std::byte> input, std::string_view path) {
  return PickleReader(input, path).run();
}

PickleKind Pickle::kind(PickleNode node) const noexcept {
  if (!is_leaf(node)) {
    return static_cast<PickleKind>(static_cast<std::uint32_t>(word(node, 0)) & ~kMappingBit);
  }
  const Leaf leaf = kLeaves[static_cast<std::uint8_t>(input_[static_cast<std::uint32_t>(node)])];
  if (leaf.kind != PickleKind::integer || !leaf.has_length) {
    return leaf.kind;
  }
  std::string_view number = text(node);
  if (number.size() > kMostNumberBytes) {
    return PickleKind::huge_integer;
  }
  number = shortened(number);
  if (number.size() <= sizeof(std::uint64_t)) {
    return PickleKind::integer;
  }
  return number.size() == sizeof(std::uint64_t) + 1 && number.back() == '\0' ? PickleKind::unsigned_integer
                                                                             : PickleKind::huge_integer;
}

std::string_view Pickle::text(PickleNode leaf) const noexcept {
  const std::string_view rest = chars_of(input_).substr(static_cast<std::uint32_t>(leaf));
  const Leaf form = kLeaves[static_cast<std::uint8_t>(rest.front())];
  const std::string_view number = rest.substr(1, form.width);
  return form.has_length ? rest.substr(1 + number.size(), static_cast<std::size_t>(little_endian(number)))
                         : number;
}

bool Pickle::boolean(PickleNode node) const noexcept {
  return input_[static_cast<std::uint32_t>(node)] == std::byte{0x88};
}

std::uint64_t Pickle::integer(PickleNode node) const noexcept {
  std::string_view bytes = text(node);
  const auto opcode = static_cast<char>(input_[static_cast<std::uint32_t>(node)]);
  const bool is_negative = opcode != 'K' && opcode != 'M' && !bytes.empty() && has_sign(bytes.back());
  std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
  bytes = bytes.substr(0, sizeof value);
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

std::optional<std::string> Pickle::decimal(PickleNode node) const {
  switch (kind(node)) {
    case PickleKind::integer:
      return fmt::to_string(static_cast<std::int64_t>(integer(node)));
    case PickleKind::unsigned_integer:
      return fmt::to_string(integer(node));
    case PickleKind::huge_integer:
      return text(node).size() > kMostNumberBytes ? std::nullopt : std::optional(decimal_digits(text(node)));
    default:
      return std::nullopt;
  }
}

double Pickle::real(PickleNode node) const noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, text(node).data(), sizeof bits);
  return std::bit_cast<double>(__builtin_bswap64(bits));
}

std::size_t Pickle::size(PickleNode node) const noexcept {
  const PickleKind is = kind(node);
  const bool has_items = !is_leaf(node) && is >= PickleKind::tuple && is <= PickleKind::object;
  return has_items ? static_cast<std::uint32_t>(word(node, kSize)) : 0;
}

Pickle::Items Pickle::items(PickleNode node) const noexcept {
  Items items;
  items.words_ = words_;
  items.run_ = tuple(node);
  if (items.run_.empty() && size(node) > 0) {
    items.next_run_ = static_cast<std::uint32_t>(word(node, kFirstRun));
  }
  return items;
}

Pickle::Nodes Pickle::tuple(PickleNode node) const noexcept {
  if (kind(node) != PickleKind::tuple) {
    return {};
  }
  return Nodes(words_).subspan(static_cast<std::uint32_t>(node) - kHighBit + kSize + 1, size(node));
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

bool Pickle::is_mapping(PickleNode object) const noexcept {
  return (static_cast<std::uint32_t>(word(object, 0)) & kMappingBit) != 0;
}

std::optional<Pickle::Nodes> Pickle::call(PickleNode node, std::string_view name) const {
  if (kind(node) != PickleKind::object || arguments(node) == kNoneNode || class_name(node) != name) {
    return std::nullopt;
  }
  return tuple(arguments(node));
}

std::string Pickle::class_name(PickleNode node) const {
  if (kind(node) == PickleKind::object) {
    node = callable(node);
  }
  if (kind(node) != PickleKind::global) {
    return {};
  }
  std::string module;
  std::string_view name;
  if (is_leaf(node)) {
    const std::string_view lines =
        chars_of(input_).substr(static_cast<std::uint32_t>(node) + 1, kMostNameBytes);
    module = lines.substr(0, lines.find('\n'));
    name = lines.substr(std::min(module.size() + 1, lines.size()));
    name = name.substr(0, name.find('\n'));
  } else {
    module = text(word(node, 1)).substr(0, kMostNameBytes);
    name = text(word(node, 2)).substr(0, kMostNameBytes);
  }
  if (module == "__builtin__") {
    module = "builtins";
  } else if (constexpr std::string_view kOldNumpy = "numpy.core."; module.starts_with(kOldNumpy)) {
    module.insert(std::string_view("numpy.").size(), "_");
  }
  return module.append(".").append(name);
}

}  // namespace cairn::formats
