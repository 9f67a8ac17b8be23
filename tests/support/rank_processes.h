// Ranks as processes of this machine, joined over TCP.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/control.h"
#include "comm/tcp_transport.h"
#include "comm/world.h"

namespace trireme {

// What a rank does, in a process of its own; returns what the test wants to know of it, some kilobytes at most.
using ProcessWork = std::function<std::string(World&)>;

namespace rank_processes {

[[noreturn]] inline void be_rank(const ProcessWork& work, const DataConnections& connections, TcpListener listener, int result) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const Control control;
    World world(connect_through_tcp(connections, std::move(listener), control), {.timeout = std::chrono::seconds(240)});
    const std::string text = work(world);
    if (::write(result, text.data(), text.size()) != std::ssize(text)) ADD_FAILURE() << "the result is too long for a pipe";
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << connections.rank << ": " << error.what();
  }
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);  // what the process inherited is not its to tidy up
}

// Waits for all; once one fails the others wait in vain, and are killed.
inline void wait_for(const std::map<pid_t, int>& ranks) {
  bool has_failed = false;
  for (size_t left = ranks.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (status == 0 || has_failed) continue;
    has_failed = true;
    ADD_FAILURE() << "rank " << ranks.at(ended) << " failed";
    for (const auto& [process, rank] : ranks) ::kill(process, SIGKILL);
  }
}

}  // namespace rank_processes

// Returns what each rank says. The test must have no threads when it calls this.
inline std::vector<std::string> on_rank_processes(int ranks, const ProcessWork& work) {
  std::vector<TcpListener> listeners;  // bound here, so that no port has to be free later
  std::vector<Greeting> greetings;
  for (int rank = 0; rank < ranks; ++rank) {
    listeners.emplace_back(0, Reach::machine);
    greetings.push_back({.rank = rank, .size = ranks, .addresses = {"127.0.0.1"}, .port = listeners.back().port()});
  }
  std::fflush(nullptr);
  std::map<pid_t, int> processes;
  std::vector<int> results;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2] = {};
    if (::pipe(ends) != 0) throw Failure("no pipe");
    const pid_t process = ::fork();
    if (process == 0)
      rank_processes::be_rank(work, {.rank = rank, .ranks = greetings, .secret = "test", .limit = std::chrono::seconds(240)},
                              std::move(listeners[static_cast<size_t>(rank)]), ends[1]);
    ::close(ends[1]);
    results.push_back(ends[0]);
    processes[process] = rank;
  }
  rank_processes::wait_for(processes);
  std::vector<std::string> texts;
  for (const int result : results) {
    std::string text(64 << 10, '\0');
    const ssize_t count = ::read(result, text.data(), text.size());
    text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    texts.push_back(std::move(text));
    ::close(result);
  }
  return texts;
}

}  // namespace trireme
