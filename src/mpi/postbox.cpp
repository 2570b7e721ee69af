// SPDX-License-Identifier: Apache-2.0
#include "mpi/postbox.hpp"

#include <algorithm>
#include <iterator>

#include "mpi/mpi_error.hpp"

namespace cairn::mpi {
namespace {

constexpr std::size_t kMostPartBytes = std::size_t{1} << 30;
constexpr int kLastPart = 0;  // Tags.
constexpr int kPart = 1;

bool has_ended(MPI_Request& request) {
  int is_done = 0;
  check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  return is_done != 0;
}

/// Buffers that MPI may use for as long as it lives.
template <class Box>
void leave_to_mpi(Box box) {
  static auto& left = *new std::vector<Box>;  // Never destroyed.
  left.push_back(std::move(box));
}

}  // namespace

Postbox::~Postbox() {
  for (Send& send : sends_) {
    MPI_Request_free(&send.request);
  }
  if (!sends_.empty()) {
    leave_to_mpi(std::move(sends_));
  }
  if (!receipts_.empty()) {
    leave_to_mpi(std::move(receipts_));
  }
}

void Postbox::send(std::size_t to, const coord::Packet& packet) {
  std::size_t offset = 0;
  do {
    const std::size_t bytes = std::min(packet->size() - offset, kMostPartBytes);
    const bool is_last = offset + bytes == packet->size();
    sends_.push_back({packet});
    check(MPI_Isend(packet->data() + offset, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to),
                    is_last ? kLastPart : kPart, communicator_, &sends_.back().request),
          "MPI_Isend");
    offset += bytes;
  } while (offset < packet->size());
}

bool Postbox::accept() {
  int is_there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &is_there, &message, &status), "MPI_Improbe");
  if (is_there == 0) {
    return false;
  }
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  auto receipt = std::make_unique<Receipt>();
  receipt->from = static_cast<std::size_t>(status.MPI_SOURCE);
  receipt->is_last = status.MPI_TAG == kLastPart;
  receipt->bytes.resize(static_cast<std::size_t>(bytes));
  check(MPI_Imrecv(receipt->bytes.data(), bytes, MPI_BYTE, &message, &receipt->request), "MPI_Imrecv");
  receipts_.push_back(std::move(receipt));
  return true;
}

bool Postbox::collect() {
  bool has_any = false;
  std::map<std::size_t, bool> is_held_up;  // By rank: an earlier packet of it is still coming.
  for (auto next = receipts_.begin(); next != receipts_.end();) {
    Receipt& receipt = **next;
    if (is_held_up[receipt.from] || !has_ended(receipt.request)) {
      is_held_up[receipt.from] = true;
      ++next;
      continue;
    }
    std::string& whole = parts_[receipt.from];
    whole = whole.empty() ? std::move(receipt.bytes) : whole + receipt.bytes;
    if (receipt.is_last) {
      arrived_.emplace_back(receipt.from, std::make_shared<const std::string>(std::exchange(whole, {})));
    }
    next = receipts_.erase(next);
    has_any = true;
  }
  return has_any;
}

bool Postbox::turn() {
  bool has_any = false;
  while (accept()) {
    has_any = true;
  }
  has_any |= collect();
  const std::size_t before = sends_.size();
  std::erase_if(sends_, [](Send& send) { return has_ended(send.request); });
  return has_any || sends_.size() != before;
}

std::pair<std::size_t, coord::Packet> Postbox::take() {
  if (arrived_.empty()) {
    return {0, nullptr};
  }
  std::pair<std::size_t, coord::Packet> next = std::move(arrived_.front());
  arrived_.pop_front();
  return next;
}

}  // namespace cairn::mpi
