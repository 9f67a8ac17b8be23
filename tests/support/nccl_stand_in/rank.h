// One rank's end of a communicator: what ncclComm_t points to.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "support/fake_stream.h"
#include "support/nccl_stand_in/room.h"

namespace nccl_stand_in {

class Rank : public std::enable_shared_from_this<Rank> {
 public:
  Rank(std::shared_ptr<Room> room, const Id& id, int ranks, int rank);

  // What ncclCommGetAsyncError says. Work that a call left in progress goes on here, and nowhere else.
  Result state();
  Result launch(const Unit& unit, trireme::FakeStream& stream);
  Result finalize();
  Result destroy();
  void abort();  // of this rank only, as NCCL's: the others are not told

 private:
  struct Stopped {};  // thrown where a call cannot go on

  Result refuse(const std::string& text, Result result = Result::invalid_usage);
  void join();
  void enqueue(const Unit& unit, trireme::FakeStream& stream);

  // On the thread of the stream.
  void execute(const Unit& unit, uint64_t number);
  bool take_turn(uint64_t number);
  void run(const Unit& unit);
  void run_collective(RoomLock& lock, const Op& op);
  void meet(RoomLock& lock);
  void run_messages(RoomLock& lock, const Unit& unit);
  bool push(RoomLock& lock, const Op& op, uint64_t& moved);
  bool pull(RoomLock& lock, size_t index, const Op& op, uint64_t& moved);
  void wait(RoomLock& lock);  // for the bell; throws Stopped
  void stop_if_failed(RoomLock& lock);
  bool others_live() const;
  std::string name() const;

  const std::shared_ptr<Room> room_;
  const Id id_;
  const int ranks_, rank_;

  // Of the host's thread.
  enum class Stage { connecting, ready, finalizing, finalized } stage_ = Stage::connecting;
  int polls_left_ = 0;  // until a call that is in progress is done
  Unit deferred_;       // what it launches then
  trireme::FakeStream* deferred_stream_ = nullptr;
  uint64_t launched_ = 0;

  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t done_ = 0;  // units
  bool is_aborted_ = false;
  bool is_remote_gone_ = false;
};

// The text of the last error in this process, as ncclGetLastError gives it.
void set_last_error(const std::string& text);
std::string last_error();

}  // namespace nccl_stand_in
