// trireme watch: a run in the terminal, live.
#include "serve/watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/wrap.h"
#include "cli/command.h"

namespace trireme {
namespace {

struct WatchArguments {
  std::string run = "runs";
  bool once = false;
  double every = 2;
};

std::atomic<bool> is_stopped = false;
int wake_writer = -1;

void on_signal(int signal) {
  if (signal != SIGWINCH) is_stopped = true;
  const char byte = 0;
  [[maybe_unused]] const ssize_t ignored = ::write(wake_writer, &byte, 1);
}

// The screen while a run is followed. What was on it before comes back at the end, whatever ends the program.
class Screen {
 public:
  Screen() {
    if (::pipe2(wake_.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw Failure("no pipe can be made: too many files are open");
    wake_writer = wake_[1];
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) ::sigaction(signal, &action, nullptr);
    write("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() { write("\x1b[?25h\x1b[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static winsize size() {
    winsize now{};
    const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_col > 0 && now.ws_row > 0;
    return is_known ? now : winsize{.ws_row = 24, .ws_col = kPlainColumns, .ws_xpixel = 0, .ws_ypixel = 0};
  }

  // Each line replaces what was in its place, so that nothing flickers.
  void show(const std::string& frame) {
    std::string text = "\x1b[H";
    size_t begin = 0;
    for (size_t end = frame.find('\n'); end != frame.npos; end = frame.find('\n', begin)) {
      if (begin > 0) text += "\r\n";
      text += frame.substr(begin, end - begin) + "\x1b[K";
      begin = end + 1;
    }
    write(text + "\x1b[J");
  }

  // Returns after `seconds`, or at once when the terminal changes its size or a signal asks to stop.
  void wait(double seconds) {
    pollfd waiting{.fd = wake_[0], .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, static_cast<int>(seconds * 1000));
    std::array<char, 64> ignored{};
    while (::read(wake_[0], ignored.data(), ignored.size()) > 0) {
    }
  }

 private:
  static void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        is_stopped = true;  // the terminal is gone
        return;
      }
      text.remove_prefix(static_cast<size_t>(written));
    }
  }

  std::array<int, 2> wake_{};
};

void follow(TerminalWatch& watch, const WatchArguments& arguments, const Terminal& terminal) {
  Screen screen;
  constexpr int64_t kLooksBetween = 10;  // the age of the last record is shown too
  winsize shown{};
  for (int64_t look = 0; !is_stopped; ++look) {
    const bool has_changed = watch.update();
    const winsize size = Screen::size();
    const bool has_another_size = size.ws_col != shown.ws_col || size.ws_row != shown.ws_row;
    if (has_changed || has_another_size || look % kLooksBetween == 0)
      screen.show(watch.frame(size.ws_col, size.ws_row, terminal));
    shown = size;
    if (watch.is_read() && watch.ending()) return;
    screen.wait(watch.is_read() ? arguments.every : 0);
  }
}

int watch_run(const WatchArguments& arguments) {
  TerminalWatch watch(arguments.run);
  const Terminal terminal = detect_terminal(STDOUT_FILENO);
  ::setpriority(PRIO_PROCESS, 0, 10);  // a run on the same machine goes first
  watch.update();
  const bool has_ended = watch.ending().has_value();
  if (terminal.interactive && !arguments.once && !has_ended) follow(watch, arguments, terminal);
  while (!is_stopped && !watch.is_read()) watch.update();
  const int columns = terminal.interactive ? Screen::size().ws_col : kPlainColumns;
  fmt::print("{}", watch.frame(columns, 0, terminal));
  if (watch.ending()) fmt::print("{}\n", watch.exit_line());
  return watch.ending() == RunStatus::failed ? kFailed : kDone;
}

}  // namespace

void add_watch_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command = app.add_subcommand("watch",
                                         "Follow a run in the terminal until it ends: curves, ranks, time left, log.\n\n"
                                         "examples:  trireme watch runs/demo\n"
                                         "           trireme watch runs/demo --once\n");
  command
      ->add_option("run", arguments->run,
                   "the folder of a run, a log of it, or a folder of runs, of which the newest is followed")
      ->capture_default_str();
  command->add_flag("--once", arguments->once, "print one picture and end; so does output that is not a terminal");
  command->add_option("--every", arguments->every, "seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  command->callback([arguments, &status] { status = watch_run(*arguments); });
}

}  // namespace trireme
