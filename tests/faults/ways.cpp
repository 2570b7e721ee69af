// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include "faults/matrix.hpp"

namespace cairn::faults {
namespace {

void add(std::vector<Way>& ways, Op op, std::initializer_list<int> errors, Effect effect, Expect expect) {
  for (const int error : errors) {
    ways.push_back({op, error, effect, expect});
  }
}

void add_files(std::vector<Way>& ways) {
  add(ways, Op::open, {EACCES, EMFILE, EIO, ESTALE}, Effect::once, Expect::borne);
  add(ways, Op::open, {EINTR}, Effect::once, Expect::retried);
  add(ways, Op::open, {ENFILE}, Effect::lasts, Expect::told);
  add(ways, Op::close, {EIO, EINTR, EDQUOT}, Effect::once, Expect::borne);
  add(ways, Op::status, {EIO, ESTALE}, Effect::once, Expect::borne);
  add(ways, Op::list, {EIO}, Effect::once, Expect::borne);
  add(ways, Op::make_directory, {EIO, ENOSPC, EDQUOT, EACCES}, Effect::once, Expect::told);
  add(ways, Op::rename, {EIO, ENOSPC, ESTALE, EACCES}, Effect::once, Expect::told);
  add(ways, Op::rename, {EIO}, Effect::lasts, Expect::told);
  add(ways, Op::link, {EIO, ENOSPC, EDQUOT, EMLINK}, Effect::once, Expect::told);
  add(ways, Op::unlink, {EIO, EACCES}, Effect::once, Expect::borne);
  add(ways, Op::unlink, {EIO}, Effect::lasts, Expect::borne);
  for (const Op op : {Op::status, Op::make_directory, Op::rename, Op::link, Op::unlink}) {
    add(ways, op, {EINTR}, Effect::once, Expect::retried);
  }
  add(ways, Op::lock, {EAGAIN, ENOLCK}, Effect::once, Expect::borne);
}

void add_bytes(std::vector<Way>& ways) {
  add(ways, Op::allocate, {ENOSPC, EDQUOT, EIO}, Effect::once, Expect::told);
  add(ways, Op::allocate, {EINTR, EOPNOTSUPP}, Effect::once, Expect::retried);
  add(ways, Op::truncate, {EIO, EDQUOT}, Effect::once, Expect::told);
  add(ways, Op::truncate, {EINTR}, Effect::once, Expect::retried);
  for (const Op op : {Op::write, Op::ring_write}) {
    add(ways, op, {EIO, ENOSPC, EDQUOT, ESTALE, ECANCELED}, Effect::once, Expect::told);
    add(ways, op, {ENOSPC}, Effect::lasts, Expect::told);
    add(ways, op, {EINTR, EAGAIN}, Effect::once, Expect::retried);
    add(ways, op, {0}, Effect::cut, Expect::retried);
  }
  for (const Op op : {Op::read, Op::ring_read}) {
    add(ways, op, {EIO, ECANCELED}, Effect::once, Expect::told);
    add(ways, op, {ESTALE}, Effect::once,
        Expect::borne);  // As of a checkpoint that was replaced: read again.
    add(ways, op, {EINTR, EAGAIN}, Effect::once, Expect::retried);
    add(ways, op, {0}, Effect::cut, Expect::retried);
  }
  for (const Op op : {Op::sync, Op::sync_data, Op::ring_sync}) {
    add(ways, op, {EIO, ENOSPC, EDQUOT, ESTALE, EINTR, EAGAIN, ECANCELED}, Effect::once, Expect::told);
  }
  for (const Op op : {Op::sync, Op::sync_data, Op::write}) {
    add(ways, op, {EIO}, Effect::lasts, Expect::told);
  }
}

void add_engine(std::vector<Way>& ways) {
  add(ways, Op::map, {ENOMEM}, Effect::once, Expect::told);
  add(ways, Op::make_eventfd, {EMFILE, ENOMEM}, Effect::once, Expect::told);
  add(ways, Op::make_ring, {EPERM, ENOSYS, ENOMEM, EMFILE}, Effect::once, Expect::told);
  add(ways, Op::make_ring, {EINVAL}, Effect::once, Expect::retried);
  add(ways, Op::make_ring, {EINVAL}, Effect::lasts, Expect::told);
  add(ways, Op::probe_ring, {ENOMEM}, Effect::once, Expect::told);
  add(ways, Op::enter_ring, {EINTR, EAGAIN, EBUSY, ENOMEM}, Effect::once, Expect::retried);
  add(ways, Op::start_thread, {EAGAIN}, Effect::once, Expect::borne);
  add(ways, Op::start_thread, {EAGAIN}, Effect::lasts, Expect::borne);
}

}  // namespace

std::vector<Way> ways_of_calls() {
  std::vector<Way> ways;
  add_files(ways);
  add_bytes(ways);
  add_engine(ways);
  return ways;
}

std::vector<Way> ways_of_memory() {
  return {{Op::new_memory, ENOMEM, Effect::once, Expect::borne}};
}

std::vector<Way> ways_of_slow_calls() {
  std::vector<Way> ways;
  for (std::size_t kind = 0; kind < testing::kSystemCalls; ++kind) {
    ways.push_back({static_cast<Op>(kind), 0, Effect::slow, Expect::borne});
  }
  return ways;
}

}  // namespace cairn::faults
