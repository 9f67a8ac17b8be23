#include "support/nccl_stand_in/rank.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "support/nccl_stand_in/log.h"

namespace nccl_stand_in {
namespace {

// Every first call of a communicator, and some later ones, are in progress for so many looks at its state.
constexpr int kPolls = 2;
bool stays_in_progress(uint64_t launched, int rank) { return launched == 0 || (launched + static_cast<uint64_t>(rank)) % 8 == 5; }

bool is_running(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t name_end = text.rfind(')');
  return name_end != text.npos && text.compare(name_end, 3, ") Z") != 0;
}

struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& last() {
  static auto* const error = new LastError;
  return *error;
}

}  // namespace

void set_last_error(const std::string& text) {
  const std::lock_guard lock(last().mutex);
  last().text = text;
}
std::string last_error() {
  const std::lock_guard lock(last().mutex);
  return last().text;
}

Rank::Rank(std::shared_ptr<Room> room, const Id& id, int ranks, int rank)
    : room_(std::move(room)), id_(id), ranks_(ranks), rank_(rank) {
  join();
}

std::string Rank::name() const { return fmt::format("rank {} of {}", rank_, ranks_); }

Result Rank::refuse(const std::string& text, Result result) {
  const std::string line = fmt::format("{}: {}", name(), text);
  set_last_error(line);
  std::fprintf(stderr, "NCCL stand-in: %s\n", line.c_str());
  return result;
}

void Rank::join() {
  const RoomLock lock(*room_);
  Board& own = room_->boards[rank_];
  if (own.has_joined) return room_->fail(fmt::format("two say that they are rank {}", rank_));
  for (int other = 0; other < kMostRanks; ++other)
    if (const Board& board = room_->boards[other]; board.has_joined && board.ranks != ranks_)
      return room_->fail(fmt::format("rank {} says there are {} ranks, and rank {} says {}", rank_, ranks_, other, board.ranks));
  own.has_joined = true;
  own.ranks = ranks_;
  own.process = ::getpid();
  room_->ring();
}

Result Rank::state() {
  const RoomLock lock(*room_);
  if (room_->has_failed) {
    set_last_error(room_->offence);
    return Result::invalid_usage;
  }
  if (const std::lock_guard own(mutex_); is_remote_gone_) return Result::remote_error;
  const auto all = [&](auto has) {
    for (int other = 0; other < ranks_; ++other)
      if (!has(room_->boards[other])) return false;
    return true;
  };
  if (stage_ == Stage::connecting) {
    if (!all([](const Board& board) { return board.has_joined; })) return Result::in_progress;
    close_door(id_);
    log_connected(ranks_, rank_);
    stage_ = Stage::ready;
  }
  if (stage_ == Stage::finalizing) {
    if (const std::lock_guard own(mutex_); done_ < launched_) return Result::in_progress;
    room_->boards[rank_].has_finalized = true;
    if (!all([](const Board& board) { return board.has_finalized; })) return Result::in_progress;
    stage_ = Stage::finalized;
  }
  if (polls_left_ == 0) return Result::success;
  if (--polls_left_ > 0) return Result::in_progress;
  enqueue(deferred_, *deferred_stream_);
  return Result::success;
}

Result Rank::launch(const Unit& unit, trireme::FakeStream& stream) {
  if (stage_ == Stage::connecting || polls_left_ > 0)
    return refuse("used before the call before it was done: ask ncclCommGetAsyncError until it says success",
                  Result::invalid_argument);
  if (stage_ != Stage::ready) return refuse("used after ncclCommFinalize", Result::invalid_argument);
  if (const Result now = state(); now != Result::success) return now;
  if (const std::string fault = fault_of(unit, ranks_, rank_); !fault.empty()) return refuse(fault, Result::invalid_argument);
  if (!stays_in_progress(launched_, rank_)) {
    enqueue(unit, stream);
    return Result::success;
  }
  deferred_ = unit;
  deferred_stream_ = &stream;
  polls_left_ = kPolls;
  return Result::in_progress;
}

void Rank::enqueue(const Unit& unit, trireme::FakeStream& stream) {
  const uint64_t number = ++launched_;
  stream.enqueue([self = shared_from_this(), unit, number] { self->execute(unit, number); });
}

Result Rank::finalize() {
  if (stage_ != Stage::ready || polls_left_ > 0) return refuse("finalized while a call is in progress, or twice");
  stage_ = Stage::finalizing;
  return Result::in_progress;
}

Result Rank::destroy() {
  if (stage_ != Stage::finalized) return refuse("destroyed before ncclCommFinalize was done");
  return Result::success;
}

void Rank::abort() {
  close_door(id_);
  {
    const std::lock_guard own(mutex_);
    is_aborted_ = true;
  }
  turn_.notify_all();
  room_->ring();
}

bool Rank::others_live() const {
  for (int other = 0; other < ranks_; ++other)
    if (const pid_t process = room_->boards[other].process; process != 0 && !is_running(process)) return false;
  return true;
}

}  // namespace nccl_stand_in
