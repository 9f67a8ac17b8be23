// The runs that somebody looks at, read as far as they go. Those that nobody has looked at for longest are dropped when all take
// too much memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "serve/run_feed.h"
#include "serve/run_index.h"

namespace trireme {

class FeedCache {
 public:
  FeedCache(FactOptions said, int64_t most_bytes) : said_(std::move(said)), most_bytes_(most_bytes) {}

  // Calls look(feed) with the run read on for at most `seconds`. Threads that look at the same run take turns.
  template <class Look>
  auto with(const RunEntry& run, double seconds, const Look& look) {
    const std::shared_ptr<Followed> followed = take(run.id);
    const std::lock_guard lock(followed->mutex);
    bring_up_to_date(*followed, run, seconds);
    return look(*followed->feed);
  }

 private:
  struct Followed {
    std::mutex mutex;
    std::unique_ptr<RunFeed> feed;
    int64_t index_version = 0;  // of the entry whose files it has
    int64_t bytes = 0, used_at = 0;
  };

  std::shared_ptr<Followed> take(const std::string& id);
  void bring_up_to_date(Followed& followed, const RunEntry& run, double seconds);

  const FactOptions said_;
  const int64_t most_bytes_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Followed>> followed_;
  int64_t uses_ = 0;
};

}  // namespace trireme
