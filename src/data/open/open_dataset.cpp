#include "data/open/open_dataset.h"

#include <limits>

#include "base/error.h"
#include "data/flat/flat_dataset.h"
#include "data/mock/mock_data.h"
#include "data/open/open_indexed.h"
#include "data/samples/gpt_dataset.h"
#include "data/sft/sft_dataset.h"
#include "data/text/text_corpus.h"
#include "data/text/text_files.h"
#include "data/tokenizer/recipe_tokenizer.h"

namespace trireme {
namespace {

bool is_read_as_text(DataImpl kind) { return DataSettings{.data_impl = kind}.is_text(); }

std::unique_ptr<Dataset> over_corpus(std::unique_ptr<const Corpus> corpus, Range documents, int64_t vocabulary, int64_t sequence,
                                     int64_t samples_needed, uint64_t seed) {
  const GptIndexRequest request{.documents = documents, .sequence = sequence, .samples_needed = samples_needed, .seed = seed};
  GptIndex index = build_gpt_index(corpus->document_lengths(), request, IndexForm::compact);
  return std::make_unique<GptDataset>(std::move(corpus), std::move(index), request, vocabulary, "model.data");
}

std::unique_ptr<Dataset> open_mock(int64_t vocabulary, Split split, int64_t sequence, int64_t samples_needed, uint64_t seed) {
  auto corpus = std::make_unique<MockCorpus>(vocabulary);
  const auto documents = corpus->document_lengths().size();
  const Range owned = split_range(parse_splits("1,1,1"), split, documents);
  return over_corpus(std::move(corpus), owned, vocabulary, sequence, samples_needed, seed);
}

std::unique_ptr<Dataset> open_text(const DataSettings& settings, const Tokenizer& tokenizer, const DatasetRequest& request,
                                   Split split) {
  const int64_t sequence = request.sequence;
  SplitFractions fractions = parse_splits(settings.splits_string);
  if (has_own_datasets(settings)) {
    fractions = {};
    fractions[static_cast<size_t>(split)] = 1;
  }
  auto corpus = std::make_unique<TextCorpus>(find_text_files(prefixes_of(settings, split)), tokenizer, fractions, split);
  if (corpus->tokens() <= sequence)
    throw UserError(
        "model.data.splits_string={} leaves {} tokens of text for {}, but one sample takes model.encoder_seq_length + 1 = "
        "{}; give {} a larger share or more text",
        settings.splits_string, corpus->tokens(), name_of(split), sequence + 1, name_of(split));
  const auto documents = corpus->document_lengths().size();
  return over_corpus(std::move(corpus), {0, documents}, request.vocabulary, sequence,
                     *request.samples_needed[static_cast<size_t>(split)], request.seed);
}

// A split of examples needs a share of one list of files, or files of its own.
std::unique_ptr<Dataset> open_sft(const DataSettings& settings, const Tokenizer& tokenizer, const DatasetRequest& request,
                                  Split split) {
  const std::vector<std::string>& files = prefixes_of(settings, split);
  const bool has_own = has_own_datasets(settings);
  if (has_own && files.empty()) return nullptr;
  std::vector<SftExample> examples =
      read_sft_examples(files, {.prompt_template = settings.prompt_template, .label_key = settings.label_key}, tokenizer);
  const Range range =
      has_own ? Range{0, std::ssize(examples)} : split_range(parse_splits(settings.splits_string), split, std::ssize(examples));
  if (range.count() == 0)
    throw UserError(
        "model.data.splits_string={} leaves none of {} examples for {}; name files for it in model.data.data_prefix, or "
        "turn validation off with trainer.val_check_interval=null",
        settings.splits_string, examples.size(), name_of(split));
  examples = {std::make_move_iterator(examples.begin() + range.begin), std::make_move_iterator(examples.begin() + range.end)};
  return std::make_unique<SftDataset>(std::move(examples),
                                      SftPacking{.sequence = request.sequence,
                                                 .samples_needed = *request.samples_needed[static_cast<size_t>(split)],
                                                 .seed = request.seed,
                                                 .end_token = tokenizer.end_of_document(),
                                                 .vocabulary = request.vocabulary});
}

// Returns the tokenizer of a recipe, checked against its model. Returns null for mock data, and if it is not needed and cannot be
// read.
std::unique_ptr<Tokenizer> open_tokenizer(DataImpl kind, const DatasetRequest& request) {
  if (kind == DataImpl::mock || kind == DataImpl::mock_legacy) return nullptr;
  const RecipeTokenizer named = named_tokenizer(request.tokenizer);
  if (!is_read_as_text(kind) && named.kind != RecipeTokenizer::Kind::files) return nullptr;
  std::unique_ptr<Tokenizer> tokenizer = named.open();
  require_vocabulary(request.vocabulary, *tokenizer, named);
  if (is_read_as_text(kind) && tokenizer->end_of_document() < 0)
    throw UserError("{} has no token that ends a document, such as <|endoftext|>; {} needs one", named.description(),
                    kind == DataImpl::text ? "text" : "sft");
  return tokenizer;
}

}  // namespace

int64_t default_vocabulary(const DataSettings& settings, const TokenizerSettings& tokenizer) {
  const DataImpl kind = settings.data_impl;
  if (kind == DataImpl::mock || kind == DataImpl::mock_legacy) return kMockVocabulary;
  const RecipeTokenizer named = named_tokenizer(tokenizer);
  if (!is_read_as_text(kind) && named.kind == RecipeTokenizer::Kind::bytes) return kMockVocabulary;
  if (!is_read_as_text(kind) && named.kind == RecipeTokenizer::Kind::foreign)
    throw UserError("model.vocab_size must be given: the tokens of {} cannot be counted here", named.description());
  return named.open()->vocabulary();
}

DocumentRules document_rules(const DataSettings& settings, const TokenizerSettings& tokenizer, int64_t vocabulary) {
  DocumentRules rules{.resets_positions = settings.reset_position_ids,
                      .resets_attention = settings.reset_attention_mask,
                      .masks_loss = settings.eod_mask_loss};
  if (!rules.needs_starts() && !rules.masks_loss) return rules;
  const DataImpl kind = settings.data_impl;
  if (kind == DataImpl::mock || kind == DataImpl::mock_legacy) {
    rules.end_token = static_cast<int32_t>(vocabulary - 1);
    return rules;
  }
  const char* key = settings.reset_attention_mask ? "reset_attention_mask" : "reset_position_ids";
  if (!rules.needs_starts()) key = "eod_mask_loss";
  const RecipeTokenizer named = named_tokenizer(tokenizer);
  if (!is_read_as_text(kind) && named.kind == RecipeTokenizer::Kind::bytes)
    throw UserError("model.data.{}=true needs the token that ends documents; name the tokenizer of the data in model.tokenizer",
                    key);
  rules.end_token = named.open()->end_of_document();
  if (rules.end_token < 0)
    throw UserError("model.data.{}=true needs the token that ends documents, and {} has none", key, named.description());
  return rules;
}

DatasetRequest training_request(const Settings& settings) {
  const TrainerSettings& trainer = settings.trainer;
  const ModelSettings& model = settings.model;
  DatasetRequest request{.vocabulary = model.vocab_size,
                         .tokenizer = model.tokenizer,
                         .sequence = model.encoder_seq_length,
                         .seed = model.seed,
                         .samples_needed = {}};
  request.samples_needed[static_cast<size_t>(Split::train)] = trainer.max_steps * model.global_batch_size;
  std::optional<int64_t>& validation = request.samples_needed[static_cast<size_t>(Split::validation)];
  if (trainer.val_check_interval > 0 && trainer.limit_val_share > 0)
    validation = 0;
  else if (trainer.val_check_interval > 0 && trainer.limit_val_batches > 0)
    validation = (trainer.max_steps / trainer.val_check_interval + 1) * trainer.limit_val_batches * model.global_batch_size;
  return request;
}

DatasetsBySplit open_datasets(const DataSettings& settings, const DatasetRequest& asked, const DataNotice& notice) {
  constexpr int64_t kLongestSequence = std::numeric_limits<int32_t>::max();  // positions are int32
  if (asked.sequence < 1 || asked.sequence > kLongestSequence)
    throw UserError("model.encoder_seq_length={} is not possible; use 1 to {}", asked.sequence, kLongestSequence);
  DatasetRequest request = asked;
  if (request.vocabulary == 0) request.vocabulary = default_vocabulary(settings, request.tokenizer);
  const DataImpl kind = settings.data_impl;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kind, request);
  if (kind == DataImpl::mmap) return open_indexed_datasets(settings, request, notice);
  if (kind == DataImpl::flat || kind == DataImpl::llmc) return open_flat_datasets(settings, request);
  DatasetsBySplit datasets;
  for (const Split split : kAllSplits) {
    const std::optional<int64_t> samples = request.samples_needed[static_cast<size_t>(split)];
    if (!samples) continue;
    CHECK(*samples >= 0);
    std::unique_ptr<Dataset>& dataset = datasets[static_cast<size_t>(split)];
    if (kind == DataImpl::mock)
      dataset = open_mock(request.vocabulary, split, request.sequence, *samples, request.seed);
    else if (kind == DataImpl::mock_legacy)
      dataset = std::make_unique<LegacyMockDataset>(*samples, request.sequence, request.vocabulary, request.seed);
    else if (kind == DataImpl::sft)
      dataset = open_sft(settings, *tokenizer, request, split);
    else
      dataset = open_text(settings, *tokenizer, request, split);
  }
  return datasets;
}

std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, int64_t vocab_size, Split split, int64_t sequence,
                                      int64_t samples_needed, uint64_t seed) {
  DatasetRequest request{.vocabulary = vocab_size, .sequence = sequence, .seed = seed, .samples_needed = {}};
  request.samples_needed[static_cast<size_t>(split)] = samples_needed;
  return std::move(open_datasets(settings, request, [](const std::string&) {})[static_cast<size_t>(split)]);
}

}  // namespace trireme
