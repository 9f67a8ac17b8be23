#include "fetch/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "fetch/transfer_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBytes = ".partial", kState = ".partial.json", kMismatch = ".mismatch";
constexpr int kStateVersion = 1;
constexpr int64_t kStateLimit = 64 << 20;
constexpr size_t kHashPiece = 1 << 20;

void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

File open_bytes(const fs::path& path) {
  create_folders(fs::absolute(path).parent_path());
  File file = File::open_update(path);
  if (!file.lock()) throw Failure("{} is being written by another process", path.string());
  return file;
}

}  // namespace

bool is_name_of_unfinished(std::string_view name) { return name.ends_with(kBytes) || name.ends_with(kState); }

PartialFile::PartialFile(fs::path target)
    : target_(std::move(target)),
      bytes_path_(target_.string() + std::string(kBytes)),
      state_path_(target_.string() + std::string(kState)),
      file_(open_bytes(bytes_path_)) {}

void PartialFile::begin(const RemoteFile& remote, int64_t chunk_bytes, Resume resume) {
  const std::lock_guard hash_lock(hash_mutex_);  // always taken before the other mutex
  const std::unique_lock lock(mutex_);
  ++generation_;
  hash_ = Sha256();
  chunks_.clear();
  if (resume != Resume::never && resume_from_state(remote, resume)) return;
  remove_file(state_path_);
  file_.resize(0);
  remote_ = remote;
  lay_out(chunk_bytes);
}

// If anything in the saved state is inconsistent, the download starts again.
bool PartialFile::resume_from_state(const RemoteFile& remote, Resume resume) {
  std::error_code failed;
  if (!remote.ranges || remote.size < 0 || !fs::exists(state_path_, failed)) return false;
  try {
    const auto state = parse_json(read_file(state_path_, kStateLimit));
    const std::string identity = state.at("identity");
    if (state.at("version") != kStateVersion || state.at("size") != remote.size) return false;
    if (resume == Resume::same_file) {
      if (!remote.has_validator()) return false;
      if (!remote.identity.empty() && remote.identity != identity) return false;
      if (remote.modified && state.at("modified") != *remote.modified) return false;
    }
    const int64_t chunk_bytes = state.at("chunk_bytes");
    const std::vector<int64_t> done = state.at("done");
    if (chunk_bytes <= 0 || narrow<int64_t>(done.size()) != ceil_div(remote.size, chunk_bytes)) return false;
    for (size_t i = 0; i < done.size(); ++i) {
      const int64_t begin = narrow<int64_t>(i) * chunk_bytes, end = std::min(begin + chunk_bytes, remote.size);
      if (done[i] < 0 || done[i] > end - begin || (done[i] > 0 && file_.size() < begin + done[i])) {
        chunks_.clear();
        return false;
      }
      chunks_.emplace_back(begin, end, done[i]);
    }
    remote_ = remote;
    if (resume == Resume::same_file) remote_.identity = identity;
    chunk_bytes_ = chunk_bytes;
    return true;
  } catch (const std::exception&) {
    chunks_.clear();
    return false;
  }
}

void PartialFile::lay_out(int64_t chunk_bytes) {
  const bool whole = remote_.size < 0 || !remote_.ranges;
  chunk_bytes_ = whole ? std::max<int64_t>(remote_.size, 1) : chunk_bytes;
  if (whole) {
    chunks_.emplace_back(0, remote_.size, 0);
    return;
  }
  for (int64_t begin = 0; begin < remote_.size; begin += chunk_bytes)
    chunks_.emplace_back(begin, std::min(begin + chunk_bytes, remote_.size), 0);
}

std::optional<PartialFile::Range> PartialFile::missing(size_t chunk, int64_t generation) const {
  const std::shared_lock lock(mutex_);
  if (generation != generation_) return std::nullopt;
  const Chunk& wanted = chunks_[chunk];
  return Range{wanted.begin + wanted.done, remote_.ranges ? wanted.end : -1};
}

bool PartialFile::has(size_t chunk) const {
  const std::shared_lock lock(mutex_);
  return is_full(chunks_[chunk]);
}

bool PartialFile::complete() const {
  const std::shared_lock lock(mutex_);
  return std::ranges::all_of(chunks_, [&](const Chunk& chunk) { return is_full(chunk); });
}

int64_t PartialFile::bytes_done() const {
  const std::shared_lock lock(mutex_);
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.done;
  return bytes;
}

RemoteFile PartialFile::remote() const {
  const std::shared_lock lock(mutex_);
  return remote_;
}

void PartialFile::learn(const RemoteFile& answer) {
  const std::unique_lock lock(mutex_);
  const bool other_contents = !remote_.identity.empty() && !answer.identity.empty() && remote_.identity != answer.identity;
  const bool other_size = remote_.size >= 0 && answer.size >= 0 && remote_.size != answer.size;
  if (other_contents || other_size) throw TransferError(Remedy::restart, "the file changed at its place");
  if (remote_.identity.empty()) remote_.identity = answer.identity;
  if (!remote_.modified) remote_.modified = answer.modified;
}

bool PartialFile::append(size_t chunk, int64_t generation, std::span<const std::byte> bytes) {
  const std::shared_lock lock(mutex_);
  if (generation != generation_) return false;
  Chunk& filled = chunks_[chunk];
  const auto count = narrow<int64_t>(bytes.size());
  if (filled.end >= 0 && filled.begin + filled.done + count > filled.end)
    throw Failure("more bytes came for {} than it has", target_.string());
  file_.write_at(filled.begin + filled.done, bytes);
  filled.done += count;
  return true;
}

void PartialFile::restart_chunk(size_t chunk, int64_t generation) {
  const std::unique_lock lock(mutex_);
  if (generation != generation_) return;
  chunks_[chunk].done = 0;
}

void PartialFile::end_chunk(size_t chunk, int64_t generation) {
  const std::unique_lock lock(mutex_);
  if (generation != generation_) return;
  Chunk& ended = chunks_[chunk];
  ended.ended = true;
  if (ended.end < 0) remote_.size = ended.done;
}

void PartialFile::adopt() {
  const std::unique_lock lock(mutex_);
  file_ = File::open_update(bytes_path_);
  chunks_.clear();
  remote_.size = file_.size();
  chunks_.emplace_back(0, remote_.size, remote_.size);
}

// The bytes reach the disk before the state that describes them.
void PartialFile::save() {
  const std::lock_guard state_lock(state_mutex_);
  if (ended_) return;
  nlohmann::json state;
  {
    const std::shared_lock lock(mutex_);
    if (!remote_.ranges || remote_.size < 0) return;
    std::vector<int64_t> done;
    done.reserve(chunks_.size());
    for (const Chunk& chunk : chunks_) done.push_back(chunk.done);
    state = {{"version", kStateVersion},    {"size", remote_.size}, {"identity", remote_.identity},
             {"chunk_bytes", chunk_bytes_}, {"done", done},         {"modified", nullptr}};
    if (remote_.modified) state["modified"] = *remote_.modified;
  }
  file_.sync();
  atomic_write(state_path_, bytes_of(json_text(state, kOneLine) + "\n"));
}

void PartialFile::hash_ahead() {
  const std::unique_lock hash_lock(hash_mutex_, std::try_to_lock);
  if (!hash_lock) return;
  const std::shared_lock lock(mutex_);
  int64_t end = 0;
  for (const Chunk& chunk : chunks_) {
    if (!is_full(chunk)) break;
    end = chunk.begin + chunk.done;
  }
  hash_until(end);
}

std::string PartialFile::finish_hash() {
  const std::lock_guard hash_lock(hash_mutex_);
  const std::shared_lock lock(mutex_);
  hash_until(remote_.size);
  return Sha256(hash_).finish();
}

void PartialFile::hash_until(int64_t end) {
  std::vector<std::byte> buffer(kHashPiece);
  while (hash_.bytes() < end) {
    const auto piece = std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(kHashPiece, end - hash_.bytes())));
    file_.read_at(hash_.bytes(), piece);
    hash_.add(piece);
  }
}

void PartialFile::commit() {
  const std::lock_guard state_lock(state_mutex_);
  ended_ = true;
  file_.sync();
  if (remote_.modified) {
    const timespec when{.tv_sec = *remote_.modified, .tv_nsec = 0};
    const timespec times[2] = {when, when};
    ::utimensat(AT_FDCWD, bytes_path_.c_str(), times, 0);
  }
  std::error_code failed;
  fs::rename(bytes_path_, target_, failed);
  if (failed) throw Failure("cannot write {}: {}", target_.string(), failed.message());
  remove_file(state_path_);
  sync_folder(fs::absolute(target_).parent_path());
}

fs::path PartialFile::keep_aside() {
  const std::lock_guard state_lock(state_mutex_);
  ended_ = true;
  fs::path aside = target_.string() + std::string(kMismatch);
  std::error_code failed;
  fs::rename(bytes_path_, aside, failed);
  if (failed) throw Failure("cannot write {}: {}", aside.string(), failed.message());
  remove_file(state_path_);
  return aside;
}

void PartialFile::discard() {
  const std::lock_guard state_lock(state_mutex_);
  ended_ = true;
  remove_file(bytes_path_);
  remove_file(state_path_);
}

}  // namespace trireme
