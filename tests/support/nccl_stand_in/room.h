// Where the ranks of one communicator meet: memory that their processes share. It has no name in any file system and is gone with
// the last process that has it. Its maker must live until all ranks are in, as the maker of an id of NCCL must.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>

#include "support/nccl_stand_in/call.h"

namespace nccl_stand_in {

constexpr int kMostRanks = 32;
constexpr uint64_t kStagingBytes = 64 << 10, kMailBytes = 32 << 10;

struct Id {
  std::array<char, 128> bytes{};
};

// What a rank shows the others.
struct Board {
  bool has_joined = false, has_finalized = false;
  int ranks = 0;  // as this rank said
  pid_t process = 0;
  bool is_active = false;                   // in a unit
  Unit unit;                                // its addresses mean nothing to others
  std::array<bool, Unit::kMost> is_done{};  // by op; both ends of a message are done at once
  uint64_t collectives = 0;                 // begun
  Op collective;                            // the last one begun
  uint64_t meetings = 0;                    // of collectives, at which this rank has arrived
};

// A chunk of a message, from one rank to one other.
struct Mail {
  bool is_full = false;
  Op op;  // the sender's
  uint64_t bytes = 0;
};

struct Room {
  uint64_t nonce = 0;
  pthread_mutex_t mutex;           // guards all but what a mail or a staging area holds, which belongs to one rank at a time
  std::atomic<uint32_t> bell = 0;  // changes with anything that a rank may wait for
  bool has_failed = false;
  char offence[512] = {};
  Board boards[kMostRanks];
  Mail mails[kMostRanks][kMostRanks];  // by sender and receiver
  std::byte staging[kMostRanks][kStagingBytes];
  std::byte mail_bytes[kMostRanks][kMostRanks][kMailBytes];  // pages that nobody touches are not there

  void ring();
  void fail(const std::string& text);  // the first one counts; it is also printed. The caller holds the lock
};

std::optional<Id> make_room();                   // nullopt: the system has no memory for it
std::shared_ptr<Room> enter_room(const Id& id);  // null: its maker is gone, or it is not an id
void close_door(const Id& id);                   // all ranks are in; nothing in other processes than the maker's

class RoomLock {
 public:
  explicit RoomLock(Room& room) : room_(room) { lock(); }
  ~RoomLock() { unlock(); }
  RoomLock(const RoomLock&) = delete;
  RoomLock& operator=(const RoomLock&) = delete;

  void lock();
  void unlock();
  // Lets go of the lock until the bell rings; false if it did not for some milliseconds.
  bool wait();

 private:
  Room& room_;
};

}  // namespace nccl_stand_in
