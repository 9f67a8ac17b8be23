#include "data/recipe/data_recipe.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/defaults_list.h"
#include "config/fields.h"
#include "config/interpolation.h"
#include "config/overrides.h"
#include "config/recipe.h"
#include "config/suggestions.h"
#include "config/yaml.h"
#include "data/prepare/input_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using prepare::OutputFormat;

constexpr double kUnlimited = 1e18;

std::vector<std::string> read_texts(const Tree& value) {
  if (!value.is_list()) return {read_text(value)};
  std::vector<std::string> texts;
  for (const Tree& each : value.list()) texts.push_back(read_text(each));
  return texts;
}

// One URL or a list of URLs. Several keys may set the same member.
Row<DataRecipe> addresses(std::string key, std::vector<std::string> DataRecipe::*member, std::string help) {
  return {std::move(key),
          "list",
          "text or a list of texts",
          std::move(help),
          [member](DataRecipe& recipe, const Tree& value) {
            if (value.is_null()) return;
            for (std::string& address : read_texts(value)) (recipe.*member).push_back(std::move(address));
          },
          {}};
}

// A launcher key that has no effect because another key or the program itself covers it.
Row<DataRecipe> without_effect(std::string key) {
  return {std::move(key), "anything", "anything", "without effect", [](DataRecipe&, const Tree&) {}, {}};
}

std::vector<Row<DataRecipe>> make_rows() {
  using R = DataRecipe;
  const auto tokenizer_library = [](R&, const Tree& value) {
    if (!value.is_null() && value.text() != "megatron" && value.text() != "huggingface" && value.text() != "sentencepiece")
      throw BadValue{"expected megatron, huggingface or sentencepiece"};
  };
  const auto tokenizer_type = [](R&, const Tree& value) {
    if (value.text() != "GPT2BPETokenizer" && !value.is_null())
      throw BadValue{"expected GPT2BPETokenizer; other tokenizers are named by download_tokenizer_url"};
  };
  std::vector<Row<R>> rows = {
      addresses("download_url", &R::download_urls, "folders that have the files, in the order to try them"),
      addresses("the_pile_url", &R::download_urls, "the same"),
      text("file_name", &R::file_name, "", "of the files there, with {00} where their numbers stand"),
      text("file_numbers", &R::file_numbers, "", "which of them: 0-29 or 0,3,5-7"),
      addresses("download_vocab_url", &R::tokenizer_urls, "vocab.json"),
      addresses("download_merges_url", &R::tokenizer_urls, "merges.txt"),
      addresses("download_tokenizer_url", &R::tokenizer_urls, "tokenizer.json"),
      text("tokenizer_save_dir", &R::tokenizer_save_dir, "bpe", "where they are put, below the output folder"),
      {"tokenizer_type", "text", "GPT2BPETokenizer", "that of vocab.json and merges.txt", tokenizer_type, {}},
      {"tokenizer_library",
       "text",
       "megatron, huggingface or sentencepiece",
       "the files themselves say it",
       tokenizer_library,
       {}},
      boolean("download_the_pile", &R::download_files, "download the files"),
      boolean("preprocess_data", &R::preprocess_data, "tokenize them"),
      boolean("rm_downloaded", &R::rm_downloaded, "remove each file when its tokens are there"),
      choice("format", &R::format,
             {{"megatron", OutputFormat::megatron}, {"flat", OutputFormat::flat}, {"llmc", OutputFormat::llmc}},
             "of the dataset"),
      text("output_name", &R::output_name, "data", "what the names of its files begin with; flat: its folder"),
      boolean("append_eod", &R::append_eod, "end every document with the token for that"),
      real("validation", &R::validation, {0, 1, Most::excluded}, "flat: the share of the documents for val.bin"),
      integer("seed", &R::seed, {0, std::numeric_limits<uint32_t>::max()}, "flat: of their choice"),
      integer("expected_file_bytes", &R::expected_file_bytes, {0, int64_t{1} << 50},
              "of one file, where its server does not say"),
      real("text_bytes_per_byte", &R::text_bytes_per_byte, {0, kUnlimited}, "that a file unfolds to"),
      real("token_bytes_per_text_byte", &R::token_bytes_per_text_byte, {0, kUnlimited}, "that text becomes"),
  };
  for (const char* key :
       {"run", "dataset", "vocab_save_dir", "merges_save_dir", "log_dir", "rm_extracted", "tokenizer_model", "nodes",
        "time_limit", "bcp_preproc_npernode", "data_dir", "base_results_dir", "launcher_scripts_path", "bignlp_path"})
    rows.push_back(without_effect(key));
  return rows;
}

const std::vector<Row<DataRecipe>>& rows() {
  static const std::vector<Row<DataRecipe>> table = make_rows();
  return table;
}

void read_entry(DataRecipe& recipe, const Tree::Entry& entry) {
  const auto row = std::ranges::find(rows(), entry.key, &Row<DataRecipe>::key);
  if (row == rows().end()) {
    std::vector<std::string> keys;
    for (const Row<DataRecipe>& each : rows()) keys.push_back(each.key);
    throw UserError("{} is not a key of a data recipe{}{}", entry.key, entry.value.where_suffix(), did_you_mean(entry.key, keys));
  }
  try {
    row->read(recipe, entry.value);
  } catch (const BadValue& bad) {
    throw UserError("{}={}: {}{}", entry.key, entry.value.brief(), bad.reason, entry.value.where_suffix());
  }
}

constexpr std::string_view kGroup = "data_preparation";

// Returns the data file that a launcher's tree, conf/ or conf/config.yaml, selects: by data_preparation=NAME among the overrides,
// or in its list of defaults. Keys may have the launcher's form, data_preparation.file_numbers. Other names are returned
// unchanged.
std::string find_recipe_file(const std::string& name_or_path, std::vector<std::string>& overrides) {
  std::error_code ignored;
  fs::path config = name_or_path;
  if (fs::is_directory(config, ignored)) config /= "config.yaml";
  if (config.filename() != "config.yaml" || !fs::is_regular_file(config, ignored)) return name_or_path;
  std::string choice;
  for (const DefaultsItem& item : read_defaults_list(read_yaml_file(config.string())))
    if (item.group == kGroup && !item.names.empty()) choice = item.names.front();
  const std::string selects = std::string(kGroup) + "=", within = std::string(kGroup) + ".";
  for (std::string& change : overrides) {
    if (change.starts_with(selects)) choice = change.substr(selects.size());
    if (change.starts_with(within)) change.erase(0, within.size());
  }
  std::erase_if(overrides, [&](const std::string& change) { return change.starts_with(selects); });
  if (choice.empty()) throw UserError("{}: its defaults have no {}; give data_preparation=NAME", config.string(), kGroup);
  const fs::path file = config.parent_path() / kGroup / (choice + ".yaml");
  if (!fs::is_regular_file(file, ignored))
    throw UserError("{}: {}={}: there is no {}", config.string(), kGroup, choice, file.string());
  return file.string();
}

void set_if_absent(Tree& tree, const char* key, const std::string& value) {
  if (tree.find(key) == nullptr) tree.set(key, Tree(value));
}

}  // namespace

DataRecipe load_data_recipe(const std::string& name, const std::vector<std::string>& overrides, const std::string& output) {
  std::vector<std::string> changes = overrides;
  const std::string name_or_path = find_recipe_file(name, changes);
  Tree tree = load_recipe(name_or_path);
  for (const std::string& change : changes) apply_override(tree, parse_override(change));
  // The launcher's files refer to these keys, which a parent file defines.
  for (const char* key : {"data_dir", "base_results_dir", "launcher_scripts_path", "bignlp_path"})
    set_if_absent(tree, key, output);
  resolve_interpolations(tree);
  DataRecipe recipe{.name = name_or_path};
  for (const Tree::Entry& entry : tree.map()) read_entry(recipe, entry);
  // The launcher's file gives only the Pile's URL; the launcher's program knows the rest.
  if (recipe.file_name.empty() && tree.find("the_pile_url") != nullptr) {
    recipe.file_name = "{00}.jsonl.zst";
    recipe.output_name = "my-gpt3";
  }
  if (recipe.download_urls.empty()) throw UserError("{}: has no download_url; is it a data recipe?", name_or_path);
  if (recipe.file_name.empty() || recipe.file_name.find('/') != std::string::npos)
    throw UserError("{}: file_name={}: expected the name of a file", name_or_path, recipe.file_name);
  if (recipe.preprocess_data && recipe.tokenizer_urls.empty())
    throw UserError("{}: has neither download_tokenizer_url nor download_vocab_url", name_or_path);
  return recipe;
}

std::vector<RecipeFile> files_of(const DataRecipe& recipe) {
  const std::string& pattern = recipe.file_name;
  const size_t open = pattern.find('{'), close = pattern.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {{pattern, ""}};
  const size_t digits = close - open - 1;
  std::vector<RecipeFile> files;
  for (const int64_t number : prepare::parse_file_numbers(recipe.file_numbers)) {
    const std::string text = fmt::format("{:0{}}", number, digits);
    files.push_back({pattern.substr(0, open) + text + pattern.substr(close + 1), text});
  }
  return files;
}

}  // namespace trireme
