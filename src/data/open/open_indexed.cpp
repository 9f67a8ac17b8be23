#include "data/open/open_indexed.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/md5.h"
#include "base/python_json.h"
#include "base/thread_pool.h"
#include "data/indexed/indexed_dataset.h"
#include "data/samples/blend.h"
#include "data/samples/gpt_dataset.h"

namespace trireme {
namespace {

using Corpora = std::map<std::string, std::shared_ptr<const IndexedDataset>>;

// A dataset of one split that is not open yet.
struct Part {
  Split split = Split::train;
  std::shared_ptr<const IndexedDataset> corpus;
  std::string prefix;                     // part of the index's name
  std::optional<int64_t> samples_needed;  // no value: one epoch
  GptIndexRequest request;
  int64_t tokens = 0;
  IndexPlace place;
  nlohmann::ordered_json identifiers;  // identifies it as Megatron core does
  std::unique_ptr<GptDataset> opened;
};

// The datasets of a split and how they are blended.
struct SplitPlan {
  Split split = Split::train;
  Blend blend;
  std::vector<double> shares;  // normalised; empty: in proportion to one epoch of each dataset
  std::vector<Part> parts;
  bool single = false;  // not a blend
  int64_t samples = 0;  // of the blend, if shares are given
};

class Opener {
 public:
  Opener(const DataSettings& settings, const DatasetRequest& request, const DataNotice& notice)
      : settings_(settings), request_(request), notice_(notice) {}

  DatasetsBySplit open() {
    std::vector<SplitPlan> plans;
    for (const Split split : kAllSplits)
      if (request_.samples_needed[static_cast<size_t>(split)]) plans.push_back(plan(split));
    open_parts(plans);
    DatasetsBySplit datasets;
    for (SplitPlan& split_plan : plans) datasets[static_cast<size_t>(split_plan.split)] = assemble(split_plan);
    return datasets;
  }

 private:
  bool legacy() const { return settings_.legacy_dataset; }
  bool own_datasets() const { return has_own_datasets(settings_); }

  SplitPlan plan(Split split) {
    SplitPlan result{.split = split, .blend = blend_of_split(settings_, split), .shares = {}, .parts = {}};
    const Blend& blend = result.blend;
    const int64_t wanted = *request_.samples_needed[static_cast<size_t>(split)];
    if (legacy() && blend.prefixes.size() > 1 && blend.weights.empty())
      throw UserError(
          "model.data.data_prefix lists {} datasets without weights, which model.data.legacy_dataset=true does not know",
          blend.prefixes.size());
    // As in the reference, a weight makes even a single dataset a blend, unless each split has its own datasets.
    result.single = blend.prefixes.size() == 1 && (blend.weights.empty() || own_datasets() || legacy());
    if (!blend.weights.empty()) result.shares = normalized(blend.weights);
    const bool one_epoch = wanted == 0;
    if (one_epoch && !result.single && !result.shares.empty())
      throw UserError("trainer.limit_val_batches: a share of a blend with weights is not defined; use a whole number of batches");
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      std::optional<int64_t> samples;
      if (result.single)
        samples = one_epoch ? (legacy() ? std::optional<int64_t>(1) : std::nullopt) : std::optional(wanted);
      else if (!result.shares.empty())
        samples = legacy() ? samples_made_legacy(wanted, result.shares[i]) : samples_made(wanted, result.shares[i]);
      result.parts.push_back(make_part(split, blend.prefixes[i], samples));
      if (!result.shares.empty()) result.samples += legacy() ? *samples : samples_taken(wanted, result.shares[i]);
    }
    if (legacy() && own_datasets()) result.samples = wanted;
    return result;
  }

  std::shared_ptr<const IndexedDataset> corpus(const std::string& prefix) {
    std::shared_ptr<const IndexedDataset>& known = corpora_[prefix];
    if (!known) known = std::make_shared<IndexedDataset>(prefix);
    if (known->multimodal())
      throw UserError("{} holds modes, as a multimodal dataset does; training on text cannot use it", known->idx_path());
    return known;
  }

  Part make_part(Split split, const std::string& prefix, std::optional<int64_t> samples) {
    Part part{.split = split, .corpus = corpus(prefix), .prefix = {}, .samples_needed = samples};
    part.prefix = part.corpus->prefix();
    Range documents{0, part.corpus->sequences()};
    if (!own_datasets()) {
      const SplitRule rule = legacy() ? SplitRule::legacy : SplitRule::core;
      documents = split_range(parse_splits(settings_.splits_string), split, documents.end, rule);
    }
    part.tokens = part.corpus->tokens(documents);
    part.request = {.documents = documents,
                    .sequence = request_.sequence,
                    .samples_needed = samples.value_or(0),
                    .seed = request_.seed,
                    .extra_token = settings_.no_seqlen_plus_one_input_tokens ? ExtraToken::no : ExtraToken::yes};
    if (split == Split::validation && !settings_.validation_drop_last) part.request.last_sample = LastSample::keep;
    if (legacy() && !settings_.shuffle_documents) part.request.shuffle_documents = ShuffleDocuments::no;
    if (part.tokens == 0 || (!samples && part.tokens < request_.sequence + part.request.extra()))
      throw UserError(
          "{}: model.data.splits_string={} leaves {} documents with {} tokens for {}; give it a larger share or more data",
          part.prefix, settings_.splits_string, documents.count(), part.tokens, name_of(split));
    name_part(part);
    return part;
  }

  void name_part(Part& part) const {
    if (legacy()) {
      part.place = legacy_index_place(settings_.index_mapping_dir, part.prefix, part.split, part.request.samples_needed,
                                      request_.sequence, request_.seed);
      return;
    }
    CoreIndexName name{.dataset_path = part.prefix,
                       .samples_needed = part.samples_needed,
                       .split = part.split,
                       .seed = request_.seed,
                       .sequence = request_.sequence,
                       .splits_string = settings_.splits_string,
                       .tokenizer = settings_.index_tokenizer};
    if (own_datasets()) name.splits_string.reset();
    std::filesystem::path folder = settings_.index_mapping_dir;
    if (folder.empty()) folder = std::filesystem::path(part.prefix) / "cache" / "GPTDataset_indices";
    part.place = core_index_place(folder, name);
    part.identifiers = core_identifiers(name);
  }

  // A dataset that is listed twice shares one index.
  void open_parts(std::vector<SplitPlan>& plans) const {
    std::map<std::string, std::vector<Part*>> same;
    for (SplitPlan& split_plan : plans)
      for (Part& part : split_plan.parts) same[part.place.paths.shuffle_index.string()].push_back(&part);
    std::vector<std::vector<Part*>> groups;
    for (auto& [path, parts] : same) groups.push_back(std::move(parts));
    // Shuffling waits for memory and writing for the disk, so more threads than cores are fine.
    ThreadPool pool(static_cast<int>(std::min<size_t>(groups.size(), 16)));
    std::mutex speaking;
    pool.run(std::ssize(groups), [&](int64_t i) {
      const std::vector<Part*>& parts = groups[static_cast<size_t>(i)];
      const GptIndex index = index_of(*parts.front(), speaking);
      for (Part* part : parts)
        part->opened = std::make_unique<GptDataset>(part->corpus, index, part->request, request_.vocabulary, part->prefix);
    });
  }

  GptIndex index_of(const Part& part, std::mutex& speaking) const {
    const auto say = [&](const std::string& line) {
      const std::lock_guard lock(speaking);
      notice_(fmt::format("{}: {}", part.prefix, line));
    };
    try {
      return open_or_build_index(part.place, part.corpus->document_lengths(), part.request, part.tokens, say);
    } catch (const UserError& error) {
      throw UserError("{}: {}", part.prefix, error.what());
    }
  }

  std::unique_ptr<Dataset> assemble(SplitPlan& split_plan) const {
    if (split_plan.single) return std::move(split_plan.parts.front().opened);
    std::vector<int64_t> sizes;
    for (const Part& part : split_plan.parts) sizes.push_back(part.opened->size());
    int64_t samples = split_plan.samples;
    std::vector<double> shares = split_plan.shares;
    if (shares.empty()) {
      const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      const int64_t wanted = *request_.samples_needed[static_cast<size_t>(split_plan.split)];
      if (wanted == 0) return blended(split_plan, BlendIndex::exhaustive(sizes));
      if (all < wanted)
        throw UserError(
            "model.data.data_prefix: without weights each dataset is used once, which gives {} samples for {}, but {} are "
            "needed; give weights or ask for fewer steps",
            all, name_of(split_plan.split), wanted);
      samples = wanted;
      shares.assign(sizes.begin(), sizes.end());
    }
    // The reference normalises once for the datasets' shares and again for the blending order.
    return blended(split_plan, blend_index(split_plan, normalized(shares), samples, sizes));
  }

  static std::unique_ptr<Dataset> blended(SplitPlan& split_plan, BlendIndex index) {
    std::vector<std::unique_ptr<Dataset>> datasets;
    for (Part& part : split_plan.parts) datasets.push_back(std::move(part.opened));
    return std::make_unique<BlendedDataset>(std::move(datasets), std::move(index), split_plan.blend.prefixes);
  }

  BlendIndex blend_index(const SplitPlan& split_plan, const std::vector<double>& shares, int64_t samples,
                         const std::vector<int64_t>& sizes) const {
    if (legacy() || settings_.index_mapping_dir.empty()) return BlendIndex::by_weight(shares, samples);
    nlohmann::ordered_json json;
    json["class"] = "BlendedDataset";
    json["datasets"] = nlohmann::ordered_json::array();
    for (const Part& part : split_plan.parts) json["datasets"].push_back(part.identifiers);
    json["split"] = short_name_of(split_plan.split);
    json["weights"] = shares;
    json["size"] = samples;
    const std::string description = python_json(json, kMegatronIndent);
    const std::string base = fmt::format("{}/{}-BlendedDataset-{}-", settings_.index_mapping_dir, md5_hex(description),
                                         short_name_of(split_plan.split));
    const std::string datasets = base + "dataset_index.npy", dataset_samples = base + "dataset_sample_index.npy";
    std::error_code ignored;
    if (std::filesystem::exists(dataset_samples, ignored)) {
      try {
        return BlendIndex::open(datasets, dataset_samples, samples, sizes);
      } catch (const UserError& error) {
        notice_(fmt::format("the index of the blend is made again: {}", error.what()));
      }
    }
    BlendIndex index = BlendIndex::by_weight(shares, samples);
    try {
      index.save(datasets, dataset_samples);
      atomic_write(base + "description.txt", bytes_of(description));
    } catch (const Failure& failure) {
      notice_(fmt::format("the index of the blend stays in memory: {}", failure.what()));
    }
    return index;
  }

  const DataSettings& settings_;
  const DatasetRequest& request_;
  const DataNotice& notice_;
  Corpora corpora_;
};

// With model.data.auto_blend a folder means the datasets in it, sorted by name.
std::vector<std::string> datasets_in(const std::string& entry) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(entry, error)) return {entry};
  std::vector<std::string> prefixes;
  for (const fs::directory_entry& file : fs::directory_iterator(entry, error))
    if (file.path().extension() == ".idx") prefixes.push_back((file.path().parent_path() / file.path().stem()).string());
  if (error) throw UserError("model.data.data_prefix: '{}' cannot be listed: {}", entry, error.message());
  if (prefixes.empty()) throw UserError("model.data.data_prefix: no .idx in the folder '{}'", entry);
  std::ranges::sort(prefixes);
  return prefixes;
}

}  // namespace

Blend blend_of_split(const DataSettings& settings, Split split) {
  const std::string key = prefix_key(settings, split);
  Blend blend = parse_blend(prefixes_of(settings, split), key);
  if (settings.auto_blend == 0) return blend;
  if (!blend.weights.empty())
    throw UserError("{} has weights, and model.data.auto_blend={} makes its own; use one of the two", key, settings.auto_blend);
  Blend found;
  std::vector<int64_t> bytes;
  for (const std::string& entry : blend.prefixes)
    for (const std::string& prefix : datasets_in(entry)) {
      found.prefixes.push_back(prefix);
      bytes.push_back(IndexedDataset(prefix).bin_bytes());
    }
  found.weights = weights_by_size(bytes, settings.auto_blend);
  for (size_t i = 0; i < found.weights.size(); ++i)
    if (found.weights[i] == 0)
      throw UserError("{} is too small for model.data.auto_blend={}: its weight is below 0.000001; leave it out",
                      found.prefixes[i], settings.auto_blend);
  return found;
}

DatasetsBySplit open_indexed_datasets(const DataSettings& settings, const DatasetRequest& request, const DataNotice& notice) {
  if (!settings.shuffle_documents && !settings.legacy_dataset)
    throw UserError("model.data.shuffle_documents=false: documents are always shuffled, but with model.data.legacy_dataset=true");
  return Opener(settings, request, notice).open();
}

}  // namespace trireme
