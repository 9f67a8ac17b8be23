#include "train/checkpoint_writer.h"

#include <fmt/chrono.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <map>

#include "base/crc32c.h"
#include "base/file.h"
#include "train/safetensors.h"

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
    by_key[key] = {{tensor.name, key, dtype, tensor.slice}, tensor.tensor};
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

CheckpointWriter::CheckpointWriter(std::filesystem::path folder, std::span<const CheckpointTensor> tensors, Retention retention)
    : folder_(std::move(folder)), retention_(retention), layout_(lay_out_shard(tensors)), staging_(layout_.bytes) {
  std::memcpy(staging_.data(), layout_.header.data(), layout_.header.size());
}

void CheckpointWriter::snapshot(CheckpointInfo info) {
  wait();
  create_folders(folder_);
  remove_temporary_folders(folder_);
  constexpr int64_t kManifestRoom = 1 << 20;
  require_free_space(folder_, layout_.bytes + kManifestRoom, "cannot save " + checkpoint_name(info.step));
  for (const ShardLayout::Entry& entry : layout_.entries) {
    CHECK(entry.tensor.device == Device::host);
    if (entry.tensor.bytes() > 0) std::memcpy(staging_.data() + entry.begin, entry.tensor.data, entry.tensor.bytes());
  }
  writing_ = std::async(std::launch::async, [this, info = std::move(info)] { write(info); });
}

void CheckpointWriter::check() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) writing_.get();
}

void CheckpointWriter::wait() {
  if (writing_.valid()) writing_.get();
}

void CheckpointWriter::write(const CheckpointInfo& info) const {
  const std::filesystem::path checkpoint = folder_ / checkpoint_name(info.step);
  const std::filesystem::path temporary = checkpoint.string() + kWritingSuffix;
  try {
    create_folders(temporary);
    const StoredShard shard = write_shard(temporary, 0, layout_, staging_);
    const std::string created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    commit_checkpoint(temporary, checkpoint, {info, created, {shard}});
  } catch (...) {
    std::error_code ignored;  // the failure that brought us here is the one to tell
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
  remove_tree(temporary);  // there if the step had been saved before: its place was taken, and it is here now
  remove_old_checkpoints(folder_, info.step, retention_);
}

}  // namespace trireme
