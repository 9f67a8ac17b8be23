// Who is there. A process that mpirun or srun started finds the others through MPI; one whose environment says where the ranks
// meet (rendezvous.h) finds them there; any other process is alone. All that find each other meet (meeting.h) before anything
// else.
#pragma once

#include <memory>

#include "comm/meeting.h"
#include "comm/progress.h"
#include "comm/transport.h"

namespace trireme {

class Control;
enum class LastResort : uint8_t;

// The rank of this process as its launcher says in the environment; 0 if there is none.
int rank_in_environment();

class World {
 public:
  // `terms` are asked for where there are others. If the ranks do not meet, or differ, the process ends as with leave().
  static World find(const std::function<MeetingTerms()>& terms = [] { return MeetingTerms{}; });
  // Ranks over a transport that is already there: tests.
  explicit World(std::unique_ptr<Transport> transport, Progress::Options options = {});
  World(World&& other) noexcept;
  ~World();
  // Adds the control plane, which find() does too. Every rank makes this call.
  void connect_control(LastResort last_resort, Reach reach = Reach::machine, const MeetingTerms& terms = {});

  int rank() const { return transport_ ? transport_->rank() : 0; }
  int size() const { return transport_ ? transport_->size() : 1; }
  Transport& transport() { return *transport_; }
  Progress& progress() { return *progress_; }
  HostStreams* streams() const { return progress_.get(); }  // null when alone
  Control& control() const { return *control_; }
  void set_timeout(std::chrono::seconds timeout);  // of every wait for another rank

  // The job cannot go on: all ranks leave with the line and status of the rank that failed first, one of them prints the line.
  // Call it while `error` is being handled.
  [[noreturn]] void leave(const std::exception& error);

 private:
  World();
  void find_through_mpi(const MeetingTerms& terms);
  void find_through_tcp(const Rendezvous& where, const MeetingTerms& terms);
  void attach_control();  // the control plane learns of calls and stops them when the job ends

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Progress> progress_;  // after the transport, so that it stops first
  std::unique_ptr<Control> control_;    // last, so that it is silent before the others go
};

}  // namespace trireme
