// trireme completion: scripts for bash, zsh and fish. Each script asks the program itself for candidates (the hidden command
// `complete`), so commands, options, recipes and keys are listed nowhere else.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/help_format.h"
#include "cli/usage_error.h"
#include "config/recipe.h"
#include "config/settings_fields.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBash = R"(# bash completion for trireme; to load it: source <(trireme completion bash)
_trireme() {
  local line="${COMP_LINE:0:COMP_POINT}" words word
  read -ra words <<< "$line"
  [[ "$line" == *' ' ]] && words+=("")
  word="${words[-1]}"
  # Readline replaces only what follows the last "=" or ":".
  local shown="${word##*[=:]}"
  local prefix="${word%"$shown"}"
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    COMPREPLY+=("${candidate#"$prefix"}")
  done < <("${words[0]}" complete -- "${words[@]:1}" 2> /dev/null)
  [[ ${#COMPREPLY[@]} -gt 0 && "${COMPREPLY[0]}" == *[=/] ]] && compopt -o nospace
}
complete -o bashdefault -o default -F _trireme trireme
)";

constexpr std::string_view kZsh = R"(#compdef trireme
# zsh completion for trireme; to load it: source <(trireme completion zsh)
_trireme() {
  local -a plain open
  local candidate about
  while IFS=$'\t' read -r candidate about; do
    if [[ "$candidate" == *[=/] ]]; then open+=("$candidate"); else plain+=("$candidate"); fi
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2> /dev/null)
  (( ${#plain} )) && compadd -Q -- "${plain[@]}"
  (( ${#open} )) && compadd -Q -S '' -- "${open[@]}"
  (( ${#plain} + ${#open} )) || _files
}
compdef _trireme trireme
)";

constexpr std::string_view kFish = R"(# fish completion for trireme; to load it: trireme completion fish | source
complete -c trireme -a '(set -l words (commandline -opc); $words[1] complete -- $words[2..] (commandline -ct) 2> /dev/null)'
)";

struct Candidate {
  std::string word, about;
};

// Completion candidates at the end of a command line.
class Candidates {
 public:
  // `words` are the words after the program's name. The last one, which may be empty, is to be completed.
  Candidates(const CLI::App& app, std::vector<std::string> words);
  std::vector<Candidate> list() const;

 private:
  const CLI::Option* option_before() const;  // the option whose value is being typed, or nullptr
  bool takes(const char* positional) const { return command_->get_option_no_throw(positional) != nullptr; }
  void add(std::vector<Candidate>& list, std::string word, std::string about = "") const;
  void add_settings(std::vector<Candidate>& list) const;
  void add_values(std::vector<Candidate>& list) const;  // values of the setting before "="
  void add_runs(std::vector<Candidate>& list) const;

  const CLI::App* command_;
  std::vector<std::string> words_;  // words after the command
  std::string last_;
};

Candidates::Candidates(const CLI::App& app, std::vector<std::string> words) : command_(&app) {
  if (!words.empty()) {
    last_ = words.back();
    words.pop_back();
  }
  size_t depth = 0;
  for (; depth < words.size(); ++depth) {
    const CLI::App* below = find_subcommand(*command_, words[depth]);
    if (below == nullptr) break;
    command_ = below;
  }
  words_.assign(words.begin() + static_cast<ptrdiff_t>(depth), words.end());
}

void Candidates::add(std::vector<Candidate>& list, std::string word, std::string about) const {
  if (word.starts_with(last_)) list.push_back({std::move(word), std::move(about)});
}

const CLI::Option* Candidates::option_before() const {
  if (words_.empty() || !words_.back().starts_with("--")) return nullptr;
  const CLI::Option* option = command_->get_option_no_throw(words_.back());
  return option != nullptr && option->get_type_size() > 0 ? option : nullptr;
}

void Candidates::add_settings(std::vector<Candidate>& list) const {
  for (const Field& field : settings_fields()) add(list, field.key + "=", field.help);
}

void Candidates::add_values(std::vector<Candidate>& list) const {
  const size_t equals = last_.find('=');
  const Field* field = find_setting(std::string_view(last_).substr(0, equals));
  if (field == nullptr || (field->type != "choice" && field->type != "boolean")) return;
  for (std::string_view rest = field->accepts; !rest.empty();) {
    const size_t comma = rest.find(", "), last_or = rest.find(" or ");
    const size_t end = std::min({comma, last_or, rest.size()});
    add(list, fmt::format("{}={}", field->key, rest.substr(0, end)));
    rest.remove_prefix(end == rest.size() ? end : end + (end == comma ? 2 : 4));
  }
}

// Adds the run folders in the default location. The shell completes files.
void Candidates::add_runs(std::vector<Candidate>& list) const {
  std::error_code unreadable;
  for (const fs::directory_entry& recipe : fs::directory_iterator("runs", unreadable)) {
    for (const fs::directory_entry& run : fs::directory_iterator(recipe.path(), unreadable))
      if (fs::exists(run.path() / "recipe.yaml", unreadable)) add(list, run.path().string());
  }
}

std::vector<Candidate> Candidates::list() const {
  std::vector<Candidate> list;
  if (option_before() != nullptr) return list;  // a file or a number, which the shell completes
  if (last_.starts_with('-')) {
    for (const CLI::Option* option : command_->get_options())
      for (const std::string& name : option->get_lnames()) add(list, "--" + name, option->get_description());
    return list;
  }
  for (const CLI::App* below : command_->get_subcommands({}))
    if (!below->get_group().empty()) add(list, below->get_name(), command_summary(*below));
  if (takes("recipe")) {
    const bool has_recipe = std::ranges::any_of(words_, [](const std::string& word) { return !word.starts_with('-'); });
    if (last_.find('=') != std::string::npos)
      add_values(list);
    else if (has_recipe)
      add_settings(list);
    else
      for (const ShippedRecipe& recipe : shipped_recipes()) add(list, recipe.name, recipe.summary);
  }
  if (takes("runs") || takes("run") || takes("checkpoint")) add_runs(list);
  std::ranges::sort(list, {}, &Candidate::word);
  return list;
}

void print_candidates(const CLI::App& app, std::vector<std::string> words) {
  for (const Candidate& candidate : Candidates(app, std::move(words)).list()) {
    const std::string about = candidate.about.substr(0, candidate.about.find('\n'));
    fmt::print("{}{}{}\n", candidate.word, about.empty() ? "" : "\t", about);
  }
}

}  // namespace

void add_completion_commands(CLI::App& app, int& status) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion",
                                         "Print a script that completes commands, options, recipes, keys and runs.\n\n"
                                         "examples:  source <(trireme completion bash)\n"
                                         "           source <(trireme completion zsh)\n"
                                         "           trireme completion fish | source\n");
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  command->callback([shell, &status] {
    if (*shell != "bash" && *shell != "zsh" && *shell != "fish")
      throw UserError("shell={} is not known; use bash, zsh or fish", *shell);
    fmt::print("{}", *shell == "bash" ? kBash : *shell == "zsh" ? kZsh : kFish);
    status = kDone;
  });

  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* complete = app.add_subcommand("complete", "Print what may come next on a command line.");
  complete->group("");  // hidden: for the scripts only
  complete->add_option("words", *words, "the words typed so far");
  complete->callback([words, &app, &status] {
    print_candidates(app, *words);
    status = kDone;
  });
}

}  // namespace trireme
