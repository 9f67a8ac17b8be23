// Finds the ranks of the job. A process that mpirun or srun started finds the others through MPI. A process whose environment has
// a rendezvous (rendezvous.h) finds them there. Any other process is alone. All ranks then meet (meeting.h) before anything else.
#pragma once

#include <memory>

#include "comm/meeting.h"
#include "comm/progress.h"
#include "comm/transport.h"

namespace trireme {

class Control;
enum class LastResort : uint8_t;

// The rank of this process according to its launcher's environment; 0 without a launcher.
int rank_in_environment();

bool is_built_with_mpi();  // whether ranks that mpirun starts can find each other

class World {
 public:
  // `terms` is called only if there are other ranks. If the ranks do not meet, or differ, the process ends as in leave().
  static World find(const std::function<MeetingTerms()>& terms = [] { return MeetingTerms{}; });
  // Uses a transport that already exists, for tests.
  explicit World(std::unique_ptr<Transport> transport, Progress::Options options = {});
  World(World&& other) noexcept;
  ~World();
  // Adds the control plane. find() does this too. Every rank must make this call.
  void connect_control(LastResort last_resort, Reach reach = Reach::machine, const MeetingTerms& terms = {});

  int rank() const { return transport_ ? transport_->rank() : 0; }
  int size() const { return transport_ ? transport_->size() : 1; }
  Transport& transport() { return *transport_; }
  Progress& progress() { return *progress_; }
  HostStreams* streams() const { return progress_.get(); }  // null when alone
  Control& control() const { return *control_; }
  void set_timeout(std::chrono::seconds timeout);  // for every wait for another rank

  // Ends the job because this rank cannot continue. All ranks leave with the line and status of the rank that failed first, and
  // one of them prints the line. Call it while `error` is being handled.
  [[noreturn]] void leave(const std::exception& error);

 private:
  World();
  void find_through_mpi(const MeetingTerms& terms);
  void find_through_tcp(const Rendezvous& where, const MeetingTerms& terms);
  void attach_control();  // gives the control plane the call counts, and lets it stop calls when the job ends

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Progress> progress_;  // after the transport, so that it is destroyed first
  std::unique_ptr<Control> control_;    // last, so that it is destroyed before the others
};

}  // namespace trireme
