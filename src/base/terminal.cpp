#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace trireme {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : value;
}

}  // namespace

Terminal detect_terminal(int descriptor) {
  Terminal terminal;
  terminal.interactive = isatty(descriptor) == 1 && environment("TERM") != "dumb";
  terminal.colour = terminal.interactive && environment("NO_COLOR").empty();
  terminal.columns = terminal_columns(descriptor, terminal.columns);
  return terminal;
}

int terminal_columns(int descriptor, int otherwise) {
  winsize size{};
  const bool known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : otherwise;
}

std::string inked(Ink ink, std::string_view text, const Terminal& terminal) {
  constexpr std::string_view kEscapes[] = {"\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m"};
  if (!terminal.colour) return std::string(text);
  std::string out(kEscapes[static_cast<size_t>(ink)]);
  out += text;
  out += "\x1b[0m";
  return out;
}

}  // namespace trireme
