// SPDX-License-Identifier: Apache-2.0
#include "store/internal/program_claim.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/chunk_hash.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"

namespace cairn::store {
namespace {

constexpr std::string_view kClaimMagic = "CAIRNPRG";
constexpr std::uint32_t kClaimVersion = 1;
constexpr std::size_t kHashedBytes = 64;
constexpr std::size_t kClaimBytes = 128;
constexpr std::uint64_t kNoStep = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kFileMode = 0600;  // Who can lock it can keep the program from its memory.

std::uint64_t hash_of(std::string_view bytes) {
  return io::hash_chunk(std::as_bytes(std::span(bytes.substr(0, kHashedBytes))));
}

std::optional<ClaimRecord> read_record(const io::FileHandle& file, const std::filesystem::path& path) {
  std::string bytes(kClaimBytes, '\0');
  try {
    io::read_all(file, std::as_writable_bytes(std::span(bytes)), 0, path);
  } catch (const Error&) {  // It is shorter: its program died before it had said anything.
    CAIRN_PROBE("store.claim_without_record");
    return std::nullopt;
  }
  return parse_claim(bytes);
}

[[noreturn]] void throw_busy(const std::filesystem::path& path, const std::optional<ClaimRecord>& holder) {
  CAIRN_PROBE("store.memory_filled_by_another_program");
  const std::string who = holder ? fmt::format("process {} (rank {})", holder->pid, holder->rank)
                                 : std::string("another process");
  throw Error(std::error_code(EBUSY, std::system_category()),
              fmt::format("{} fills {}", who, path.parent_path().string()));
}

}  // namespace

io::FileHandle open_to_lock(const io::Directory& directory, std::string_view name) {
  const std::string text(name);
  const std::filesystem::path path = directory.path() / text;
  io::Syscalls& syscalls = directory.syscalls();
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int fd = io::uninterrupted(
      [&] { return syscalls.open_beneath(directory.fd(), text.c_str(), kFlags, kFileMode); });
  io::FileHandle file(syscalls, io::require(fd, "open", path));
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(file.fd(), status); }), "stat", path);
  if (status.kind != io::FileKind::regular) {
    throw Error(Errc::malformed_metadata, fmt::format("{} is not a regular file", path.string()));
  }
  return file;
}

std::string encode_claim(const ClaimRecord& record) {
  std::string bytes(kClaimMagic);
  put(bytes, kClaimVersion);
  put(bytes, record.rank);
  put(bytes, record.pid);
  put(bytes, record.start_time);
  bytes.append(reinterpret_cast<const char*>(record.program.bytes.data()), record.program.bytes.size());
  put(bytes, record.left_step.value_or(kNoStep));
  put(bytes, std::uint32_t{record.has_ended});
  put(bytes, std::uint32_t{0});
  CAIRN_ASSERT(bytes.size() == kHashedBytes, "the hash is of all that stands before it");
  put(bytes, hash_of(bytes));
  bytes.resize(kClaimBytes);
  return bytes;
}

std::optional<ClaimRecord> parse_claim(std::string_view bytes) {
  if (bytes.size() != kClaimBytes || !bytes.starts_with(kClaimMagic)) {
    return std::nullopt;
  }
  std::string_view rest = bytes.substr(kClaimMagic.size());
  if (take<std::uint32_t>(rest) != kClaimVersion) {
    return std::nullopt;
  }
  ClaimRecord record;
  record.rank = take<std::uint32_t>(rest);
  record.pid = take<std::uint64_t>(rest);
  record.start_time = take<std::uint64_t>(rest);
  const std::string_view program = take_bytes(rest, record.program.bytes.size());
  std::transform(program.begin(), program.end(), record.program.bytes.begin(),
                 [](char c) { return static_cast<std::byte>(c); });
  const auto step = take<std::uint64_t>(rest);
  record.left_step = step == kNoStep ? std::nullopt : std::optional(step);
  record.has_ended = take<std::uint32_t>(rest) == 1;
  return encode_claim(record) == bytes ? std::optional(record) : std::nullopt;
}

ClaimLook look_at_claim(const io::Directory& root) {
  if (!root.status(kProgramName)) {
    return {};
  }
  const std::filesystem::path path = root.path() / kProgramName;
  const io::FileHandle file = open_to_lock(root, kProgramName);
  ClaimLook look;
  look.is_free =
      io::uninterrupted([&] { return file.syscalls().try_lock_for_process(file.fd()); }) != -EAGAIN;
  look.record = read_record(file, path);
  return look;
}

ProgramClaim::ProgramClaim(const io::Directory& root, std::uint32_t rank, const RandomSource& random)
    : path_(root.path() / kProgramName), file_(open_to_lock(root, kProgramName)) {
  const int locked = io::uninterrupted([&] { return file_.syscalls().try_lock_for_process(file_.fd()); });
  before_ = read_record(file_, path_);
  if (locked == -EAGAIN) {
    throw_busy(path_, before_);
  }
  io::require(locked, "lock", path_);
  const Uuid program = make_uuid(random);
  const Owner self = this_process(program);
  record_.rank = rank;
  record_.pid = self.pid;
  record_.start_time = self.start_time;
  record_.program = program;
  write();
  renew();  // It has kept its name.
}

void ProgramClaim::renew() const {
  CAIRN_ASSERT(!record_.has_ended, "a program that has ended fills nothing any more");
  io::Syscalls& syscalls = file_.syscalls();
  const int locked = io::uninterrupted([&] { return syscalls.try_lock_for_process(file_.fd()); });
  const std::optional<ClaimRecord> holder = read_record(file_, path_);
  if (locked == -EAGAIN || holder != record_) {
    throw_busy(path_, holder);
  }
  io::require(locked, "lock", path_);
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(file_.fd(), status); }), "stat", path_);
  if (status.links == 0) {
    throw_errno(ENOENT, "claim", path_);
  }
}

void ProgramClaim::end(std::optional<std::uint64_t> left_step) {
  record_.left_step = left_step;
  record_.has_ended = true;
  write();
}

void ProgramClaim::write() {
  const std::string bytes = encode_claim(record_);
  io::write_all(file_, std::as_bytes(std::span(bytes)), 0, path_);
}

}  // namespace cairn::store
