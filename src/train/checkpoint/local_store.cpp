#include "train/checkpoint/local_store.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "base/start_threads.h"
#include "comm/control.h"
#include "train/checkpoint/writer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKept = 2;
constexpr size_t kRemembered = 16;  // more than another rank can save while it hears which one is copied
constexpr int64_t kManifestRoom = 1 << 20;

std::string trouble_json(const Failure& failure) { return json_text(nlohmann::json{{"trouble", failure.what()}}, kOneLine); }

void copy_file_durably(const fs::path& from, const fs::path& to) {
  const File source = File::open(from);
  File target = File::create(to);
  std::vector<std::byte> piece(4 << 20);
  for (int64_t done = 0, size = source.size(); done < size;) {
    const std::span<std::byte> part =
        std::span(piece).first(static_cast<size_t>(std::min<int64_t>(std::ssize(piece), size - done)));
    source.read_at(done, part);
    target.write(part);
    done += std::ssize(part);
  }
  target.sync();
}

}  // namespace

fs::path local_store_folder(const fs::path& local_dir, const fs::path& run) {
  const std::string path = fs::absolute(run).lexically_normal().string();
  return local_dir / fmt::format("trireme-{:08x}", crc32c(bytes_of(path)));
}

LocalStore::LocalStore(fs::path folder, fs::path shared, Leader leader, Retention retention, Control& ranks)
    : folder_(std::move(folder)),
      shared_(std::move(shared)),
      leader_(leader),
      retention_(retention),
      ranks_(ranks),
      thread_(start_thread([this] { run(); })) {}

LocalStore::~LocalStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// ------------------------------------------------------------------------------------------------------------------- save

std::string LocalStore::write_own(const CheckpointInfo& info, const ShardLayout& layout, std::span<const std::byte> image) {
  try {
    const fs::path temporary = folder_ / (checkpoint_name(info.step) + kWritingSuffix);
    create_folders(temporary);
    if (layout.entries.empty() && ranks_.size() > 1) return "{}";
    require_free_space(folder_, layout.bytes + kManifestRoom, "cannot save " + checkpoint_name(info.step));
    return nlohmann::json{{"shard", write_shard_entry(write_shard(temporary, ranks_.rank(), layout, image))}}.dump();
  } catch (const Failure& failure) {
    return trouble_json(failure);
  }
}

void LocalStore::save(const CheckpointInfo& info, const ShardLayout& layout, std::span<const std::byte> image) {
  CheckpointManifest manifest{info, fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))), {}};
  std::string trouble;
  for (const std::string& text : ranks_.gather("local shard", write_own(info, layout, image))) {
    const auto entry = nlohmann::json::parse(text);
    if (entry.contains("trouble") && trouble.empty()) trouble = entry.at("trouble").get<std::string>();
    if (entry.contains("shard")) manifest.shards.push_back(parse_shard_entry(entry.at("shard"), kManifestName));
  }
  trouble = ranks_.share("local trouble", trouble);
  if (trouble.empty()) {
    manifest = parse_manifest(ranks_.share("local manifest", ranks_.rank() == 0 ? write_manifest(manifest) : ""), kManifestName);
    try {
      if (leader_ == Leader::yes) commit(manifest);
    } catch (const Failure& failure) {
      trouble = failure.what();
    }
    trouble = ranks_.first_of("local commit", trouble);
  }
  if (!trouble.empty()) throw Failure("{}", trouble);
  const bool has_own = !layout.entries.empty() || ranks_.size() == 1;
  const std::lock_guard lock(mutex_);
  saved_.push_back(
      {.manifest = std::move(manifest), .own_file = has_own ? fmt::format("rank-{:05}.safetensors", ranks_.rank()) : ""});
  while (saved_.size() > kRemembered) saved_.erase(saved_.begin());
  changed_.notify_all();
}

void LocalStore::commit(const CheckpointManifest& manifest) {
  const int64_t step = manifest.info.step;
  const fs::path temporary = folder_ / (checkpoint_name(step) + kWritingSuffix);
  commit_checkpoint(temporary, of_step(step), manifest);
  remove_tree(temporary);  // there if the step had been saved before
  int64_t copying = kNoStep;
  {
    const std::lock_guard lock(mutex_);
    copying = copying_;
  }
  const std::vector<int64_t> steps = checkpoint_steps(folder_);
  for (const int64_t old : steps) {
    const auto newer = std::ranges::count_if(steps, [&](int64_t other) { return other > old && other <= step; });
    if (old != copying && (newer >= static_cast<int64_t>(kKept) || old > step)) remove_tree(of_step(old));
  }
}

void LocalStore::remove() {
  if (leader_ == Leader::yes) remove_tree(folder_);
}

// ------------------------------------------------------------------------------------------------------------------- copy

void LocalStore::check_copies() {
  const std::lock_guard lock(mutex_);
  if (!trouble_.empty()) throw Failure("{}", std::exchange(trouble_, ""));
}

// Whether the newest copy failed is the same on all ranks, and so is what this throws.
void LocalStore::wait_for_copies() {
  std::unique_lock lock(mutex_);
  const auto newest = [&] { return saved_.empty() ? kNoStep : saved_.back().manifest.info.step; };
  changed_.wait(lock, [&] { return has_ended_ || copied_ >= newest(); });
  const std::string trouble = std::exchange(trouble_, "");
  if (!trouble.empty() && (has_ended_ || failed_ == newest())) throw Failure("{}", trouble);
}

// Rank 0 decides which step is copied, and when it is over.
std::optional<LocalStore::Saved> LocalStore::next_to_copy() {
  const auto newest = [&] { return saved_.empty() ? kNoStep : saved_.back().manifest.info.step; };
  int64_t step = kNoStep;
  if (ranks_.rank() == 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || newest() > copied_; });
    if (!stop_) step = copying_ = newest();
  }
  step = std::stoll(ranks_.share("copy", fmt::format("{}", step)));
  if (step == kNoStep) return std::nullopt;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || newest() >= step; });  // rank 0 may be a moment ahead of this rank
  copying_ = step;
  const auto found = std::ranges::find(saved_, step, [](const Saved& saved) { return saved.manifest.info.step; });
  if (found != saved_.end()) return *found;
  Saved gone{.manifest = {}, .own_file = "a shard that newer ones have replaced"};  // fails like a file that cannot be read
  gone.manifest.info.step = step;
  return gone;
}

std::string LocalStore::copy_own(const Saved& saved) const {
  if (saved.own_file.empty()) return "";
  const std::string name = checkpoint_name(saved.manifest.info.step);
  try {
    copy_file_durably(folder_ / name / saved.own_file, shared_ / (name + kWritingSuffix) / saved.own_file);
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

void LocalStore::copy(const Saved& saved) {
  const int64_t step = saved.manifest.info.step;
  const fs::path temporary = shared_ / (checkpoint_name(step) + kWritingSuffix);
  std::string trouble;
  if (ranks_.rank() == 0) {
    int64_t bytes = kManifestRoom;
    for (const StoredShard& shard : saved.manifest.shards) bytes += shard.bytes;
    try {
      create_folders(shared_);
      remove_temporary_folders(shared_);
      require_free_space(shared_, bytes, "cannot save " + checkpoint_name(step));
      create_folders(temporary);
    } catch (const Failure& failure) {
      trouble = failure.what();
    }
  }
  trouble = ranks_.share("copy begins", trouble);
  if (trouble.empty()) trouble = ranks_.first_of("copied", copy_own(saved));
  if (ranks_.rank() == 0 && trouble.empty()) {
    try {
      commit_checkpoint(temporary, shared_ / checkpoint_name(step), saved.manifest);
      remove_tree(temporary);  // there if the step had been saved before
      remove_old_checkpoints(shared_, step, retention_);
    } catch (const Failure& failure) {
      trouble = failure.what();
    }
  }
  trouble = ranks_.share("copy ends", trouble);
  const std::lock_guard lock(mutex_);
  copying_ = kNoStep;
  copied_ = std::max(copied_, step);  // one that failed is not tried again; the next save is
  if (!trouble.empty()) {
    trouble_ = trouble;
    failed_ = step;
  }
  changed_.notify_all();
}

void LocalStore::run() {
  try {
    while (const std::optional<Saved> saved = next_to_copy()) copy(*saved);
  } catch (const std::exception& error) {  // the job has ended
    const std::lock_guard lock(mutex_);
    trouble_ = error.what();
  }
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

}  // namespace trireme
