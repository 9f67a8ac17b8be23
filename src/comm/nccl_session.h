// What the NCCL groups of one rank share: the library, its log, the communicators, and what is under way on each stream, so that
// a wait which takes too long can say for what.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <vector>

#include "backend/backend.h"
#include "backend/device_streams.h"
#include "base/ring.h"
#include "comm/host_group.h"
#include "comm/nccl_library.h"
#include "comm/nccl_log.h"

namespace trireme {

class NcclSession {
 public:
  NcclSession(Backend& backend, DeviceStreams& streams, Progress& progress);
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  const NcclLibrary& library() const { return library_; }
  NcclStream native(Stream stream) const { return streams_.native(stream); }

  struct Seat {
    int size = 1, rank = 0;
  };
  // A communicator, once all its ranks have come; `what` names it where one does not. It stays this object's.
  NcclCommunicator* connect(const NcclUniqueId& id, Seat seat, const std::string& what);
  // Notes the way between the ranks of a group, which is known once it has communicated.
  void note_transport(const std::string& group);

  // After a call of NCCL: throws if it failed; waits where NCCL is still connecting.
  void check(NcclResult result, NcclCommunicator* communicator, const std::function<std::string()>& what);
  // A call was enqueued on its stream.
  void add(const Call& call, const HostGroup& group);

  Tensor one_number() const { return one_number_; }  // [1] f32 of the device, whose value does not matter
  void synchronize(Stream stream, const char* name) { backend_.synchronize(backend_.record(stream, name)); }

  std::string description() const;  // library, network, the transport of each group: for the start of a run
  void require_network() const;     // UserError if the environment asks for a network that NCCL did not take

 private:
  struct UnderWay {
    Call call;
    const HostGroup* group = nullptr;
    uint64_t number = 0;
    Event done;
  };

  void watch(const Event& event, double seconds);
  std::string under_way_text();
  [[noreturn]] void give_up(const std::string& text);  // nothing waits on the device any more, then a Failure
  std::string where() const;

  Backend& backend_;
  DeviceStreams& streams_;
  Progress& progress_;
  NcclLog log_;  // before the library, which looks once where to write
  const NcclLibrary& library_ = NcclLibrary::load();
  std::vector<NcclCommunicator*> communicators_;
  std::map<std::string, NcclFacts> groups_;
  std::array<Ring<UnderWay>, kStreams> lines_;  // by stream
  Memory memory_;
  Tensor one_number_;
};

}  // namespace trireme
