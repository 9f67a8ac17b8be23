// libnccl.so for tests: the calls of NCCL that nccl_library.h loads, on the host memory of FakeDevice, between processes or
// threads of one machine. It keeps NCCL's rules more strictly than NCCL does, and says in one line who broke which.
//
//   a communicator    never blocks the host; a call may be in progress until ncclCommGetAsyncError has been asked often enough
//   calls             run in the order in which they were made, on their streams; a group is one call
//   wrong arguments   are refused at once
//   ranks that do not match, or wait for each other: an asynchronous error on all ranks; the streams stand still until an abort
//   a killed process  is not noticed, as over shared memory; with NCCL_STAND_IN_REMOTE_ERRORS it is, as over a network
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "support/nccl_stand_in/rank.h"

namespace nccl_stand_in {
namespace {

constexpr int kVersion = 21800;

// ncclConfig_t of 2.18.
struct Config {
  size_t size;
  unsigned int magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share;
};

struct AllRanks {
  std::mutex mutex;
  std::map<Rank*, std::shared_ptr<Rank>> living;
};
AllRanks& all_ranks() {
  static auto* const all = new AllRanks;
  return *all;
}

std::shared_ptr<Rank> find(Rank* rank) {
  const std::lock_guard lock(all_ranks().mutex);
  const auto found = all_ranks().living.find(rank);
  return found == all_ranks().living.end() ? nullptr : found->second;
}
void forget(Rank* rank) {
  const std::lock_guard lock(all_ranks().mutex);
  all_ranks().living.erase(rank);
}

Result refuse(Result result, const std::string& text) {
  set_last_error(text);
  std::fprintf(stderr, "NCCL stand-in: %s\n", text.c_str());
  return result;
}

// What this thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  Unit unit;
  Rank* rank = nullptr;
  void* stream = nullptr;
  Result fault = Result::success;
};
thread_local Group group;

Result launch(Rank* handle, const Unit& unit, void* stream) {
  const std::shared_ptr<Rank> rank = find(handle);
  if (rank == nullptr) return refuse(Result::invalid_argument, "no communicator, or one that was destroyed or aborted");
  auto* const fake = static_cast<trireme::FakeStream*>(stream);
  if (fake == nullptr) return refuse(Result::invalid_argument, text_of(unit.list[0]) + " on the default stream");
  if (fake->mark != trireme::FakeStream::kMark)
    return refuse(Result::unhandled_cuda_error, text_of(unit.list[0]) + " on a stream that does not exist");
  return rank->launch(unit, *fake);
}

Result add_to_group(Rank* rank, const Op& op, void* stream) {
  const auto fail = [](const std::string& text) { return group.fault = refuse(Result::invalid_usage, text); };
  if (group.unit.count == Unit::kMost) return fail("the stand-in has groups of 8 calls at most");
  if (group.unit.count > 0 && (group.rank != rank || group.stream != stream))
    return fail("the stand-in has no groups over several communicators or streams");
  group.rank = rank;
  group.stream = stream;
  group.unit.list[group.unit.count++] = op;
  return Result::success;
}

Result call(Rank* rank, const Op& op, void* stream) {
  if (group.depth > 0) return add_to_group(rank, op, stream);
  Unit unit;
  unit.list[0] = op;
  unit.count = 1;
  return launch(rank, unit, stream);
}

Op op_of(Kind kind, const void* from, void* to, size_t count, int type) {
  return {.kind = kind,
          .type = static_cast<Type>(type),
          .count = count,
          .from = static_cast<const std::byte*>(from),
          .to = static_cast<std::byte*>(to)};
}

Result connect(Rank** made, int ranks, const Id& id, int rank, const Config* config) {
  *made = nullptr;
  if (config == nullptr || config->magic != 0xcafebeef || config->version != kVersion || config->size != sizeof(Config))
    return refuse(Result::invalid_argument, "a configuration of another version than 2.18");
  if (config->blocking != 0) return refuse(Result::invalid_argument, "the stand-in has no communicators that block");
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks)
    return refuse(Result::invalid_argument,
                  fmt::format("rank {} of {}: the stand-in has up to {} ranks", rank, ranks, kMostRanks));
  std::shared_ptr<Room> room = enter_room(id);
  if (room == nullptr) return refuse(Result::system_error, "the process that made the id is gone, or it is not an id");
  const auto created = std::make_shared<Rank>(std::move(room), id, ranks, rank);
  const std::lock_guard lock(all_ranks().mutex);
  all_ranks().living[created.get()] = created;
  *made = created.get();
  return Result::in_progress;
}

Result end_group() {
  if (group.depth == 0) return refuse(Result::invalid_usage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return Result::success;
  const Group ended = std::exchange(group, {});
  if (ended.fault != Result::success || ended.unit.count == 0) return ended.fault;
  return launch(ended.rank, ended.unit, ended.stream);
}

}  // namespace
}  // namespace nccl_stand_in

#define STAND_IN_EXPORT extern "C" __attribute__((visibility("default")))
using namespace nccl_stand_in;

STAND_IN_EXPORT Result ncclGetVersion(int* version) {
  *version = kVersion;
  return Result::success;
}

STAND_IN_EXPORT const char* ncclGetErrorString(Result result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  const auto number = static_cast<size_t>(result);
  return number < std::size(kTexts) ? kTexts[number] : "unknown result code";
}

STAND_IN_EXPORT const char* ncclGetLastError(Rank*) {
  thread_local std::string text;
  text = last_error();
  return text.c_str();
}

STAND_IN_EXPORT Result ncclGetUniqueId(Id* id) {
  const std::optional<Id> made = make_room();
  if (!made) return refuse(Result::system_error, "no shared memory");
  *id = *made;
  return Result::success;
}

STAND_IN_EXPORT Result ncclCommInitRankConfig(Rank** rank, int ranks, Id id, int number, Config* config) {
  return connect(rank, ranks, id, number, config);
}

STAND_IN_EXPORT Result ncclCommGetAsyncError(Rank* handle, Result* state) {
  const std::shared_ptr<Rank> rank = find(handle);
  if (rank == nullptr) return refuse(Result::invalid_argument, "no communicator, or one that was destroyed or aborted");
  *state = rank->state();
  return Result::success;
}

STAND_IN_EXPORT Result ncclCommFinalize(Rank* handle) {
  const std::shared_ptr<Rank> rank = find(handle);
  return rank == nullptr ? refuse(Result::invalid_argument, "no communicator to finalize") : rank->finalize();
}

STAND_IN_EXPORT Result ncclCommDestroy(Rank* handle) {
  const std::shared_ptr<Rank> rank = find(handle);
  if (rank == nullptr) return refuse(Result::invalid_argument, "no communicator to destroy");
  const Result result = rank->destroy();
  if (result == Result::success) forget(handle);
  return result;
}

STAND_IN_EXPORT Result ncclCommAbort(Rank* handle) {
  const std::shared_ptr<Rank> rank = find(handle);
  if (rank == nullptr) return refuse(Result::invalid_argument, "no communicator to abort");
  rank->abort();
  forget(handle);
  return Result::success;
}

STAND_IN_EXPORT Result ncclGroupStart() {
  group.depth += 1;
  return Result::success;
}
STAND_IN_EXPORT Result ncclGroupEnd() { return end_group(); }

STAND_IN_EXPORT Result ncclAllReduce(const void* from, void* to, size_t count, int type, int reduce, Rank* rank, void* stream) {
  Op op = op_of(Kind::all_reduce, from, to, count, type);
  op.reduce = static_cast<Reduce>(reduce);
  return call(rank, op, stream);
}

STAND_IN_EXPORT Result ncclReduceScatter(const void* from, void* to, size_t count, int type, int reduce, Rank* rank,
                                         void* stream) {
  Op op = op_of(Kind::reduce_scatter, from, to, count, type);
  op.reduce = static_cast<Reduce>(reduce);
  return call(rank, op, stream);
}

STAND_IN_EXPORT Result ncclAllGather(const void* from, void* to, size_t count, int type, Rank* rank, void* stream) {
  return call(rank, op_of(Kind::all_gather, from, to, count, type), stream);
}

STAND_IN_EXPORT Result ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Rank* rank, void* stream) {
  Op op = op_of(Kind::broadcast, from, to, count, type);
  op.peer = root;
  return call(rank, op, stream);
}

STAND_IN_EXPORT Result ncclSend(const void* from, size_t count, int type, int to, Rank* rank, void* stream) {
  Op op = op_of(Kind::send, from, nullptr, count, type);
  op.peer = to;
  return call(rank, op, stream);
}

STAND_IN_EXPORT Result ncclRecv(void* to, size_t count, int type, int from, Rank* rank, void* stream) {
  Op op = op_of(Kind::receive, nullptr, to, count, type);
  op.peer = from;
  return call(rank, op, stream);
}
