#include "train/checkpoint/writer.h"

#include <fmt/chrono.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <map>

#include "backend/backend.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "comm/control.h"
#include "train/checkpoint/safetensors.h"

namespace trireme {

ShardLayout lay_out_shard(std::span<const CheckpointTensor> tensors) {
  std::map<std::string, ShardLayout::Entry> by_key;
  std::map<std::string, int> slices_of;
  std::vector<SafetensorsTensor> places;
  for (const CheckpointTensor& tensor : tensors) {
    CHECK(tensor.slice.valid() && tensor.slice.count() == tensor.tensor.count());
    const int number = slices_of[tensor.name]++;
    const std::string key = number == 0 ? tensor.name : fmt::format("{}#{}", tensor.name, number);
    const DType dtype = tensor.tensor.dtype;
    places.push_back({key, dtype, tensor.slice.shape()});
    by_key[key] = {{tensor.name, key, dtype, tensor.slice}, tensor.tensor, tensor.backend};
  }
  const SafetensorsHeader header = make_safetensors_header(std::move(places), {{"format", "trireme"}});
  ShardLayout layout{header.bytes, {}, header.file_bytes};
  for (const SafetensorsTensor& place : header.tensors) {
    layout.entries.push_back(by_key.at(place.name));
    layout.entries.back().begin = place.begin;
  }
  return layout;
}

namespace {

StoredShard begin_shard(int64_t rank, const ShardLayout& layout) {
  return {.file = fmt::format("rank-{:05}.safetensors", rank),
          .bytes = layout.bytes,
          .header_checksum = crc32c(bytes_of(layout.header)),
          .tensors = {}};
}

}  // namespace

StoredShard write_shard(const std::filesystem::path& temporary, int64_t rank, const ShardLayout& layout,
                        std::span<const std::byte> image) {
  CHECK_EQ(narrow<int64_t>(image.size()), layout.bytes);
  StoredShard shard = begin_shard(rank, layout);
  for (const ShardLayout::Entry& entry : layout.entries) {
    shard.tensors.push_back(entry.stored);
    shard.tensors.back().checksum = crc32c(image.subspan(entry.begin, entry.tensor.bytes()));
  }
  File file = File::create(temporary / shard.file);
  file.write(image);
  file.sync();
  return shard;
}

StoredShard stream_shard(const std::filesystem::path& temporary, int64_t rank, const ShardLayout& layout,
                         const std::function<void(const StoredTensor&, std::span<std::byte>)>& fill) {
  StoredShard shard = begin_shard(rank, layout);
  File file = File::create(temporary / shard.file);
  file.write(layout.header);
  std::vector<std::byte> contents;
  for (const ShardLayout::Entry& entry : layout.entries) {
    contents.resize(entry.tensor.bytes());
    fill(entry.stored, contents);
    file.write(contents);
    shard.tensors.push_back(entry.stored);
    shard.tensors.back().checksum = crc32c(contents);
  }
  file.sync();
  return shard;
}

void commit_checkpoint(const std::filesystem::path& temporary, const std::filesystem::path& folder,
                       const CheckpointManifest& manifest) {
  const std::string text = write_manifest(manifest);
  parse_manifest(text, kManifestName);  // what cannot be read again must not replace what can
  File file = File::create(temporary / kManifestName);
  file.write(text);
  file.sync();
  sync_folder(temporary);
  rename_or_exchange(temporary, folder);
}

CheckpointWriter::CheckpointWriter(std::filesystem::path folder, std::span<const CheckpointTensor> tensors, Retention retention,
                                   Control* ranks, std::unique_ptr<LocalStore> local)
    : folder_(std::move(folder)),
      retention_(retention),
      alone_(ranks == nullptr ? std::make_unique<Control>() : nullptr),
      ranks_(ranks != nullptr ? *ranks : *alone_),
      layout_(lay_out_shard(tensors)),
      staging_(layout_.bytes),
      local_(std::move(local)) {
  std::memcpy(staging_.data(), layout_.header.data(), layout_.header.size());
  // The manifest says about as much of a tensor as the header of the shard.
  const int64_t bytes = layout_.bytes + 2 * std::ssize(layout_.header);
  for (const std::string& text : ranks_.gather("shard bytes", std::to_string(bytes))) all_bytes_ += std::stoll(text);
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::prepare(int64_t step) {
  std::string trouble;
  if (ranks_.rank() == 0) {
    try {
      create_folders(folder_);
      remove_temporary_folders(folder_);
      constexpr int64_t kManifestRoom = 1 << 20;
      require_free_space(folder_, all_bytes_ + kManifestRoom, "cannot save " + checkpoint_name(step));
      create_folders(temporary(step));
    } catch (const Failure& failure) {
      trouble = failure.what();
    }
  }
  trouble = ranks_.share("save", trouble);
  if (!trouble.empty()) throw Failure("{}", trouble);
}

void CheckpointWriter::snapshot(CheckpointInfo info) {
  // Not the failures of copies, which ranks learn at different times: all of them save now, or none does.
  if (writing_.valid()) writing_.get();
  if (local_ == nullptr) prepare(info.step);
  for (const ShardLayout::Entry& entry : layout_.entries) {
    if (entry.tensor.bytes() == 0) continue;
    std::byte* to = staging_.data() + entry.begin;
    if (entry.backend != nullptr) {
      entry.backend->download(kCompute, entry.tensor, to);
      entry.backend->synchronize(entry.backend->record(kCompute, "tensor_copied"));
    } else {
      CHECK(entry.tensor.device == Device::host);
      std::memcpy(to, entry.tensor.data, entry.tensor.bytes());
    }
  }
  writing_ = std::async(std::launch::async, [this, info = std::move(info)] { write(info); });
}

void CheckpointWriter::check() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) writing_.get();
}

void CheckpointWriter::wait_until_free() {
  if (writing_.valid()) writing_.get();
  if (local_ != nullptr) local_->check_copies();
}

void CheckpointWriter::wait() {
  if (writing_.valid()) writing_.get();
  if (local_ != nullptr) local_->wait_for_copies();
}

void CheckpointWriter::remove_local_copies() {
  if (local_ != nullptr) local_->remove();
}

bool CheckpointWriter::write_locally(const CheckpointInfo& info) {
  if (local_ == nullptr) return false;
  try {
    local_->save(info, layout_, staging_);
    return true;
  } catch (const JobEnded&) {
    throw;
  } catch (const Failure&) {
    local_->wait_for_copies();
    prepare(info.step);
    return false;
  }
}

std::string CheckpointWriter::write_own_shard(int64_t step) const {
  if (layout_.entries.empty() && ranks_.size() > 1) return "{}";  // others save all that this rank holds
  try {
    const StoredShard shard = write_shard(temporary(step), ranks_.rank(), layout_, staging_);
    return nlohmann::json{{"shard", write_shard_entry(shard)}}.dump();
  } catch (const Failure& failure) {
    return json_text(nlohmann::json{{"trouble", failure.what()}}, kOneLine);
  }
}

void CheckpointWriter::commit(const CheckpointInfo& info, const std::vector<std::string>& entries) const {
  const std::filesystem::path checkpoint = folder_ / checkpoint_name(info.step);
  try {
    CheckpointManifest manifest{info, fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))), {}};
    for (const std::string& text : entries) {
      const auto entry = nlohmann::json::parse(text);
      if (entry.contains("trouble")) throw Failure("{}", entry.at("trouble").get<std::string>());
      if (entry.contains("shard")) manifest.shards.push_back(parse_shard_entry(entry.at("shard"), kManifestName));
    }
    commit_checkpoint(temporary(info.step), checkpoint, manifest);
  } catch (...) {
    std::error_code ignored;  // the failure that brought us here is the one to tell
    std::filesystem::remove_all(temporary(info.step), ignored);
    throw;
  }
  remove_tree(temporary(info.step));  // there if the step had been saved before: its place was taken, and it is here now
  remove_old_checkpoints(folder_, info.step, retention_);
}

void CheckpointWriter::write(const CheckpointInfo& info) {
  if (write_locally(info)) return;
  const std::vector<std::string> entries = ranks_.gather("shard", write_own_shard(info.step));
  std::string trouble;
  if (ranks_.rank() == 0) {
    try {
      commit(info, entries);
    } catch (const Failure& failure) {
      trouble = failure.what();
    }
  }
  trouble = ranks_.share("saved", trouble);
  if (!trouble.empty()) throw Failure("{}", trouble);
}

}  // namespace trireme
