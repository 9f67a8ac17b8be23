#include "data/samples/index_cache.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/mapped_file.h"
#include "base/md5.h"
#include "base/python_json.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Returns [begin, end] of each split as running sums of its fractions, or null for an empty split. The first begin is the integer
// 0.
Json split_matrix(const SplitFractions& fractions) {
  Json matrix = Json::array();
  double begin = 0;
  for (size_t split = 0; split < kSplits; ++split) {
    const double end = begin + fractions[split];
    const Json from = split == 0 ? Json(0) : Json(begin);
    matrix.push_back(end <= begin ? Json(nullptr) : Json::array({from, end}));
    begin = end;
  }
  return matrix;
}

Json parse_tokenizer(const std::string& text) {
  Json tokenizer = Json::parse(text, nullptr, false);
  if (!tokenizer.is_object())
    throw UserError("model.data.index_tokenizer={} is not a JSON object such as {{\"class\": \"...\"}}", text);
  return tokenizer;
}

// Checks that the index was built for these documents. Its shape gives the number of tokens, and at sampled entries the document
// lengths must match. Each document may cost a disk page, so fewer entries are sampled if samples have many documents.
void check_fit(const GptIndex& index, DocumentLengths lengths, const GptIndexRequest& request) {
  constexpr int64_t kMostPlaces = 256, kFewestPlaces = 2, kDocuments = 1024;
  const int64_t samples = index.samples();
  const int64_t documents_each = index.document_index.size() / std::max<int64_t>(samples, 1) + 1;
  const int64_t places = std::clamp(kDocuments / documents_each, kFewestPlaces, kMostPlaces);
  const auto refuse = [](int64_t sample) { throw UserError("sample {} does not fit the documents of this dataset", sample); };
  for (int64_t place = 0; place <= std::min(places, samples); ++place) {
    const int64_t sample = samples <= places ? place : place * (samples / places);
    if (sample >= samples) break;
    if (const int64_t shuffled = index.shuffle_index[sample]; shuffled < 0 || shuffled >= samples) refuse(sample);
    const TokenPosition begin = index.position(sample, lengths, request), end = index.position(sample + 1, lengths, request);
    if (begin.document_position < 0 || begin.document_position > end.document_position ||
        end.document_position >= index.document_index.size())
      refuse(sample);
    const int64_t asked = std::min(end.document_position, begin.document_position + kDocuments);
    for (int64_t at = begin.document_position; at <= asked; ++at)
      if (const int64_t document = index.document_index[at]; document >= 0 && document < lengths.size())
        ask_for_page(lengths.place_of(document));
    int64_t tokens = end.offset - begin.offset;
    for (int64_t at = begin.document_position; at <= end.document_position; ++at) {
      const int64_t document = index.document_index[at];
      if (document < request.documents.begin || document >= request.documents.end) refuse(sample);
      if (at < end.document_position) tokens += lengths[document];
      if (at == end.document_position && end.offset > lengths[document]) refuse(sample);
      if (tokens > request.sequence) refuse(sample);
    }
    if (sample + 1 < samples && tokens != request.sequence) refuse(sample);
  }
}

GptIndex open_index(const GptIndexPaths& paths, DocumentLengths lengths, const GptIndexRequest& request,
                    int64_t tokens_per_epoch) {
  struct Files {
    NpyFile documents, samples, shuffle;
  };
  GptIndex index;
  index.plan = plan_gpt_index(request, tokens_per_epoch);
  const auto files = std::make_shared<Files>(Files{.documents = open_numbers(paths.document_index, index.plan.document_index),
                                                   .samples = open_numbers(paths.sample_index, index.plan.sample_index),
                                                   .shuffle = open_numbers(paths.shuffle_index, index.plan.shuffle_index)});
  index.document_index = files->documents.numbers();
  index.sample_index = files->samples.numbers();
  index.shuffle_index = files->shuffle.numbers();
  index.storage = files;
  try {
    check_fit(index, lengths, request);
  } catch (const UserError& error) {
    throw UserError("{}: {}", paths.sample_index.string(), error.what());
  }
  return index;
}

}  // namespace

NpyFile open_numbers(const std::filesystem::path& path, const NpyShape& expected) {
  NpyFile file(path);
  NpyShape same_type = file.shape();
  same_type.type = expected.type;
  if (same_type != expected)
    throw UserError("{}: {} where {} is needed", path.string(), describe(file.shape()), describe(expected));
  return file;
}

Json core_identifiers(const CoreIndexName& name) {
  Json json;
  json["class"] = "GPTDataset";
  json["dataset_path"] = name.dataset_path;
  json["num_samples"] = name.samples_needed ? Json(*name.samples_needed) : Json(nullptr);
  json["index_split"] = short_name_of(name.split);
  json["random_seed"] = name.seed;
  json["sequence_length"] = name.sequence;
  json["split"] = name.splits_string ? Json(*name.splits_string) : Json(nullptr);
  json["split_matrix"] = name.splits_string ? split_matrix(parse_splits(*name.splits_string)) : Json(nullptr);
  json["tokenizer"] = parse_tokenizer(name.tokenizer);
  return json;
}

IndexPlace core_index_place(const std::filesystem::path& folder, const CoreIndexName& name) {
  IndexPlace place;
  place.description = python_json(core_identifiers(name), kMegatronIndent);
  const auto path = [&, base = fmt::format("{}-GPTDataset-{}-", md5_hex(place.description), short_name_of(name.split))](
                        const char* what) { return folder / (base + what); };
  place.paths = {path("document_index.npy"), path("sample_index.npy"), path("shuffle_index.npy")};
  place.description_path = path("description.txt");
  return place;
}

IndexPlace legacy_index_place(const std::string& index_mapping_dir, const std::string& prefix, Split split,
                              int64_t samples_needed, int64_t sequence, uint64_t seed) {
  const std::filesystem::path beside(prefix);
  const std::filesystem::path base = index_mapping_dir.empty() ? beside : index_mapping_dir / beside.filename();
  const auto path = [name = fmt::format("{}_{}_indexmap_{}ns_{}sl_{}s", base.string(), short_name_of(split), samples_needed,
                                        sequence, seed)](const char* what) { return std::filesystem::path(name + what); };
  return {.paths = {path("_doc_idx.npy"), path("_sample_idx.npy"), path("_shuffle_idx.npy")},
          .description_path = {},
          .description = {}};
}

GptIndex open_or_build_index(const IndexPlace& place, DocumentLengths lengths, const GptIndexRequest& request,
                             int64_t tokens_per_epoch, const DataNotice& notice) {
  const GptIndexPaths& paths = place.paths;
  std::error_code ignored;
  if (!paths.shuffle_index.empty() && std::filesystem::exists(paths.shuffle_index, ignored)) {
    try {
      return open_index(paths, lengths, request, tokens_per_epoch);
    } catch (const UserError& error) {
      notice(fmt::format("the sample index is made again: {}", error.what()));
    }
  }
  if (const int64_t counted = count_tokens(lengths, request.documents); counted != tokens_per_epoch)
    throw UserError("the lengths of documents {} to {} add up to {} tokens, but {} lie there; run trireme data verify",
                    request.documents.begin, request.documents.end, counted, tokens_per_epoch);
  if (paths.shuffle_index.empty()) return build_gpt_index(lengths, request, IndexForm::compact);
  try {
    if (const auto folder = paths.shuffle_index.parent_path(); !folder.empty()) create_folders(folder);
    GptIndex index = build_gpt_index(lengths, request, IndexForm::megatron, paths);
    if (!place.description_path.empty()) {
      MappedOutput description = MappedOutput::create(place.description_path, std::ssize(place.description));
      std::ranges::copy(bytes_of(place.description), description.bytes().begin());
      description.commit();
    }
    return index;
  } catch (const Failure& failure) {
    notice(fmt::format("the sample index stays in memory: {}; set model.data.index_mapping_dir to a folder that can be written",
                       failure.what()));
    return build_gpt_index(lengths, request, IndexForm::compact);
  }
}

}  // namespace trireme
