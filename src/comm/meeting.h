// How the ranks of a job find each other at the start. Each connects to rank 0 and sends a greeting (door.h). When all are
// connected, rank 0 sends every rank the list of all. The connections stay open and become the control plane (control.h).
//
//   a rank is missing   the ranks that wait report it after 2 s and then every 10 s, and give up after the timeout
//   a rank dies         its connection closes, and the job ends with a line that names it
//   a rank differs      in its recipe, data file or program: the job ends with the name and both values
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exit_status.h"
#include "comm/door.h"
#include "comm/rendezvous.h"

namespace trireme {

// Why all ranks leave: the one line that is printed, and the exit status.
struct JobEnd {
  int status = kFailed;
  std::string line;
  bool is_said = false;  // rank 0 prints the line
  int rank = kNoRank;    // whose failure it is
  double unnoticed = 0;  // seconds from the last sign of progress of that rank until the job ended
  bool is_hang = false;

  static constexpr int kNoRank = -1;
};

// Thrown by every wait for another rank once the job has ended. The caller cannot continue.
struct JobEnded : Failure {
  explicit JobEnded(JobEnd job_end) : Failure("{}", job_end.line), end(std::move(job_end)) {}
  JobEnd end;
};

// Rows that must be equal on all ranks, such as {"model.seed", "1234"}.
using SharedFacts = std::vector<std::pair<std::string, std::string>>;

// "model.seed=2 (rank 0: 1)", with the number of further rows that differ; empty if all are equal.
std::string difference_of(const SharedFacts& of_rank_0, const SharedFacts& of_other);

struct MeetingTerms {
  std::chrono::seconds timeout{600};
  SharedFacts facts;                               // empty: unknown, and not compared
  std::function<void(const std::string&)> notice;  // called with one line for the terminal; empty: stderr is used
};

// The ranks of a job that have met.
struct Company {
  int rank = 0;
  std::vector<TcpConnection> connections;  // by rank: on rank 0 to all others, on the others to rank 0
  std::vector<Greeting> ranks;             // by rank
  std::string secret;                      // known to these ranks only

  int size() const { return static_cast<int>(ranks.size()); }
};

// Rank 0 listens where the environment says. The caller fills in the addresses and port of `own`.
Company meet(const Rendezvous& where, const Greeting& own, const MeetingTerms& terms);

// Rank 0 listens at a port of its choice. `share`, which returns rank 0's text on every rank, tells it to the others.
using ShareText = std::function<std::string(const std::string&)>;
Company meet(int rank, int size, Reach reach, const ShareText& share, const MeetingTerms& terms);

}  // namespace trireme
