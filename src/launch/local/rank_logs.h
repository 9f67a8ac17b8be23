// The logs of a job: a file per rank with everything it writes, and log.txt with the whole lines of all. A full disk costs lines
// of the logs and one warning; it never stops or delays a rank.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

class RankLogs {
 public:
  // `warn` receives the one line about logs that cannot be written.
  RankLogs(std::filesystem::path folder, std::function<void(const std::string&)> warn);
  ~RankLogs();
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  void add(int64_t rank, std::string_view bytes);  // what a rank wrote, in pieces of any size
  void end_of(int64_t rank);                       // completes a last line without an end
  void add_of_starter(const std::string& name,
                      std::string_view bytes);                  // what the program that starts the ranks wrote: to NAME.log
  void quote(const std::string& name, std::string_view bytes);  // the same, to log.txt
  void say(std::string_view line);                              // of the supervisor, to log.txt

  // The last line with which a rank gave its reason to leave, since the last call: "rank 3 (node7, process 4711) died in step
  // 20".
  std::string take_complaint() { return std::move(complaint_); }
  bool has_complaint() const { return !complaint_.empty(); }
  // Whether rank 0 has said since the last call that an attempt after a failure has done its first step.
  bool take_first_step() { return std::exchange(has_first_step_, false); }

 private:
  struct LogFile {
    int descriptor = -1;
    bool is_torn = false;  // its last write was cut short
  };
  void write(const std::string& name, std::string_view text);
  void merge(const std::string& prefix, std::string& line, std::string_view bytes);
  void merge_line(const std::string& prefix, std::string_view line);

  std::filesystem::path folder_;
  std::function<void(const std::string&)> warn_;
  bool has_warned_ = false;
  std::map<std::string, LogFile> files_;  // by name
  std::map<int64_t, std::string> lines_;  // of each rank: the line that has not ended yet
  std::string starter_line_, complaint_;
  bool has_first_step_ = false;
};

}  // namespace trireme
