// Where the processes of ranks report to their supervisor. The connection then is their stdout and stderr, however they were
// started: mpirun itself would merge the lines of all ranks, and closes other descriptors.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace trireme {

struct ReportedRank {
  int64_t local_rank = 0;
  pid_t process = 0;
  int output = -1;  // what it writes; the caller closes it
};

class RankSocket {
 public:
  RankSocket();  // at a name of its own, for processes of the same user
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

  const std::string& name() const { return name_; }
  int descriptor() const { return descriptor_; }  // readable: accept() returns a rank
  std::optional<ReportedRank> accept() const;     // nothing: no process waits, or it is a stranger

 private:
  std::string name_;
  int descriptor_ = -1;
};

// In the process of a rank. Failure if the supervisor is not there.
void report_to_supervisor(const std::string& socket, int64_t local_rank);

}  // namespace trireme
