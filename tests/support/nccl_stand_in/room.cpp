#include "support/nccl_stand_in/room.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <new>
#include <random>

namespace nccl_stand_in {
namespace {

// The descriptors of the rooms that this process has made, by nonce.
struct Doors {
  std::mutex mutex;
  std::map<uint64_t, int> descriptors;
};
Doors& doors() {
  static auto* const all = new Doors;  // streams may still run while the process ends
  return *all;
}

struct Address {
  uint64_t nonce = 0;
  char path[64] = {};
};

Address address_of(const Id& id) {
  Address address;
  std::memcpy(&address, id.bytes.data(), sizeof address);
  address.path[sizeof address.path - 1] = '\0';
  return address;
}

void* map(int descriptor) {
  void* memory = ::mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void initialise(void* memory, uint64_t nonce) {
  // Memory of the system is zero, which is what all boards and mails begin with; writing them would bring their pages.
  Room* room = static_cast<Room*>(memory);
  room->nonce = nonce;
  new (&room->bell) std::atomic<uint32_t>(0);
  pthread_mutexattr_t shared;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);  // a rank may be killed anywhere
  pthread_mutex_init(&room->mutex, &shared);
  pthread_mutexattr_destroy(&shared);
}

}  // namespace

void Room::ring() {
  bell.fetch_add(1);
  ::syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Room::fail(const std::string& text) {
  if (has_failed) return;
  has_failed = true;
  std::snprintf(offence, sizeof offence, "%s", text.c_str());
  std::fprintf(stderr, "NCCL stand-in: %s\n", offence);
  ring();
}

std::optional<Id> make_room() {
  const int descriptor = ::memfd_create("nccl_stand_in", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, sizeof(Room)) != 0) return std::nullopt;
  void* memory = map(descriptor);
  if (memory == nullptr) return std::nullopt;
  Address address;
  std::random_device random;
  address.nonce = uint64_t{random()} << 32 | random();
  std::snprintf(address.path, sizeof address.path, "/proc/%d/fd/%d", ::getpid(), descriptor);
  initialise(memory, address.nonce);
  ::munmap(memory, sizeof(Room));
  const std::lock_guard lock(doors().mutex);
  doors().descriptors[address.nonce] = descriptor;
  Id id;
  std::memcpy(id.bytes.data(), &address, sizeof address);
  return id;
}

std::shared_ptr<Room> enter_room(const Id& id) {
  const Address address = address_of(id);
  const int descriptor = ::open(address.path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  // Another file under the same number may be too small to look at.
  void* memory = ::lseek(descriptor, 0, SEEK_END) == static_cast<off_t>(sizeof(Room)) ? map(descriptor) : nullptr;
  ::close(descriptor);
  if (memory == nullptr) return nullptr;
  std::shared_ptr<Room> room(static_cast<Room*>(memory), [](Room* mapped) { ::munmap(mapped, sizeof(Room)); });
  return room->nonce == address.nonce ? room : nullptr;
}

void close_door(const Id& id) {
  const std::lock_guard lock(doors().mutex);
  const auto found = doors().descriptors.find(address_of(id).nonce);
  if (found == doors().descriptors.end()) return;
  ::close(found->second);
  doors().descriptors.erase(found);
}

void RoomLock::lock() {
  if (pthread_mutex_lock(&room_.mutex) == EOWNERDEAD) pthread_mutex_consistent(&room_.mutex);
}
void RoomLock::unlock() { pthread_mutex_unlock(&room_.mutex); }

bool RoomLock::wait() {
  const uint32_t heard = room_.bell.load();
  unlock();
  constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 50'000'000};
  const long result = ::syscall(SYS_futex, &room_.bell, FUTEX_WAIT, heard, &kPatience, nullptr, 0);
  const bool has_rung = result == 0 || errno != ETIMEDOUT;
  lock();
  return has_rung;
}

}  // namespace nccl_stand_in
