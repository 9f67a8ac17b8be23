#include "launch/recovery.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <utility>

namespace trireme {

void Recovery::notice(Time at) {
  if (!climbed_.noticed) climbed_.noticed = at;
}

void Recovery::signal(int number, Time at) {
  if (!climbed_.noticed) return;
  climbed_.signalled = at;
  climbed_.signal = number;
}

void Recovery::leave(Time at) {
  if (climbed_.noticed) climbed_.left = at;
}

void Recovery::restart(std::string how, Time at) {
  if (!climbed_.noticed) return;
  climbed_.restarted = at;
  climbed_.how = std::move(how);
  ++climbed_.restarts;
}

std::string Recovery::first_step(Time at) {
  const Climbed climbed = std::exchange(climbed_, {});
  if (!climbed.restarted || !climbed.left) return "";
  const auto seconds = [&](Time moment) { return std::chrono::duration<double>(moment - *climbed.noticed).count(); };
  std::string text = fmt::format("recovered {} in {:.2f} s", climbed.how, seconds(at));
  if (climbed.restarts > 1) text += fmt::format(" with {} restarts", climbed.restarts);
  text += ": ";
  if (climbed.signalled)
    text += fmt::format("the ranks got SIG{} after {:.2f} s, ", ::sigabbrev_np(climbed.signal), seconds(*climbed.signalled));
  else
    text += "the ranks ";
  return text + fmt::format("had left after {:.2f} s, were started again after {:.2f} s, first step after {:.2f} s",
                            seconds(*climbed.left), seconds(*climbed.restarted), seconds(at));
}

}  // namespace trireme
