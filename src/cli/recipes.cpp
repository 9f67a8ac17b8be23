// trireme recipes: list the recipes and their properties.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "config/recipe.h"
#include "config/suggestions.h"
#include "train/run_size.h"

namespace trireme {
namespace {

struct Listed {
  ShippedRecipe recipe;
  std::string group;  // its folder; empty at the top
  Settings settings;
  RunSize size;
  std::string error;  // why it cannot be used; a user's own folder may contain such files
};

Listed look_at(const ShippedRecipe& recipe) {
  Listed listed{
      .recipe = recipe, .group = recipe.name.substr(0, recipe.name.rfind('/') + 1), .settings = {}, .size = {}, .error = {}};
  if (!listed.group.empty()) listed.group.pop_back();
  try {
    listed.settings = resolve_recipe(recipe.name, {}).settings;
    listed.size = run_size(listed.settings);
  } catch (const UserError& error) {
    listed.error = error.what();
  }
  return listed;
}

// Returns all recipes whose names start with `beginning`, sorted by group, then by size.
std::vector<Listed> list_recipes(const std::string& beginning) {
  std::vector<Listed> list;
  std::vector<std::string> names;
  for (const ShippedRecipe& recipe : shipped_recipes()) {
    names.push_back(recipe.name);
    if (recipe.name.starts_with(beginning)) list.push_back(look_at(recipe));
  }
  if (list.empty()) throw UserError("{}: no recipe has a name that begins so{}", beginning, did_you_mean(beginning, names));
  std::ranges::stable_sort(list, {}, [](const Listed& one) { return std::pair(one.group, one.size.parameters); });
  return list;
}

const char* precision_of(const Settings& settings) {
  if (settings.model.fp8.enabled) return "fp8";
  constexpr const char* kNames[] = {"f32", "bf16", "fp16"};
  return kNames[static_cast<size_t>(settings.trainer.precision)];
}

// A column of the tables.
struct Column {
  const char* title;
  char align;
  std::string (*text)(const Listed&);
};

std::string number(int64_t value) { return std::to_string(value); }

constexpr Column kColumns[] = {
    {"recipe", '<', [](const Listed& one) { return one.recipe.name; }},
    {"parameters", '>', [](const Listed& one) { return format_count(static_cast<double>(one.size.parameters)); }},
    {"layers", '>', [](const Listed& one) { return number(one.settings.model.num_layers); }},
    {"width", '>', [](const Listed& one) { return number(one.settings.model.hidden_size); }},
    {"heads", '>', [](const Listed& one) { return number(one.settings.model.num_attention_heads); }},
    {"sequence", '>', [](const Listed& one) { return number(one.settings.model.encoder_seq_length); }},
    {"precision", '<', [](const Listed& one) { return std::string(precision_of(one.settings)); }},
    {"batch", '>', [](const Listed& one) { return number(one.settings.model.global_batch_size); }},
    {"GPUs", '>', [](const Listed& one) { return number(one.settings.ranks()); }},
    {"layout", '<', [](const Listed& one) { return layout_text(one.settings); }},
};

std::string heading(const std::string& group) {
  const std::string about = shipped_summary(group + "/_base");
  return about.empty() ? group : about;
}

// Calls `begin` with the name of each group and `row` with each of its recipes.
template <class Begin, class Each>
void for_each_group(const std::vector<Listed>& list, Begin begin, Each each) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i == 0 || list[i].group != list[i - 1].group) begin(list[i].group);
    each(list[i]);
  }
}

std::string as_text(const std::vector<Listed>& list) {
  std::vector<size_t> widths;
  for (const Column& column : kColumns) {
    size_t width = std::string_view(column.title).size();
    for (const Listed& one : list)
      if (one.error.empty() || widths.empty()) width = std::max(width, column.text(one).size());
    widths.push_back(width);
  }
  const auto line = [&](auto cell) {
    std::string text;
    for (size_t i = 0; i < std::size(kColumns); ++i)
      text += kColumns[i].align == '<' ? fmt::format("{:<{}}  ", cell(kColumns[i]), widths[i])
                                       : fmt::format("{:>{}}  ", cell(kColumns[i]), widths[i]);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = line([](const Column& column) { return std::string(column.title); });
  for_each_group(
      list, [&](const std::string& group) { text += group.empty() ? "" : fmt::format("\n{}\n", heading(group)); },
      [&](const Listed& one) {
        text += one.error.empty() ? line([&](const Column& column) { return column.text(one); })
                                  : fmt::format("{:<{}}  {}\n", one.recipe.name, widths[0], one.error);
      });
  return text;
}

std::string as_markdown(const std::vector<Listed>& list) {
  std::string titles = "|", rule = "|";
  for (const Column& column : kColumns) {
    titles += fmt::format(" {} |", column.title);
    rule += column.align == '<' ? "---|" : "---:|";
  }
  std::string text;
  for_each_group(
      list,
      [&](const std::string& group) {
        text +=
            fmt::format("{}{}{}\n{}\n", text.empty() ? "" : "\n", group.empty() ? "" : heading(group) + ":\n\n", titles, rule);
      },
      [&](const Listed& one) {
        text += fmt::format("| `{}` |", one.recipe.name);
        for (const Column& column : std::span(kColumns).subspan(1))
          text += one.error.empty() ? fmt::format(" {} |", column.text(one)) : std::string(" |");
        text += "\n";
      });
  return text;
}

nlohmann::ordered_json as_json(const Listed& one) {
  nlohmann::ordered_json json{
      {"name", one.recipe.name}, {"group", one.group}, {"summary", one.recipe.summary}, {"path", one.recipe.path}};
  if (!one.error.empty()) {
    json["error"] = one.error;
    return json;
  }
  const Settings& settings = one.settings;
  const ModelSettings& model = settings.model;
  json["parameters"] = one.size.parameters;
  json["layers"] = model.num_layers;
  json["width"] = model.hidden_size;
  json["ffn_width"] = model.ffn_hidden_size;
  json["heads"] = model.num_attention_heads;
  json["query_groups"] = model.groups();
  json["head_width"] = model.head_width();
  json["vocabulary"] = model.vocab_size;
  json["padded_vocabulary"] = model.padded_vocabulary();
  json["sequence_length"] = model.encoder_seq_length;
  json["precision"] = precision_of(settings);
  json["gpus"] = settings.ranks();
  json["nodes"] = settings.trainer.num_nodes;
  json["gpus_per_node"] = settings.trainer.devices;
  json["layout"] = {{"tensor", model.tensor_model_parallel_size},
                    {"pipeline", model.pipeline_model_parallel_size},
                    {"virtual_pipeline", model.virtual_pipeline_model_parallel_size},
                    {"context", model.context_parallel_size},
                    {"data", settings.data_parallel_size()},
                    {"sequence_parallel", model.sequence_parallel}};
  json["micro_batch_size"] = model.micro_batch_size;
  json["global_batch_size"] = model.global_batch_size;
  json["micro_batches"] = one.size.micro_batches;
  json["max_steps"] = settings.trainer.max_steps;
  json["tokens"] = settings.trainer.max_steps * model.global_batch_size * model.encoder_seq_length;
  json["flops_per_sample"] = {{"full", one.size.flops_full}, {"causal", one.size.flops_causal}};
  return json;
}

// Returns everything about one recipe, one line per property.
std::string in_full(const Listed& one) {
  const auto json = as_json(one).flatten();
  size_t width = 0;
  for (const auto& [key, value] : json.items()) width = std::max(width, key.size());
  std::string text;
  for (const auto& [key, value] : json.items()) {
    std::string label = key.substr(1);
    std::ranges::replace(label, '/', ' ');
    text += fmt::format("{:<{}}  {}\n", label, width, value.is_string() ? value.get<std::string>() : json_text(value, kOneLine));
  }
  return text;
}

struct RecipesArguments {
  std::string beginning;
  bool json = false;
  bool markdown = false;
};

void print_recipes(const RecipesArguments& arguments) {
  std::vector<Listed> list = list_recipes(arguments.beginning);
  // An exact name selects that recipe only, even if longer names start with it.
  const auto named = std::ranges::find(list, arguments.beginning, [](const Listed& one) { return one.recipe.name; });
  const bool one_only = named != list.end();
  if (one_only) list = {*named};
  if (arguments.json) {
    auto array = nlohmann::ordered_json::array();
    for (const Listed& one : list) array.push_back(as_json(one));
    print_json(array);
  } else if (arguments.markdown) {
    fmt::print("{}", as_markdown(list));
  } else {
    fmt::print("{}", one_only ? in_full(list.front()) : as_text(list));
  }
}

}  // namespace

void add_recipes_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<RecipesArguments>();
  CLI::App* command = app.add_subcommand("recipes",
                                         "List the recipes that come with the program, and what each comes to.\n\n"
                                         "examples:  trireme recipes\n"
                                         "           trireme recipes gpt3/\n"
                                         "           trireme recipes gpt3/175b\n"
                                         "           trireme recipes --json\n");
  command->add_option("name", arguments->beginning, "a recipe, for all about it, or the beginning of several names");
  CLI::Option* json = command->add_flag("--json", arguments->json, "as a JSON array, with more about each");
  command->add_flag("--markdown", arguments->markdown, "as the tables of docs/recipes.md")->excludes(json);
  command->callback([arguments, &status] {
    print_recipes(*arguments);
    status = kDone;
  });
}

}  // namespace trireme
