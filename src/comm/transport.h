// Messages between ranks, the one thing that collectives on host memory are made of. Calls never block; one thread a rank makes
// them all. Two messages with the same sender, receiver and tag arrive in the order in which they were sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

class Transport {
 public:
  using Ticket = int64_t;  // of a message under way

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;  // the bytes stay as they are until it is done
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;   // as many bytes as were sent
  virtual bool done(Ticket ticket) = 0;  // asked again and again until it is; then the ticket is used up
  // What its own buffers grow to in a rank that shares a machine with so many, itself included.
  virtual int64_t buffer_bytes(int64_t /*ranks_on_host*/) const { return 0; }
};

}  // namespace trireme
