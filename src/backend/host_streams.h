// What a host backend needs to know of the streams that do not run inline: communication, which somebody else carries out.
#pragma once

#include "backend/stream.h"

namespace trireme {

class HostStreams {
 public:
  virtual ~HostStreams() = default;
  virtual uint64_t enqueued(Stream stream) const = 0;        // calls put on the stream so far: the ticket of an event
  virtual void wait(Stream stream, const Event& event) = 0;  // later calls of the stream start after the event
  virtual void synchronize(const Event& event) = 0;          // the caller waits
};

}  // namespace trireme
