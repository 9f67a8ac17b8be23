// What the NCCL groups of one rank share: the library, its log, the communicators, and the calls in flight on each stream, so
// that a timeout can name the call it waited for.
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
#include "comm/nccl_topology.h"

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
  // Returns a communicator once all its ranks have connected; `what` names it in the message if one does not. This object owns
  // it.
  NcclCommunicator* connect(const NcclUniqueId& id, Seat seat, const std::string& what);
  // Records which transport NCCL uses between the ranks of a group. The group must have communicated before.
  void note_transport(const std::string& group);

  // Checks the result of an NCCL call: throws if it failed, waits while NCCL is still connecting.
  void check(NcclResult result, NcclCommunicator* communicator, const std::function<std::string()>& what);
  // Notes that a call was enqueued on its stream.
  void add(const Call& call, const HostGroup& group);

  Tensor one_number() const { return one_number_; }  // [1] f32 on the device, its value does not matter
  void synchronize(Stream stream, const char* name) { backend_.synchronize(backend_.record(stream, name)); }

  std::string description() const;  // library, network and transport of each group, for the start of a run
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
  [[noreturn]] void give_up(const std::string& text);  // aborts all communicators, then throws a Failure
  std::string where() const;

  Backend& backend_;
  DeviceStreams& streams_;
  Progress& progress_;
  NcclLog log_;                // declared before the library, because NCCL reads once where to log
  NcclTopologyFile topology_;  // and which file describes the machine
  const NcclLibrary& library_ = NcclLibrary::load();
  std::vector<NcclCommunicator*> communicators_;
  std::map<std::string, NcclFacts> groups_;
  std::array<Ring<UnderWay>, kStreams> lines_;  // by stream
  Memory memory_;
  Tensor one_number_;
};

}  // namespace trireme
