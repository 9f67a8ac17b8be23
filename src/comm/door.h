// How a process is let into a job. A process that connects says first who it is: a greeting. One that knows the secret of the job
// is handed to the caller. One of another job is told so and sent away. A connection without a greeting (a port scanner, a health
// check, silence) is dropped. None of them ends the job or keeps another process waiting.
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
  std::string secret;      // of the job, as secret_of() gives it
  int rank = 0, size = 1;  // as the launcher told this process
  std::string program;     // version and build
  std::string recipe;      // digest of what must be equal on all ranks; empty: not known
  RankPlace place;         // where the process runs
  // Where it waits for connections of other ranks; port 0: it does not.
  std::vector<std::string> addresses;
  int port = 0;
};

// What is sent instead of the text that the ranks of a job have in common.
std::string secret_of(const std::string& text);

nlohmann::json json_of(const Greeting& greeting);
std::optional<Greeting> greeting_from(const nlohmann::json& in);  // nothing if it is not one; of another protocol only the secret

struct DoorAnswer {
  enum class Kind : uint8_t {
    silence,    // or what is not an answer: another program listens there
    other_job,  // listens there
    refused,    // by this job; `text` says why
    welcome,    // `text` is of whoever let it in
  };
  Kind kind = Kind::silence;
  std::string text;
};

// The other side of a door: says who this is, takes the answer.
bool greet(TcpConnection& connection, const Greeting& greeting);
std::optional<DoorAnswer> take_answer(TcpConnection& connection, const Greeting& greeting);  // nothing: it is not there yet
DoorAnswer wait_for_answer(TcpConnection& connection, const Greeting& greeting, std::chrono::milliseconds limit);

struct Visitor {
  TcpConnection connection;
  Greeting greeting;
};

class Door {
 public:
  // For `ranks` that may come at the same time. If far more connect, those that have been silent for longest are dropped.
  Door(TcpListener listener, std::string secret, int ranks);

  int port() const { return listener_.port(); }
  std::vector<std::string> addresses() const { return listener_.addresses(); }
  // The next process that knows the secret; nothing if none came within the limit.
  std::optional<Visitor> next(std::chrono::milliseconds limit);
  TcpConnection let_in(Visitor visitor, const std::string& text = "");
  void send_away(Visitor visitor, const std::string& reason);
  int64_t strangers() const { return strangers_; }  // connections that were dropped or told that this is another job

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
