#include "launch/slurm/step.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace trireme {
namespace {

constexpr int kWatchMilliseconds = 100;

pid_t spawn_step(const std::vector<std::string>& words, int output, int errors) {
  const std::vector<char*> argv = argv_of(words);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output < 0) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  } else {
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  }
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Failure("cannot start {}: {}", words.front(), std::strerror(error));
  return child;
}

// The logs of a step: one per rank, and the merged one on stdout.
class StepLogs {
 public:
  explicit StepLogs(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const LabelledLine& line) {
    std::string text(line.text);
    text += '\n';
    merge(line.rank.value_or(0) > 0 ? fmt::format("rank {}: {}", *line.rank, text) : text);
    if (line.rank && !folder_.empty()) append(*line.rank, text);
  }

 private:
  static void merge(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
      if (count < 0 && errno != EINTR) return;  // a full disk must not end the run
      if (count > 0) text.remove_prefix(static_cast<size_t>(count));
    }
  }

  void append(int64_t rank, const std::string& text) {
    constexpr size_t kMostOpen = 512;
    try {
      if (files_.size() > kMostOpen) files_.clear();
      auto file = files_.find(rank);
      if (file == files_.end())
        file = files_.emplace(rank, File::open_append(folder_ / fmt::format("rank-{:05}.log", rank))).first;
      file->second.write(text);
    } catch (const Failure& failure) {
      if (!std::exchange(has_warned_, true)) merge(fmt::format("warning: {}\n", failure.what()));
    }
  }

  std::filesystem::path folder_;
  std::map<int64_t, File> files_;
  bool has_warned_ = false;
};

// One of the two streams of srun, cut into lines.
class LineReader {
 public:
  LineReader() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Failure("cannot make a pipe for srun: {}", std::strerror(errno));
    reading_ = ends[0];
    writing_ = ends[1];
  }
  ~LineReader() {
    close_writing();
    if (reading_ >= 0) ::close(reading_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  int writing() const { return writing_; }
  void close_writing() {
    if (writing_ >= 0) ::close(std::exchange(writing_, -1));
  }
  pollfd waiting() const { return {reading_, POLLIN, 0}; }
  bool is_open() const { return reading_ >= 0; }

  template <class Take>
  void read(const Take& take) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(reading_, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count > 0) text_.append(buffer.data(), static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', begin)) {
      take(std::string_view(text_).substr(begin, end - begin));
      begin = end + 1;
    }
    text_.erase(0, begin);
    if (count > 0) return;
    if (!text_.empty()) take(text_);
    ::close(std::exchange(reading_, -1));
  }

 private:
  int reading_ = -1, writing_ = -1;
  std::string text_;
};

}  // namespace

StepEnd run_step(const std::vector<std::string>& words, const std::filesystem::path& folder, const StepWatch& watch,
                 const LineWatch& on_line) {
  StepEnd end;
  StepLogs logs(folder);
  LineReader output, errors;
  const pid_t srun = spawn_step(words, output.writing(), errors.writing());
  output.close_writing();
  errors.close_writing();
  const auto take = [&](std::string_view text) {
    const LabelledLine line = parse_labelled_line(text);
    end.messages.note(line);
    logs.add(line);
    if (on_line) on_line(line);
  };
  int status = 0;
  bool has_ended = false;
  // A killed srun may leave its streams open in a process of a container; what it has printed is read once more.
  while (!has_ended) {
    std::array<pollfd, 2> waiting{output.waiting(), errors.waiting()};
    ::poll(waiting.data(), waiting.size(), kWatchMilliseconds);
    if (output.is_open() && waiting[0].revents != 0) output.read(take);
    if (errors.is_open() && waiting[1].revents != 0) errors.read(take);
    const SrunMessages& messages = end.messages;
    const bool has_failed = messages.first_failure().has_value() || messages.could_not_start() || !messages.lost_nodes().empty();
    if (const int signal = watch(has_failed); signal != 0) ::kill(srun, signal);
    has_ended = ::waitpid(srun, &status, WNOHANG) == srun;
  }
  for (LineReader* reader : {&errors, &output})
    for (pollfd rest = reader->waiting(); reader->is_open() && ::poll(&rest, 1, 0) > 0; rest = reader->waiting())
      reader->read(take);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (const auto& first = end.messages.first_failure(); first && end.status != 0) end.status = first->status;
  if (end.messages.could_not_start() && end.status == kDone) end.status = kFailed;
  return end;
}

pid_t start_in_background(const std::vector<std::string>& words) { return spawn_step(words, -1, -1); }

}  // namespace trireme
