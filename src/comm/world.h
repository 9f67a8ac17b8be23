// Who is there. A process that mpirun or srun started finds the others through MPI; any other process is alone.
#pragma once

#include <memory>

#include "comm/progress.h"
#include "comm/transport.h"

namespace trireme {

class World {
 public:
  static World find();
  // Ranks over a transport that is already there: tests.
  explicit World(std::unique_ptr<Transport> transport, Progress::Options options = {});

  int rank() const { return transport_ ? transport_->rank() : 0; }
  int size() const { return transport_ ? transport_->size() : 1; }
  Transport& transport() { return *transport_; }
  Progress& progress() { return *progress_; }
  HostStreams* streams() const { return progress_.get(); }  // null when alone

 private:
  World() = default;

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Progress> progress_;  // after the transport, so that it stops first
};

}  // namespace trireme
