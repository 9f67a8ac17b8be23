#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kErrorsKept = 4096;
constexpr int kPollMilliseconds = 100;

[[noreturn]] void fail(const std::string& program, int error) {
  throw Failure("cannot start {}: {}", program, std::generic_category().message(error));
}

class Pipe {
 public:
  explicit Pipe(const std::string& program) {
    // Closed on exec, so that programs started concurrently by other threads do not hold the writing end open.
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail(program, errno);
  }
  ~Pipe() {
    close_reading();
    close_writing();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void close_reading() { close_end(ends_[0]); }
  void close_writing() { close_end(ends_[1]); }

 private:
  static void close_end(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
  std::array<int, 2> ends_{-1, -1};
};

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

pid_t spawn(const std::vector<std::string>& arguments, const Pipe& output, const Pipe& errors) {
  const std::vector<char*> argv = argv_of(arguments);
  SpawnActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), output.writing(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(actions.get(), errors.writing(), STDERR_FILENO);
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, argv[0], actions.get(), nullptr, argv.data(), environ); error != 0)
    fail(arguments.front(), error);
  return child;
}

// Waits for the child on every exit of the scope.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ == 0) return;
    ::kill(id_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void ask_to_stop() const { ::kill(id_, SIGTERM); }
  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_;
};

// Appends the available bytes; returns false at the end.
bool read_some(int descriptor, std::string& to) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  if (count > 0) to.append(buffer.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

std::vector<char*> argv_of(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

void become_program(const std::vector<std::string>& arguments) {
  const std::vector<char*> argv = argv_of(arguments);
  ::execvp(argv.front(), argv.data());
  fail(arguments.front(), errno);
}

std::string find_program(const std::string& name) {
  const char* variable = std::getenv("PATH");
  const std::string path = variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::filesystem::path candidate = std::filesystem::path(path.substr(begin, end - begin)) / name;
    std::error_code ignored;
    if (end > begin && std::filesystem::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate.string();
    begin = end + 1;
  }
  return {};
}

CommandOutput run_command(const std::vector<std::string>& arguments, int64_t output_limit, const std::atomic<bool>* stop) {
  const std::string& program = arguments.front();
  Pipe output(program), errors(program);
  Child child(spawn(arguments, output, errors));
  output.close_writing();
  errors.close_writing();
  CommandOutput result;
  bool asked_to_stop = false;
  while (output.reading() >= 0 || errors.reading() >= 0) {
    std::array<pollfd, 2> waiting{pollfd{output.reading(), POLLIN, 0}, pollfd{errors.reading(), POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), kPollMilliseconds) < 0 && errno != EINTR) fail(program, errno);
    if (stop != nullptr && *stop && !std::exchange(asked_to_stop, true)) child.ask_to_stop();
    if (waiting[0].revents != 0 && !read_some(output.reading(), result.output)) output.close_reading();
    if (waiting[1].revents != 0 && !read_some(errors.reading(), result.errors)) errors.close_reading();
    if (narrow<int64_t>(result.output.size()) > output_limit)
      throw Failure("{} wrote more than the {} bytes expected", program, output_limit);
    if (result.errors.size() > 2 * kErrorsKept) result.errors.erase(0, result.errors.size() - kErrorsKept);
  }
  result.status = child.wait();
  return result;
}

}  // namespace trireme
