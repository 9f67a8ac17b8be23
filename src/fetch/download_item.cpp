#include "fetch/download_item.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr double kMaxBackoff = 30, kMaxWait = 120;  // seconds: our own backoff, and a wait that a server requests
constexpr int kMaxRestarts = 3;

}  // namespace

DownloadItem::DownloadItem(DownloadFile file, const DownloadOptions& options)
    : file_(std::move(file)), options_(options), probed_(file_.remote.size >= 0 || !file_.remote.identity.empty()) {
  CHECK(!file_.sources.empty());
}

std::optional<DownloadItem::Job> DownloadItem::take(double now) {
  if (stage_ == Stage::to_open && now >= opening_.not_before) {
    stage_ = Stage::opening;
    return job(Job::Kind::open);
  }
  if (stage_ != Stage::transferring) return std::nullopt;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].state != Part::State::pending || now < parts_[i].not_before) continue;
    parts_[i].state = Part::State::taken;
    return job(Job::Kind::chunk, i);
  }
  if (!std::ranges::all_of(parts_, [](const Part& part) { return part.state == Part::State::done; })) return std::nullopt;
  stage_ = Stage::finishing;
  return job(Job::Kind::finish);
}

void DownloadItem::run(const Job& job, SourceReader& reader, const std::function<void(int64_t)>& brought) {
  switch (job.kind) {
    case Job::Kind::open:
      return open(job, reader, brought);
    case Job::Kind::chunk:
      return transfer(job, reader, brought);
    case Job::Kind::finish:
      return finish();
  }
}

void DownloadItem::open(const Job& job, SourceReader& reader, const std::function<void(int64_t)>& brought) {
  const Source& source = file_.sources[job.source];
  if (!partial_)
    partial_ = std::make_unique<PartialFile>(file_.target);
  else if (resume_ != PartialFile::Resume::never)
    partial_->save();  // keeps what the previous source sent
  if (source.tool) {
    partial_->begin(file_.remote, options_.chunk_bytes, PartialFile::Resume::never);
    try {
      download(*source.tool, source.location, partial_->path().string(), options_.stop);
    } catch (const Failure& error) {
      const bool stopped = options_.stop != nullptr && *options_.stop;
      throw TransferError(stopped ? Remedy::none : Remedy::other_source, error.what());
    }
    partial_->adopt();
    brought(partial_->bytes_done());
    return;
  }
  RemoteFile remote = probed_ ? file_.remote : reader.probe(source.location);
  // Without a validator, parts may be of different files, so they are trusted only if a checksum verifies the result.
  const bool trusted = remote.has_validator() || !file_.sha256.empty();
  if (whole_file_ || !trusted) remote.ranges = false;
  const bool by_checksum = resume_ == PartialFile::Resume::same_file && !remote.has_validator();
  partial_->begin(remote, options_.chunk_bytes, by_checksum ? PartialFile::Resume::same_size : resume_);
  resumed_by_checksum_ = by_checksum && partial_->bytes_done() > 0;
}

void DownloadItem::transfer(const Job& job, SourceReader& reader, const std::function<void(int64_t)>& brought) {
  const RemoteFile remote = partial_->remote();
  if (!remote.ranges) partial_->restart_chunk(job.chunk, job.generation);
  const auto range = partial_->missing(job.chunk, job.generation);
  if (!range) throw TransferError(Remedy::none, "begun anew");
  reader.read(
      file_.sources[job.source].location, range->begin, range->end, remote.identity,
      [&](const RemoteFile& answer) { partial_->learn(answer); },
      [&](std::span<const std::byte> bytes) {
        if (!partial_->append(job.chunk, job.generation, bytes)) throw TransferError(Remedy::none, "begun anew");
        brought(narrow<int64_t>(bytes.size()));
      });
  partial_->end_chunk(job.chunk, job.generation);
  if (!partial_->has(job.chunk)) throw TransferError(Remedy::retry, "the server sent less than it said");
  partial_->hash_ahead();
}

void DownloadItem::finish() {
  result_.sha256 = partial_->finish_hash();
  result_.bytes = partial_->bytes_done();
  if (!file_.sha256.empty() && result_.sha256 != file_.sha256)
    throw TransferError(Remedy::other_source, fmt::format("its SHA-256 is {} and should be {}", result_.sha256, file_.sha256));
  partial_->commit();
}

void DownloadItem::done(const Job& job) {
  if (job.epoch != epoch_) return;
  switch (job.kind) {
    case Job::Kind::open:
      stage_ = Stage::transferring;
      generation_ = partial_->generation();
      parts_.assign(partial_->chunks(), {});
      for (size_t i = 0; i < parts_.size(); ++i)
        if (partial_->has(i)) parts_[i].state = Part::State::done;
      break;
    case Job::Kind::chunk:
      parts_[job.chunk].state = Part::State::done;
      break;
    case Job::Kind::finish:
      stage_ = Stage::ended;
      result_.outcome = DownloadResult::Outcome::done;
      result_.source = shown(file_.sources[source_].location);
      break;
  }
}

void DownloadItem::failed(const Job& job, const TransferError& error, double now) {
  if (job.epoch != epoch_) return;
  Part& part = job.kind == Job::Kind::chunk ? parts_[job.chunk] : opening_;
  if (job.kind == Job::Kind::chunk) {
    const auto missing = partial_->missing(job.chunk, job.generation);
    if (missing && missing->begin > part.reached) part.failures = 0;
    if (missing) part.reached = missing->begin;
  }
  if (job.kind == Job::Kind::open) stage_ = Stage::to_open;
  part.state = Part::State::pending;
  const bool mismatch = job.kind == Job::Kind::finish;
  if (mismatch && std::exchange(resumed_by_checksum_, false)) return reopen(PartialFile::Resume::never);
  if (mismatch && source_ + 1 == file_.sources.size()) {
    const std::string aside = partial_->keep_aside().string();
    return next_source(fmt::format("{}; what came is kept as {}", error.what(), aside));
  }
  switch (error.remedy) {
    case Remedy::none:
      return;
    case Remedy::retry:
    case Remedy::unreachable:
      if (++part.failures > options_.retries) return next_source(error.what());
      return retry_later(part, error.wait_seconds, now);
    case Remedy::restart:
      if (++restarts_ > kMaxRestarts) return next_source("the file keeps changing");
      return reopen(PartialFile::Resume::never);
    case Remedy::whole_file:
      if (whole_file_) return next_source(error.what());
      whole_file_ = true;
      return reopen(PartialFile::Resume::never);
    case Remedy::other_source:
    case Remedy::credentials:
      next_source(error.what());
      if (mismatch) resume_ = PartialFile::Resume::never;
      return;
  }
}

void DownloadItem::retry_later(Part& part, double wait, double now) const {
  const double own = std::min(options_.backoff_seconds * std::exp2(part.failures - 1), kMaxBackoff);
  part.not_before = now + std::max(own, std::min(wait, kMaxWait));
}

void DownloadItem::reopen(PartialFile::Resume resume) {
  ++epoch_;
  stage_ = Stage::to_open;
  probed_ = false;
  resume_ = resume;
  opening_ = {};
}

// A file assembled from two sources is trusted only if a checksum verifies it.
void DownloadItem::next_source(const std::string& reason) {
  reasons_.push_back(fmt::format("{}: {}", shown(file_.sources[source_].location), reason));
  whole_file_ = false;
  restarts_ = 0;
  if (source_ + 1 < file_.sources.size()) {
    ++source_;
    reopen(file_.sha256.empty() ? PartialFile::Resume::same_file : PartialFile::Resume::same_size);
    return;
  }
  ++epoch_;
  stage_ = Stage::ended;
  result_.outcome = DownloadResult::Outcome::failed;
  result_.error = fmt::format("{}", fmt::join(reasons_, "; "));
  if (partial_ && partial_->bytes_done() == 0) partial_->discard();
}

int64_t DownloadItem::bytes_done() const {
  if (stage_ == Stage::ended) return result_.bytes;
  return stage_ != Stage::opening && partial_ ? partial_->bytes_done() : 0;
}

}  // namespace trireme
