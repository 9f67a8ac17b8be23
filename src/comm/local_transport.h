// Ranks that are threads of one process, for tests: messages are copied from thread to thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "comm/transport.h"

namespace trireme {

class LocalTransport final : public Transport {
 public:
  // One transport per rank, connected with each other.
  static std::vector<std::unique_ptr<LocalTransport>> connect(int size);

  int rank() const override { return rank_; }
  int size() const override;
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override;
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override;
  bool done(Ticket ticket) override;

 private:
  struct Wire {  // shared by all ranks
    std::mutex mutex;
    std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> messages;  // by sender, receiver, tag
    int size = 0;
  };
  struct Waiting {
    Ticket ticket = 0;
    int from = 0, tag = 0;
    std::span<std::byte> to;
  };

  LocalTransport(std::shared_ptr<Wire> wire, int rank) : wire_(std::move(wire)), rank_(rank) {}

  std::shared_ptr<Wire> wire_;
  int rank_;
  Ticket next_ticket_ = 1;
  std::deque<Waiting> waiting_;  // in the order in which they were posted
};

}  // namespace trireme
