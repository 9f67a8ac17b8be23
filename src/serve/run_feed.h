// Follows one run: reads what its log has gained and keeps the history of every quantity. Whatever `trireme report` reads can be
// followed; of several logs of a run one is read, since they agree.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/quantities.h"
#include "report/readers.h"
#include "report/run_facts.h"
#include "report/run_files.h"
#include "serve/history.h"
#include "serve/log_tail.h"

namespace trireme {

inline constexpr size_t kRecentSteps = 50;  // whose median says how fast a run is now

class RunFeed {
 public:
  RunFeed(RunFiles files, FactOptions said);

  // The files of the run as they are now; a better log than the one that was read is read from its start.
  void set_files(const RunFiles& files);

  // Reads what was appended until `seconds` are over. Returns whether anything changed.
  bool update(double seconds);

  const History& of(Quantity quantity) const { return histories_[static_cast<size_t>(quantity)]; }
  const History& elapsed() const { return elapsed_; }  // seconds since the first record; empty if the log has no times
  const History& tokens() const { return tokens_; }    // including each step's

  bool is_whole() const;  // everything that was there at the last update was read
  double share_read() const;
  int64_t version() const { return version_; }        // grows with every change
  int64_t generation() const { return generation_; }  // grows when the log was replaced, so that older answers are void
  int64_t bytes() const;

  const RunFacts& facts() const { return facts_; }
  const Parameters& parameters() const { return settings_.parameters; }
  const nlohmann::json& summary() const { return settings_.summary; }
  const std::vector<std::string>& notes() const { return notes_; }
  const RunFiles& files() const { return files_; }
  std::string log_path() const;
  std::optional<int64_t> planned_steps() const;  // trainer.max_steps
  std::optional<int64_t> steps_done() const;     // counted from 1

 private:
  static constexpr size_t kQuantities = static_cast<size_t>(Quantity::count_);

  void start();  // from the beginning of the files
  void read_settings();
  void read_summary_again();
  void absorb();  // what the parser has
  void absorb_axes();
  bool absorb_quantity(Quantity quantity, bool has_new_names);  // false: another series of the log means it now
  bool read_some();
  int64_t read_bytes() const;
  int64_t total_bytes() const;

  RunFiles files_;
  const FactOptions said_;
  RunLog settings_;  // parameters, summary and ranks, which RunFacts follow from
  RunFacts facts_;
  std::vector<std::string> notes_;

  std::unique_ptr<LogParser> parser_;
  std::vector<LogTail> tails_;  // of one log: several event files, else one
  RunLog window_;               // every series of the log, with the points since the last but one of earlier batches
  std::array<History, kQuantities> histories_;
  std::array<std::string, kQuantities> sources_;
  History elapsed_, tokens_;
  std::optional<double> first_time_;
  int64_t version_ = 1, generation_ = 1, summary_modified_ = 0;
  bool is_unreadable_ = false;
};

}  // namespace trireme
