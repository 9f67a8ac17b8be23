// What a host backend needs to know of the streams that do not run inline: communication, which somebody else carries out.
#pragma once

#include "backend/stream.h"

namespace trireme {

class HostStreams {
 public:
  virtual ~HostStreams() = default;
  virtual uint64_t enqueued(Stream stream) const = 0;          // calls put on the stream so far: the ticket of an event
  virtual void wait(Stream stream, const Event& event) = 0;    // later calls of the stream start after the event
  virtual void synchronize(const Event& event) = 0;            // the caller waits
  virtual void note_time(Stream stream, double* seconds) = 0;  // when the stream gets there, in seconds of the steady clock
  virtual void collect_times() = 0;                            // waits until all that were asked for are there
};

}  // namespace trireme
