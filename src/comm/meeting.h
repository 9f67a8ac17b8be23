// How the ranks of a job come together before anything else is there. Each connects to rank 0 and greets (door.h). When all have
// come, rank 0 tells everybody who they are. The connections stay: they are the control plane (control.h).
//
//   somebody is missing     the one that waits says for whom, after 2 s and then every 10 s, and gives up after the timeout
//   somebody dies           its connection closes, and the job ends with a line that names it
//   somebody is different   another recipe, data file or program: the job ends with the name and both values
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

// Why all ranks leave: the one line that is printed, and their exit status.
struct JobEnd {
  int status = kFailed;
  std::string line;
  bool is_said = false;  // rank 0 prints it
};

// What waiting for another rank throws when there is no job any more: nothing to go on from.
struct JobEnded : Failure {
  explicit JobEnded(JobEnd job_end) : Failure("{}", job_end.line), end(std::move(job_end)) {}
  JobEnd end;
};

// Rows that must be equal on all ranks, such as {"model.seed", "1234"}.
using SharedFacts = std::vector<std::pair<std::string, std::string>>;

// "model.seed=2 (rank 0: 1)", with the number of further rows that differ; empty if none does.
std::string difference_of(const SharedFacts& of_rank_0, const SharedFacts& of_other);

struct MeetingTerms {
  std::chrono::seconds timeout{600};
  SharedFacts facts;                               // empty: not known, and not compared
  std::function<void(const std::string&)> notice;  // takes one line for the terminal; none: stderr
};

// The ranks of a job that have met.
struct Company {
  int rank = 0;
  std::vector<TcpConnection> connections;  // by rank: on rank 0 to all others, on the others to rank 0
  std::vector<Greeting> ranks;             // by rank
  std::string secret;                      // known to these ranks only

  int size() const { return static_cast<int>(ranks.size()); }
};

// Rank 0 waits where the environment says. `own` has what the greeting says of data connections.
Company meet(const Rendezvous& where, const Greeting& own, const MeetingTerms& terms);

// Rank 0 waits at a port of its choice, which `share` (gives every rank the text of rank 0) tells the others.
using ShareText = std::function<std::string(const std::string&)>;
Company meet(int rank, int size, Reach reach, const ShareText& share, const MeetingTerms& terms);

}  // namespace trireme
