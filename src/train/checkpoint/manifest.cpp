#include "train/checkpoint/manifest.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "train/checkpoint/json.h"
#include "train/checkpoint/safetensors.h"

namespace trireme {
namespace {

using nlohmann::json;

std::string checksum_text(uint32_t checksum) { return fmt::format("{:08x}", checksum); }

uint32_t parse_checksum(const json& value, const std::string& where) {
  const std::string text = json_string(value, where);
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Failure("{}: {} is not a checksum", where, json_excerpt(value));
  return static_cast<uint32_t>(std::stoul(text, nullptr, 16));
}

// JSON objects keep their keys sorted, and numbers have one spelling, so equal contents have equal checksums.
uint32_t checksum_of(const json& manifest) { return crc32c(bytes_of(manifest.dump())); }

std::vector<int64_t> list(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

json tensor_json(const StoredTensor& tensor) {
  json out = {{"name", tensor.name},
              {"key", tensor.key},
              {"dtype", safetensors_name_of(tensor.dtype)},
              {"shape", list(tensor.slice.global)},
              {"offset", list(tensor.slice.offset)},
              {"extent", list(tensor.slice.extent)},
              {"crc32c", checksum_text(tensor.checksum)}};
  if (!tensor.slice.is_rectangle()) out["range"] = {tensor.slice.range.begin, tensor.slice.range.count};
  return out;
}

StoredTensor parse_tensor(const json& in, const std::string& file) {
  StoredTensor tensor;
  tensor.name = json_string(json_member(in, "name", file), file);
  const std::string where = fmt::format("{}: tensor {}", file, json_excerpt(tensor.name));
  tensor.key = json_string(json_member(in, "key", where), where);
  tensor.dtype = safetensors_dtype(json_string(json_member(in, "dtype", where), where), where);
  tensor.checksum = parse_checksum(json_member(in, "crc32c", where), where);
  TensorSlice& slice = tensor.slice;
  slice.global = json_shape(json_member(in, "shape", where), where);
  slice.offset = json_shape(json_member(in, "offset", where), where);
  slice.extent = json_shape(json_member(in, "extent", where), where);
  slice.range = {0, slice.extent.count()};
  if (const auto range = in.find("range"); range != in.end()) {
    if (!range->is_array() || range->size() != 2) throw Failure("{}: range [begin, count] was expected", where);
    slice.range = {json_size((*range)[0], where), json_size((*range)[1], where)};
  }
  if (!slice.valid()) throw Failure("{}: its slice does not lie in the tensor", where);
  return tensor;
}

json shard_json(const StoredShard& shard) {
  json tensors = json::array();
  for (const StoredTensor& tensor : shard.tensors) tensors.push_back(tensor_json(tensor));
  return {{"file", shard.file},
          {"bytes", shard.bytes},
          {"header_crc32c", checksum_text(shard.header_checksum)},
          {"tensors", std::move(tensors)}};
}

StoredShard parse_shard(const json& in, const std::string& where) {
  StoredShard shard;
  shard.file = json_string(json_member(in, "file", where), where);
  // A manifest must not lead outside its folder.
  if (shard.file.empty() || shard.file.front() == '.' || shard.file.find('/') != std::string::npos)
    throw Failure("{}: {} is not the name of a shard", where, json_excerpt(shard.file));
  shard.bytes = json_size(json_member(in, "bytes", where), where);
  shard.header_checksum = parse_checksum(json_member(in, "header_crc32c", where), where);
  const json& tensors = json_member(in, "tensors", where);
  if (!tensors.is_array()) throw Failure("{}: the tensors of {} are not a list", where, shard.file);
  for (const json& tensor : tensors) shard.tensors.push_back(parse_tensor(tensor, where));
  return shard;
}

}  // namespace

std::string write_shard_entry(const StoredShard& shard) { return shard_json(shard).dump(); }

StoredShard parse_shard_entry(const std::string& text, const std::string& where) {
  return parse_shard(parse_strict_json(text, where), where);
}

std::string write_manifest(const CheckpointManifest& manifest) {
  json out = {{"format_version", kCheckpointVersion},
              {"step", manifest.info.step},
              {"consumed_samples", manifest.info.consumed_samples},
              {"commit", manifest.info.commit},
              {"settings", manifest.info.settings},
              {"state", manifest.info.state},
              {"created", manifest.created},
              {"shards", json::array()}};
  if (manifest.info.validation_loss) out["validation_loss"] = *manifest.info.validation_loss;
  for (const StoredShard& shard : manifest.shards) out["shards"].push_back(shard_json(shard));
  try {
    out["crc32c"] = checksum_text(checksum_of(out));
    return out.dump(1) + "\n";
  } catch (const json::exception& error) {  // text that is not UTF-8
    throw Failure("the manifest cannot be written: {}", error.what());
  }
}

CheckpointManifest parse_manifest(const std::string& text, const std::string& where) {
  json in = parse_strict_json(text, where);
  const uint32_t expected = parse_checksum(json_member(in, "crc32c", where), where);
  in.erase("crc32c");
  if (const uint32_t found = checksum_of(in); found != expected)
    throw Failure("{} is damaged: its checksum is {:08x} where {:08x} was expected", where, found, expected);
  const int64_t version = json_size(json_member(in, "format_version", where), where);
  if (version > kCheckpointVersion)
    throw UserError(
        "{} has format version {}, and this binary reads versions up to {}; use the trireme that wrote it or a newer one", where,
        version, kCheckpointVersion);

  CheckpointManifest manifest;
  manifest.info.step = json_size(json_member(in, "step", where), where);
  manifest.info.consumed_samples = json_size(json_member(in, "consumed_samples", where), where);
  manifest.info.commit = json_string(json_member(in, "commit", where), where);
  manifest.info.settings = json_string(json_member(in, "settings", where), where);
  manifest.info.state = json_member(in, "state", where);
  manifest.created = json_string(json_member(in, "created", where), where);
  // A loss that is not a finite number is written as null and counts as none.
  if (const auto loss = in.find("validation_loss"); loss != in.end() && loss->is_number())
    manifest.info.validation_loss = loss->get<double>();
  const json& shards = json_member(in, "shards", where);
  if (!shards.is_array()) throw Failure("{}: the shards are not a list", where);
  for (const json& shard : shards) manifest.shards.push_back(parse_shard(shard, where));
  return manifest;
}

}  // namespace trireme
