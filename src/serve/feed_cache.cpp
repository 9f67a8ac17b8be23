#include "serve/feed_cache.h"

#include <algorithm>

namespace trireme {

std::shared_ptr<FeedCache::Followed> FeedCache::take(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Followed>& wanted = followed_[id];
  if (wanted == nullptr) wanted = std::make_shared<Followed>();
  wanted->used_at = ++uses_;
  int64_t bytes = 0;
  for (const auto& [name, followed] : followed_) bytes += followed->bytes;
  while (bytes > most_bytes_ && followed_.size() > 1) {
    const auto oldest = std::ranges::min_element(followed_, {}, [](const auto& entry) { return entry.second->used_at; });
    bytes -= oldest->second->bytes;
    followed_.erase(oldest);  // a thread that looks at it keeps it until it is done
  }
  return followed_[id];
}

void FeedCache::bring_up_to_date(Followed& followed, const RunEntry& run, double seconds) {
  if (followed.feed == nullptr)
    followed.feed = std::make_unique<RunFeed>(run.files, said_);
  else if (followed.index_version != run.version)
    followed.feed->set_files(run.files);
  followed.index_version = run.version;
  followed.feed->update(seconds);
  const std::lock_guard lock(mutex_);
  followed.bytes = followed.feed->bytes();
}

}  // namespace trireme
