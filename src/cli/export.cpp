// trireme export and trireme import: convert models to and from transformers.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/units.h"
#include "cli/choice_option.h"
#include "cli/command.h"
#include "convert/foreign_checkpoint.h"
#include "convert/hf_export.h"
#include "convert/hf_import.h"
#include "convert/megatron/megatron_export.h"
#include "convert/megatron/megatron_import.h"
#include "convert/new_folder.h"
#include "convert/peft_files.h"
#include "train/run_folder.h"

namespace trireme {
namespace {

struct ExportArguments {
  std::string checkpoint;
  std::string to = "hf";
  std::string output;
  std::string dtype;  // empty: the type used in training
  uint64_t max_shard_bytes = 5'000'000'000;
  int64_t tensor_parallel = 1, stages = 1;
  std::string transformer_impl = "transformer_engine";
  bool dry_run = false;
  bool json = false;
};

std::optional<DType> dtype_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "bf16" ? DType::bf16 : DType::f32;
}

int export_adapters(const ExportArguments& arguments, const StoredCheckpoint& checkpoint) {
  const PeftExport exported(checkpoint);
  const std::filesystem::path output = require_new(arguments.output);
  if (!arguments.dry_run) exported.write(output);
  if (arguments.json) {
    print_json(nlohmann::ordered_json{{"checkpoint", checkpoint.folder.string()},
                                      {"step", checkpoint.manifest.info.step},
                                      {"adapters", exported.adapters()},
                                      {"parameters", exported.parameters()},
                                      {"output", output.string()},
                                      {"written", !arguments.dry_run}});
    return kDone;
  }
  fmt::print("adapters   of {} matrices, {} parameters\n", exported.adapters(),
             format_count(static_cast<double>(exported.parameters())));
  if (!arguments.dry_run) fmt::print("written    {}\n", output.string());
  return kDone;
}

int export_megatron(const ExportArguments& arguments, const StoredCheckpoint& checkpoint) {
  const MegatronExport exported(
      checkpoint, {.dtype = dtype_named(arguments.dtype),
                   .tensor_parallel = arguments.tensor_parallel,
                   .stages = arguments.stages,
                   .names = arguments.transformer_impl == "local" ? MegatronNames::local : MegatronNames::transformer_engine});
  const std::filesystem::path output = require_new(arguments.output);
  if (!arguments.dry_run) exported.write(output);
  if (arguments.json) {
    print_json(nlohmann::ordered_json{{"checkpoint", checkpoint.folder.string()},
                                      {"step", checkpoint.manifest.info.step},
                                      {"parameters", exported.parameters()},
                                      {"dtype", name_of(exported.dtype())},
                                      {"bytes", exported.bytes()},
                                      {"files", exported.files()},
                                      {"arguments", exported.arguments()},
                                      {"output", output.string()},
                                      {"written", !arguments.dry_run}});
    return kDone;
  }
  fmt::print("model      {} parameters, of {}\n", format_count(static_cast<double>(exported.parameters())),
             checkpoint.folder.string());
  fmt::print("weights    {} in {}: {} of {} tensor parallel ranks and {} stages\n", format_bytes(exported.bytes()),
             name_of(exported.dtype()), plural(exported.files(), "file"), arguments.tensor_parallel, arguments.stages);
  if (arguments.dry_run) return kDone;
  fmt::print("written    {}\n", output.string());
  fmt::print("load it    pretrain_gpt.py --load {} {}\n", arguments.output, exported.arguments());
  return kDone;
}

int export_model(const ExportArguments& arguments) {
  const NewestCheckpoint found = open_named_checkpoint(arguments.checkpoint);
  for (const std::string& line : found.skipped) fmt::print(stderr, "warning: {}\n", line);
  if (arguments.to == "peft") return export_adapters(arguments, *found.checkpoint);
  if (arguments.to == "megatron") return export_megatron(arguments, *found.checkpoint);
  const HfExport exported(*found.checkpoint,
                          {.dtype = dtype_named(arguments.dtype),
                           .max_shard_bytes = static_cast<int64_t>(std::min<uint64_t>(arguments.max_shard_bytes, INT64_MAX))});
  const std::filesystem::path output = require_new(arguments.output);
  if (!arguments.dry_run) exported.write(output);
  if (arguments.json) {
    const nlohmann::ordered_json facts = {{"checkpoint", found.checkpoint->folder.string()},
                                          {"step", found.checkpoint->manifest.info.step},
                                          {"family", exported.model().family->model_type},
                                          {"parameters", exported.parameters()},
                                          {"dtype", name_of(exported.dtype())},
                                          {"bytes", exported.bytes()},
                                          {"files", exported.files()},
                                          {"tokenizer", exported.tokenizer()},
                                          {"folded", exported.folded()},
                                          {"output", output.string()},
                                          {"written", !arguments.dry_run}};
    print_json(facts);
    return kDone;
  }
  fmt::print("model      {}, {} parameters, of {}\n", exported.model().family->name,
             format_count(static_cast<double>(exported.parameters())), found.checkpoint->folder.string());
  fmt::print("weights    {} in {}: {}\n", format_bytes(exported.bytes()), name_of(exported.dtype()),
             fmt::join(exported.files(), ", "));
  fmt::print("tokenizer  {}\n", exported.tokenizer());
  for (const std::string& line : exported.folded()) fmt::print("note       {}\n", line);
  if (arguments.dry_run) return kDone;
  fmt::print("written    {}\n", output.string());
  fmt::print("load it    AutoModelForCausalLM.from_pretrained(\"{}\")\n", arguments.output);
  return kDone;
}

struct ImportArguments {
  std::string model;
  std::string output;
  MegatronImportOptions megatron;
  bool dry_run = false;
  bool json = false;
};

int import_megatron(const ImportArguments& arguments) {
  const MegatronImport imported(arguments.model, arguments.megatron);
  const std::filesystem::path output = require_new(arguments.output);
  const ModelSettings& model = imported.model();
  const MegatronFiles& files = imported.files();
  std::string tokenizer;
  if (!arguments.dry_run) tokenizer = imported.write(output);
  if (arguments.json) {
    nlohmann::ordered_json facts = {{"format", files.format()},
                                    {"checkpoint", files.where()},
                                    {"iteration", files.iteration()},
                                    {"tensor_parallel", files.tensor_parallel()},
                                    {"pipeline_stages", files.pipeline_stages()},
                                    {"parameters", imported.parameters()},
                                    {"layers", model.num_layers},
                                    {"width", model.hidden_size},
                                    {"heads", model.num_attention_heads},
                                    {"vocabulary", model.vocab_size},
                                    {"stored_as", imported.stored_as()},
                                    {"optimizer", imported.has_optimizer()},
                                    {"notes", imported.notes()},
                                    {"output", output.string()},
                                    {"written", !arguments.dry_run}};
    if (!arguments.dry_run) facts["tokenizer"] = tokenizer;
    print_json(facts);
    return kDone;
  }
  fmt::print("model      Megatron GPT, {} parameters: {} layers, {} wide, {} heads, vocabulary {}, stored as {}\n",
             format_count(static_cast<double>(imported.parameters())), model.num_layers, model.hidden_size,
             model.num_attention_heads, model.vocab_size, imported.stored_as());
  fmt::print("files      {} of iteration {}, {} tensor parallel ranks, {} stages: {}\n", files.format(), files.iteration(),
             files.tensor_parallel(), files.pipeline_stages(), files.where());
  for (const std::string& line : imported.notes()) fmt::print("note       {}\n", line);
  if (arguments.dry_run) return kDone;
  fmt::print("tokenizer  {}\n", tokenizer);
  fmt::print("written    {}\n", output.string());
  fmt::print("go on      trireme train {}/recipe.yaml model.data.data_prefix=[FILE]\n", arguments.output);
  if (imported.has_optimizer())
    fmt::print("or resume  trireme train {0}/recipe.yaml exp_manager.explicit_log_dir={0} --resume\n", arguments.output);
  return kDone;
}

int import_model(const ImportArguments& arguments) {
  if (MegatronFiles::is_checkpoint(arguments.model)) return import_megatron(arguments);
  require_no_foreign_checkpoint(arguments.model);
  const HfImport imported{std::filesystem::path(arguments.model)};
  const std::filesystem::path output = require_new(arguments.output);
  const ModelSettings& model = imported.model().settings.model;
  std::string tokenizer;
  if (!arguments.dry_run) tokenizer = imported.write(output);
  if (arguments.json) {
    nlohmann::ordered_json facts = {{"family", imported.model().family->model_type},
                                    {"parameters", imported.parameters()},
                                    {"layers", model.num_layers},
                                    {"width", model.hidden_size},
                                    {"heads", model.num_attention_heads},
                                    {"vocabulary", model.vocab_size},
                                    {"stored_as", imported.stored_as()},
                                    {"output", output.string()},
                                    {"written", !arguments.dry_run}};
    if (!arguments.dry_run) facts["tokenizer"] = tokenizer;
    print_json(facts);
    return kDone;
  }
  fmt::print("model      {}, {} parameters: {} layers, {} wide, {} heads, vocabulary {}, stored as {}\n",
             imported.model().family->name, format_count(static_cast<double>(imported.parameters())), model.num_layers,
             model.hidden_size, model.num_attention_heads, model.vocab_size, imported.stored_as());
  if (arguments.dry_run) return kDone;
  fmt::print("tokenizer  {}\n", tokenizer);
  fmt::print("written    {}\n", output.string());
  // A byte tokenizer trains on plain text files, which the user must name.
  const char* files = tokenizer == "bytes" ? " model.data.data_prefix=[FILE]" : "";
  fmt::print("go on      trireme train {}/recipe.yaml{}\n", arguments.output, files);
  return kDone;
}

}  // namespace

void add_export_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export",
                                         "Write a checkpoint as files that transformers loads.\n\n"
                                         "examples:  trireme train demo trainer.max_steps=20\n"
                                         "           trireme export runs/demo --to hf --output demo-hf\n"
                                         "           trireme export runs/demo --to hf --output demo-bf16 --dtype bf16\n");
  command->add_option("checkpoint", arguments->checkpoint, "the folder of a checkpoint, or of a run (its newest)")->required();
  command
      ->add_option(
          "--to", arguments->to,
          "hf: safetensors and config.json of GPT-2, GPT-NeoX or Llama, whichever it is; megatron: the weights of Megatron-LM's "
          "ranks; peft: only the adapters of LoRA")
      ->capture_default_str()
      ->check(one_of({"hf", "megatron", "peft"}));
  command->add_option("--output", arguments->output, "the folder to make; one that is there is never touched")->required();
  command->add_option("--dtype", arguments->dtype, "of the weights; default: as the model was trained")
      ->check(one_of({"bf16", "fp32"}));
  command->add_option("--max-shard-size", arguments->max_shard_bytes, "a larger model is written as several files, e.g. 5GB")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(true));
  command->add_option("--tensor-parallel", arguments->tensor_parallel, "of megatron: tensor parallel ranks of the files")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{99}));
  command->add_option("--pipeline-parallel", arguments->stages, "of megatron: stages of the files")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{999}));
  command
      ->add_option("--transformer-impl", arguments->transformer_impl,
                   "of megatron: the value of its option of this name, which decides how norms are named")
      ->capture_default_str()
      ->check(one_of({"transformer_engine", "local"}));
  command->add_flag("--dry-run", arguments->dry_run, "check everything, say what would be written, and stop");
  command->add_flag("--json", arguments->json, "print the facts as JSON");
  command->callback([arguments, &status] { status = export_model(*arguments); });
}

void add_import_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand(
      "import",
      "Make a checkpoint and a recipe of a GPT-2, GPT-NeoX or Llama model of transformers, or of a GPT model of Megatron-LM or "
      "NeMo.\n\n"
      "examples:  trireme import demo-hf --output imported\n"
      "           trireme train imported/recipe.yaml model.data.data_impl=mock\n"
      "           trireme generate imported\n");
  command
      ->add_option("model", arguments->model,
                   "the folder of a model, or its safetensors file with config.json beside it; the folder of a checkpoint of "
                   "Megatron-LM or NeMo, a .nemo archive, or the file of one rank")
      ->required();
  command->add_option("--output", arguments->output, "the folder to make; one that is there is never touched")->required();
  command->add_option("--config", arguments->megatron.config,
                      "of Megatron and NeMo: a YAML file of the model's settings, for a checkpoint that has none");
  command
      ->add_option("--vocab-size", arguments->megatron.vocabulary,
                   "of Megatron and NeMo: rows of the embedding that are not padding; default: the tokenizer's, or all")
      ->check(CLI::PositiveNumber);
  command->add_flag("--dry-run", arguments->dry_run, "check everything, say what would be written, and stop");
  command->add_flag("--json", arguments->json, "print the facts as JSON");
  command->callback([arguments, &status] { status = import_model(*arguments); });
}

}  // namespace trireme
