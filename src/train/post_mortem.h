// post-mortem-N.txt in the folder of a run: one page about the end of attempt N, written when it fails. Who failed and how, where
// every rank was, the last lines of the logs, and what to do next.
#pragma once

#include <string>
#include <vector>

#include "comm/control.h"
#include "train/run_folder.h"

namespace trireme {

struct PostMortem {
  RunFolder folder;
  int64_t attempt = 1;
  std::vector<std::string> rank_logs;  // names of the text logs, by rank
  std::string command;                 // that started the run

  std::filesystem::path path() const { return folder.file(fmt::format("{}{}.txt", kPostMortemPrefix, attempt)); }
  std::string text(const JobEnd& end, const std::vector<RankSeen>& ranks) const;
  void write(const JobEnd& end, const std::vector<RankSeen>& ranks) const;  // never throws
};

}  // namespace trireme
