// How a process is admitted to a job. A process that connects first sends a greeting. A process that knows the secret of the job
// is handed to the caller. A process of another job is told so and disconnected. A connection without a greeting (a port scanner,
// a health check, silence) is dropped. None of them ends the job or delays another process.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/rank_place.h"
#include "comm/tcp.h"

namespace trireme {

struct Greeting {
  int protocol = 1;
  std::string secret;      // of the job, made by secret_of()
  int rank = 0, size = 1;  // from the launcher
  std::string program;     // version and build
  std::string recipe;      // digest of what must be equal on all ranks; empty: unknown
  RankPlace place;         // where the process runs
  // Where the process accepts connections of other ranks; port 0: it accepts none.
  std::vector<std::string> addresses;
  int port = 0;
};

// A digest of the text that the ranks of a job have in common. The digest is sent instead of the text.
std::string secret_of(const std::string& text);

nlohmann::json json_of(const Greeting& greeting);
// Returns nullopt if `in` is not a greeting. With another protocol only the secret is set.
std::optional<Greeting> greeting_from(const nlohmann::json& in);

struct DoorAnswer {
  enum class Kind : uint8_t {
    silence,    // no answer, or an answer of another program
    other_job,  // rank 0 of another job listens there
    refused,    // this job refuses the process; `text` says why
    welcome,    // the process is admitted; `text` is what the other side passed to let_in()
  };
  Kind kind = Kind::silence;
  std::string text;
};

// The connecting side: sends a greeting, receives the answer.
bool greet(TcpConnection& connection, const Greeting& greeting);
std::optional<DoorAnswer> take_answer(TcpConnection& connection, const Greeting& greeting);  // nullopt: not here yet
DoorAnswer wait_for_answer(TcpConnection& connection, const Greeting& greeting, std::chrono::milliseconds limit);

struct Visitor {
  TcpConnection connection;
  Greeting greeting;
};

class Door {
 public:
  // `ranks` is how many ranks may connect at the same time. If far more connections are open, the oldest without a greeting are
  // dropped.
  Door(TcpListener listener, std::string secret, int ranks);

  int port() const { return listener_.port(); }
  std::vector<std::string> addresses() const { return listener_.addresses(); }
  // Returns the next process that knows the secret, or nullopt if none came within the limit.
  std::optional<Visitor> next(std::chrono::milliseconds limit);
  TcpConnection let_in(Visitor visitor, const std::string& text = "");
  void send_away(Visitor visitor, const std::string& reason);
  int64_t strangers() const { return strangers_; }  // connections that were dropped or belong to another job

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    TcpConnection connection;
    Clock::time_point since;
  };

  void accept_all();
  std::optional<Visitor> read_greetings();
  bool is_known(const Greeting& greeting, TcpConnection& connection);

  TcpListener listener_;
  std::string secret_;
  size_t most_pending_;
  std::vector<Pending> pending_;  // connections without a greeting yet, the oldest first
  int64_t strangers_ = 0;
};

}  // namespace trireme
