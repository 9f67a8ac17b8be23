// What a rank does on the threads of its streams: it waits for its turn and for the others, and moves the bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "support/nccl_stand_in/rank.h"
#include "support/nccl_stand_in/rules.h"

namespace nccl_stand_in {
namespace {

// Networks find out that a process is gone; shared memory and NVLink do not.
bool reports_remote_errors() { return std::getenv("NCCL_STAND_IN_REMOTE_ERRORS") != nullptr; }

// What a call is going to write is not to be read before it is done. What it reads itself stays.
void spoil(const Unit& unit, int ranks, int rank) {
  const auto fill = [](std::byte* begin, const std::byte* end) {
    if (begin < end) std::memset(begin, 0xff, static_cast<size_t>(end - begin));
  };
  for (const Op& op : unit.ops()) {
    const Range to = written_by(op, ranks, rank), from = read_by(op, ranks, rank);
    if (!from.overlaps(to)) {
      fill(op.to, to.end);
    } else if (op.kind == Kind::all_gather) {  // in place
      fill(op.to, from.begin);
      fill(op.to + (from.end - to.begin), to.end);
    }
  }
}

}  // namespace

void Rank::execute(const Unit& unit, uint64_t number) {
  try {
    if (take_turn(number)) run(unit);
  } catch (const Stopped&) {  // aborted
    const RoomLock lock(*room_);
    room_->boards[rank_].is_active = false;
  }
  {
    const std::lock_guard own(mutex_);
    done_ = number;
  }
  turn_.notify_all();
  room_->ring();
}

// NCCL carries out the calls of a communicator in the order in which they were made, whatever their streams.
bool Rank::take_turn(uint64_t number) {
  std::unique_lock own(mutex_);
  turn_.wait(own, [&] { return done_ == number - 1 || is_aborted_; });
  return !is_aborted_;
}

void Rank::run(const Unit& unit) {
  std::string fault;
  const InUse use(unit, ranks_, rank_, fault);
  if (fault.empty()) spoil(unit, ranks_, rank_);
  RoomLock lock(*room_);
  Board& own = room_->boards[rank_];
  own.is_active = true;
  own.unit = unit;
  own.is_done = {};
  const bool is_collective = unit.list[0].is_collective();
  if (is_collective) own.collectives += 1, own.collective = unit.list[0];
  if (fault.empty()) fault = fault_among_ranks(*room_, ranks_, rank_);
  if (!fault.empty()) room_->fail(fault);
  room_->ring();
  stop_if_failed(lock);
  is_collective ? run_collective(lock, unit.list[0]) : run_messages(lock, unit);
  own.is_active = false;
}

// A kernel whose partners do other things never ends: the stream stands still until the communicator is aborted.
void Rank::stop_if_failed(RoomLock& lock) {
  const auto is_aborted = [&] {
    const std::lock_guard own(mutex_);
    return is_aborted_;
  };
  while (room_->has_failed && !is_aborted()) lock.wait();
  if (is_aborted()) throw Stopped();
}

void Rank::wait(RoomLock& lock) {
  if (!lock.wait() && reports_remote_errors() && !others_live()) {
    const std::lock_guard own(mutex_);
    is_remote_gone_ = true;
  }
  stop_if_failed(lock);
}

void Rank::meet(RoomLock& lock) {
  const uint64_t meeting = ++room_->boards[rank_].meetings;
  room_->ring();
  for (int other = 0; other < ranks_; ++other)
    while (room_->boards[other].meetings < meeting) wait(lock);
}

// Chunk by chunk: all ranks lay theirs out, meet, take what they need, and meet again before the next.
void Rank::run_collective(RoomLock& lock, const Op& op) {
  const uint64_t width = size_of(op.type), all = static_cast<uint64_t>(ranks_), me = static_cast<uint64_t>(rank_);
  const uint64_t chunk = kStagingBytes / width / (op.kind == Kind::reduce_scatter ? all : 1);
  const auto staging = [&](uint64_t rank, uint64_t piece = 0) { return room_->staging[rank] + piece * chunk * width; };
  meet(lock);
  for (uint64_t begin = 0; begin < op.count; begin += chunk) {
    const uint64_t count = std::min(chunk, op.count - begin), bytes = count * width;
    const auto place = [&](uint64_t piece) { return (piece * op.count + begin) * width; };
    const auto sum_to = [&](std::byte* to, uint64_t piece) {
      std::memcpy(to, staging(0, piece), bytes);
      for (uint64_t other = 1; other < all; ++other) reduce_into(to, staging(other, piece), count, op.type, op.reduce);
    };
    lock.unlock();
    if (op.kind == Kind::reduce_scatter)
      for (uint64_t piece = 0; piece < all; ++piece) std::memcpy(staging(me, piece), op.from + place(piece), bytes);
    else if (op.kind != Kind::broadcast || op.peer == rank_)
      std::memcpy(staging(me), op.from + place(0), bytes);
    lock.lock();
    meet(lock);
    lock.unlock();
    switch (op.kind) {
      case Kind::all_reduce:
        sum_to(op.to + place(0), 0);
        break;
      case Kind::reduce_scatter:
        sum_to(op.to + place(0), me);
        break;
      case Kind::all_gather:
        for (uint64_t piece = 0; piece < all; ++piece) std::memcpy(op.to + place(piece), staging(piece), bytes);
        break;
      default:
        std::memcpy(op.to + place(0), staging(static_cast<uint64_t>(op.peer)), bytes);
    }
    lock.lock();
    meet(lock);
  }
}

// All ops of the unit at once, those between the same two ranks one after the other.
void Rank::run_messages(RoomLock& lock, const Unit& unit) {
  Board& own = room_->boards[rank_];
  std::array<uint64_t, Unit::kMost> moved{};
  const auto is_first = [&](size_t index) {
    for (size_t i = 0; i < index; ++i)
      if (!own.is_done[i] && unit.list[i].kind == unit.list[index].kind && unit.list[i].peer == unit.list[index].peer)
        return false;
    return true;
  };
  const auto is_done = [&] {
    return std::all_of(own.is_done.begin(), own.is_done.begin() + unit.count, [](bool is) { return is; });
  };
  while (!is_done()) {
    bool has_moved = false;
    for (size_t i = 0; i < unit.count; ++i) {
      if (own.is_done[i] || !is_first(i)) continue;
      const Op& op = unit.list[i];
      has_moved |= op.kind == Kind::send ? push(lock, op, moved[i]) : pull(lock, i, op, moved[i]);
      stop_if_failed(lock);
    }
    if (!has_moved && !is_done()) wait(lock);
  }
}

// `moved`: bytes, and one more once the first chunk is away, so that an empty message is sent once too.
bool Rank::push(RoomLock& lock, const Op& op, uint64_t& moved) {
  Mail& mail = room_->mails[rank_][op.peer];
  const uint64_t total = op.count * size_of(op.type), done = moved == 0 ? 0 : moved - 1;
  if (mail.is_full || (moved > 0 && done == total)) return false;
  const uint64_t bytes = std::min(kMailBytes, total - done);
  mail.op = op;
  mail.bytes = bytes;
  lock.unlock();
  if (bytes > 0) std::memcpy(room_->mail_bytes[rank_][op.peer], op.from + done, bytes);
  lock.lock();
  mail.is_full = true;
  moved = done + bytes + 1;
  room_->ring();
  return true;
}

bool Rank::pull(RoomLock& lock, size_t index, const Op& op, uint64_t& moved) {
  Mail& mail = room_->mails[op.peer][rank_];
  if (!mail.is_full) return false;
  if (mail.op.count != op.count || mail.op.type != op.type) {
    room_->fail(fmt::format("rank {} calls {}, and rank {} calls {}", rank_, text_of(op), op.peer, text_of(mail.op)));
    return true;
  }
  lock.unlock();
  if (mail.bytes > 0) std::memcpy(op.to + moved, room_->mail_bytes[op.peer][rank_], mail.bytes);
  lock.lock();
  moved += mail.bytes;
  mail.is_full = false;
  if (moved == op.count * size_of(op.type)) {
    room_->boards[rank_].is_done[index] = true;
    Board& sender = room_->boards[op.peer];
    for (size_t i = 0; i < sender.unit.count; ++i) {
      const Op& sent = sender.unit.list[i];
      if (sender.is_done[i] || sent.kind != Kind::send || sent.peer != rank_) continue;
      sender.is_done[i] = true;
      break;
    }
  }
  room_->ring();
  return true;
}

}  // namespace nccl_stand_in
