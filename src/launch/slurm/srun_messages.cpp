#include "launch/slurm/srun_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstring>

#include "launch/slurm/slurm_text.h"

namespace trireme {
namespace {

constexpr std::string_view kError = "srun: error: ", kOwnError = "trireme: ", kCancelled = " CANCELLED AT ", kDueTo = " DUE TO ";

std::optional<std::string_view> after(std::string_view text, std::string_view part) {
  const size_t at = text.find(part);
  return at == std::string_view::npos ? std::nullopt : std::optional(text.substr(at + part.size()));
}

int64_t leading_number(std::string_view text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Of a text such as "Killed" or "Segmentation fault (core dumped)"; 0 if it names no signal.
int signal_of(std::string_view text) {
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE,
                           SIGQUIT, SIGTRAP, SIGXCPU, SIGXFSZ})
    if (text.starts_with(strsignal(signal))) return signal;
  return text.starts_with("Out Of Memory") ? SIGKILL : 0;
}

}  // namespace

LabelledLine parse_labelled_line(std::string_view line) {
  size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {std::nullopt, line};
  size_t end = begin;
  while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
  const bool is_labelled = end > begin && end < line.size() && line[end] == ':';
  if (!is_labelled) return {std::nullopt, line};
  const size_t text = std::min(line.size(), end + (end + 1 < line.size() && line[end + 1] == ' ' ? 2 : 1));
  return {leading_number(line.substr(begin)), line.substr(text)};
}

void SrunMessages::note(const LabelledLine& line) {
  // slurmstepd of any rank: "*** STEP 5.0 ON n3 CANCELLED AT 2026-11-18T19:36:23 DUE TO TIME LIMIT ***"
  if (line.text.find("slurmstepd") != std::string_view::npos && line.text.find(kCancelled) != std::string_view::npos) {
    const std::string_view why = after(line.text, kDueTo).value_or("");
    if (!cancelled_) cancelled_ = std::string(why.substr(0, why.find(" ***")));
    return;
  }
  if (line.rank && said_.empty() && line.text.starts_with(kOwnError)) said_ = line.text.substr(kOwnError.size());
  if (line.rank || !line.text.starts_with(kError)) return;
  const std::string_view message = line.text.substr(kError.size());
  if (const auto nodes = after(message, "Node failure on ")) return note_lost(*nodes);
  if (const auto node = after(message, " failed on node ")) return note_lost(node->substr(0, node->find(':')));
  // "Application launch failed: ...", "task 0 launch failed: Plugin initialization failed"
  const bool failed_at_start = message.find(" launch failed") != std::string_view::npos;
  could_not_start_ = could_not_start_ || failed_at_start;
  if (message.starts_with("Unable to ") || failed_at_start) {
    if (start_error_.empty()) start_error_ = message;
    return;
  }
  note_tasks(message);
}

// "n1: task 0: Exited with exit code 1", "n[1-2]: tasks 0-3: Killed"
void SrunMessages::note_tasks(std::string_view message) {
  const size_t colon = message.find(": task");
  if (colon == std::string_view::npos || first_) return;
  const std::string_view tasks = message.substr(message.find(' ', colon + 2) + 1);
  const auto what = after(tasks, ": ");
  if (!what) return;
  int status = 0;
  if (const auto code = after(*what, "Exited with exit code "))
    status = static_cast<int>(leading_number(*code));
  else if (const int signal = signal_of(*what); signal != 0)
    status = 128 + signal;
  if (status <= 0) return;
  const std::vector<std::string> nodes = expand_node_list(std::string(message.substr(0, colon)));
  first_ = Failed{.rank = leading_number(tasks), .node = nodes.empty() ? "" : nodes.front(), .status = status};
}

void SrunMessages::note_lost(std::string_view nodes) {
  for (const std::string& node : expand_node_list(std::string(nodes)))
    if (std::ranges::find(lost_nodes_, node) == lost_nodes_.end()) lost_nodes_.push_back(node);
}

std::string SrunMessages::reason() const {
  if (!lost_nodes_.empty()) return fmt::format("node {} failed", lost_nodes_.front());
  if (!said_.empty()) return said_;
  if (first_ && first_->status > 128)
    return fmt::format("rank {} on {} was killed by signal {}", first_->rank, first_->node, first_->status - 128);
  if (first_) return fmt::format("rank {} on {} ended with exit status {}", first_->rank, first_->node, first_->status);
  return start_error_;
}

}  // namespace trireme
