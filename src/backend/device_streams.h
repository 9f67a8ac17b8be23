// What a device with memory and streams of its own offers to those who communicate for it, beside the ops of its backend.
#pragma once

#include <functional>

#include "backend/stream.h"

namespace trireme {

class DeviceStreams {
 public:
  virtual ~DeviceStreams() = default;
  virtual bool reached(const Event& event) const = 0;  // may be asked by any thread
  virtual void* native(Stream stream) const = 0;       // what the libraries of the device call it

  // Called again and again while the host waits for the device, with the seconds that it has waited. Throws when that is in vain,
  // because what the device waits for will not come.
  using Watch = std::function<void(const Event& event, double seconds)>;
  virtual void set_watch(Watch watch) = 0;
};

}  // namespace trireme
