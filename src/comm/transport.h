// Messages between ranks, from which the collectives on host memory are made. Calls never block. One thread per rank makes them
// all. Two messages with the same sender, receiver and tag arrive in the order in which they were sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

class Transport {
 public:
  using Ticket = int64_t;  // identifies a send or receive in flight

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;  // the bytes must not change until it is done
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;   // exactly as many bytes as were sent
  virtual bool done(Ticket ticket) = 0;                                        // polled until true, which invalidates the ticket
  // Bytes that the transport's own buffers grow to on a machine with so many ranks, including this one.
  virtual int64_t buffer_bytes(int64_t /*ranks_on_host*/) const { return 0; }
};

}  // namespace trireme
