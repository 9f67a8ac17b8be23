#include "config/complete.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trireme {

namespace {

// Who gave a key. The command line takes precedence over files.
enum class Giver : uint8_t { nobody, file, command_line };

Giver giver_of(const Tree& recipe, std::string_view key) {
  const Tree* value = recipe.find(key);
  if (value == nullptr || value->is_null()) return Giver::nobody;
  return value->origin.file && value->origin.line == 0 ? Giver::command_line : Giver::file;
}

// Turns shares of an epoch into steps. An epoch is what trainer.max_steps consumes, because exactly that many samples are drawn.
void complete_steps(TrainerSettings& trainer) {
  if (trainer.max_epochs > 0 && trainer.limit_train_batches > 0 &&
      trainer.limit_train_batches < trainer.max_steps / trainer.max_epochs)
    trainer.max_steps = trainer.limit_train_batches * trainer.max_epochs;
  if (trainer.val_check_share == 0) return;
  const double steps = std::floor(static_cast<double>(trainer.max_steps) * trainer.val_check_share);
  trainer.val_check_interval = std::max<int64_t>(1, static_cast<int64_t>(steps));
  trainer.val_check_share = 0;
}

void complete_vocabulary(ModelSettings& model) {
  // Mock data has no tokenizer, but its recipes name the one whose vocabulary size they mean.
  constexpr int64_t kGpt2Vocabulary = 50257;
  const bool is_gpt2 = model.tokenizer.library == TokenizerLibrary::megatron && model.tokenizer.type == "GPT2BPETokenizer";
  if (model.vocab_size == 0 && !model.data.is_text() && is_gpt2) model.vocab_size = kGpt2Vocabulary;
}

// Rejects named files that would not be read, because mock data was then not intended. Two cases are accepted: mock data on the
// command line replaces the files of a recipe, and some NeMo recipes name files together with mock data.
void require_data_used(const Tree& recipe, const DataSettings& data) {
  if ((!data.mock_dataset && !data.is_made_up()) || data.data_prefix.empty()) return;
  constexpr const char *kFiles = "model.data.data_prefix", *kKind = "model.data.data_impl";
  const char* const mock = data.mock_dataset ? "model.data.mock_dataset" : kKind;
  const Tree *files = recipe.find(kFiles), *kind = recipe.find(mock);
  if (files == nullptr || giver_of(recipe, mock) > giver_of(recipe, kFiles)) return;
  const auto is_in_a_file = [](const Tree* value) { return value != nullptr && value->origin.file && value->origin.line > 0; };
  if (is_in_a_file(kind) && is_in_a_file(files) && *kind->origin.file == *files->origin.file) return;
  throw UserError(
      "{}={}: would not be read, because {}={} makes data up; use {}=text for text files, sft for prompts, mmap, flat or llmc "
      "for tokens, or "
      "{}=[]{}",
      kFiles, files->brief(), mock, data.mock_dataset ? "true" : name_of(data.data_impl), kKind, kFiles, files->where_suffix());
}

void complete_data(const Tree& recipe, ModelSettings& model) {
  DataSettings& data = model.data;
  require_data_used(recipe, data);
  if (data.mock_dataset) data.data_impl = DataImpl::mock;
  if (data.legacy_dataset && data.data_impl == DataImpl::mock) data.data_impl = DataImpl::mock_legacy;
  const Tree* length = recipe.find("model.data.seq_length");
  if (length != nullptr && !length->is_null() && length->text() != std::to_string(model.encoder_seq_length))
    throw UserError("model.data.seq_length={}: must equal model.encoder_seq_length={}{}", length->brief(),
                    model.encoder_seq_length, length->where_suffix());
}

// LitGPT counts samples per device, NeMo those of all devices. In LitGPT every device has its own samples; if several devices
// share a model here, the step still has as many samples.
void complete_litgpt_batch(const Tree& recipe, Settings& settings) {
  const int64_t batch = settings.litgpt.batch_size, micro = settings.litgpt.micro_batch_size;
  if (batch == 0 && micro == 0) return;
  if (batch == 0 || micro == 0)
    throw UserError("{} must be given beside {}", batch == 0 ? "batch_size" : "micro_batch_size",
                    batch == 0 ? "micro_batch_size" : "batch_size");
  if (micro > batch)
    throw UserError(
        "micro_batch_size={} is larger than batch_size={}, which leaves 0 micro-batches to accumulate; they are swapped: use "
        "batch_size={} micro_batch_size={}",
        micro, batch, micro, batch);
  if (batch % micro != 0)
    throw UserError("micro_batch_size={} does not divide batch_size={}; use for example batch_size={}", micro, batch,
                    batch / micro * micro);
  ModelSettings& model = settings.model;
  const auto take = [&](const char* key, int64_t& member, const char* litgpt_key, int64_t litgpt_value, int64_t value) {
    const Giver nemo = giver_of(recipe, key), litgpt = giver_of(recipe, litgpt_key);
    if (member != value && nemo == litgpt)
      throw UserError("{}={} contradicts {}={}, which asks for {}; remove one of them, for example with ~{}", key, member,
                      litgpt_key, litgpt_value, value, litgpt_key);
    if (nemo > litgpt)
      settings.litgpt = {};
    else
      member = value;
  };
  take("model.micro_batch_size", model.micro_batch_size, "micro_batch_size", micro, micro);
  take("model.global_batch_size", model.global_batch_size, "batch_size", batch, batch * settings.ranks());
}

}  // namespace

void complete(const Tree& recipe, Settings& settings) {
  ModelSettings& model = settings.model;
  if (model.ffn_hidden_size == 0) model.ffn_hidden_size = 4 * model.hidden_size;
  if (model.layernorm_zero_centered_gamma && model.normalization == Normalization::layernorm)
    model.normalization = Normalization::layernorm1p;
  if (model.fp8.e4m3) model.fp8.hybrid = false;  // as in NeMo, where recipes leave `hybrid` on by default
  if (settings.exp_manager.resume_from_checkpoint.empty())
    settings.exp_manager.resume_from_checkpoint = model.resume_from_checkpoint;
  complete_steps(settings.trainer);
  complete_vocabulary(model);
  complete_data(recipe, model);
  complete_litgpt_batch(recipe, settings);
}

}  // namespace trireme
