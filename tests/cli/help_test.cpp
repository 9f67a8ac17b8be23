// The command line as a person meets it: help that fits a terminal, answers to slips, completion, manual pages, full disks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr size_t kColumns = 80;

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The names below "Subcommands:" in a help text.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> names;
  bool in_list = false;
  for (const std::string& line : lines_in(help)) {
    if (in_list && line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    in_list |= line == "Subcommands:";
  }
  return names;
}

// Every command of the program: "", "train", ..., "data", "data prepare", ...
std::vector<std::string> all_commands(const std::string& command = "") {
  std::vector<std::string> all{command};
  for (const std::string& name : commands_in(run_program(command + " --help").output))
    for (const std::string& below : all_commands(command.empty() ? name : command + " " + name)) all.push_back(below);
  return all;
}

TEST(Help, OfEveryCommandFitsTheTerminal) {
  const std::vector<std::string> commands = all_commands();
  EXPECT_GT(commands.size(), 20u);
  for (const std::string& command : commands) {
    const ProgramResult help = run_program(command + " --help");
    EXPECT_EQ(help.status, 0) << command;
    for (const std::string& line : lines_in(help.output)) EXPECT_LE(line.size(), kColumns) << command << ": " << line;
  }
}

TEST(Help, SlipsAreAnsweredWithWhatWasMeant) {
  const struct {
    const char *arguments, *answer;
  } cases[] = {
      {"trian demo", "trian is not a command; did you mean train?; see trireme --help"},
      {"xyzzy", "xyzzy is not a command; there are train, finetune, launch, generate"},
      {"data prepar x", "prepar is not a command; did you mean prepare?; see trireme data --help"},
      {"metrics --jsn", "--jsn is not an option of trireme metrics; did you mean --json?; see trireme metrics --help"},
      {"data prepare x --ouput y", "--ouput is not an option of trireme data prepare; did you mean --output?"},
      {"train demo --max_steps 3", "--max_steps is not an option of trireme train; write trainer.max_steps=3"},
      {"train demo --max-steps=3", "--max-steps is not an option of trireme train; write trainer.max_steps=3"},
      {"train demo --model.num_layers", "write model.num_layers=..."},
      {"recipes gpt3 5b", "5b: trireme recipes takes no further argument; see trireme recipes --help"},
  };
  for (const auto& one : cases) {
    const ProgramResult result = run_program(one.arguments);
    EXPECT_EQ(result.status, 2) << one.arguments;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_NE(result.output.find(one.answer), std::string::npos) << one.arguments << ": " << result.output;
  }
}

TEST(Help, OutputThatCannotBeWrittenIsAFailure) {
  for (const char* arguments : {"--help", "--version", "config demo", "config demo --json", "config --keys", "recipes",
                                "recipes --json", "completion bash", "man train"}) {
    const ProgramResult result = run_program(std::string(arguments) + " > /dev/full");
    EXPECT_EQ(result.status, 1) << arguments;
    EXPECT_NE(result.output.find("stdout cannot be written"), std::string::npos) << arguments << ": " << result.output;
  }
}

// What the hidden command offers for the last of these words.
std::string candidates(const std::string& words, const std::string& folder = ".") {
  return run_shell("cd " + folder + " && " + TRIREME_BINARY + " complete -- " + words).output;
}

TEST(Completion, OffersCommandsOptionsRecipesKeysAndValues) {
  EXPECT_NE(candidates("tr").find("train\tTrain a model."), std::string::npos);
  EXPECT_EQ(candidates("data pre").substr(0, 8), "prepare\t");
  EXPECT_NE(candidates("train --res").find("--resume\t"), std::string::npos);
  EXPECT_NE(candidates("train gpt3/12").find("gpt3/126m"), std::string::npos);
  EXPECT_NE(candidates("train demo trainer.max_st").find("trainer.max_steps=\t"), std::string::npos);
  EXPECT_EQ(candidates("train demo model.bias=t"), "model.bias=true\n");
  EXPECT_EQ(candidates("train demo no.such.key="), "");
  EXPECT_EQ(candidates("report x --output ''"), "");
}

TEST(Completion, OffersTheFoldersOfRuns) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "runs/demo/first");
  std::filesystem::create_directories(folder / "runs/demo/not-a-run");
  std::ofstream(folder / "runs/demo/first/recipe.yaml") << "{}\n";
  EXPECT_EQ(candidates("metrics ''", (folder / ".").string()), "runs/demo/first\n");
}

TEST(Completion, WorksInBash) {
  const std::string source = std::string("source <(") + TRIREME_BINARY + " completion bash); PATH=$PATH:" TRIREME_BINARY_DIR "; ";
  const auto completed = [&](const std::string& line) {
    return run_shell("bash -c '" + source + "compopt() { :; }; COMP_LINE=\"" + line +
                     "\"; COMP_POINT=${#COMP_LINE}; _trireme; echo \"${COMPREPLY[@]}\"'")
        .output;
  };
  EXPECT_EQ(completed("trireme trai"), "train\n");
  EXPECT_EQ(completed("trireme train demo trainer.max_st"), "trainer.max_steps=\n");
  EXPECT_EQ(completed("trireme train demo model.bias=t"), "true\n");  // Readline has the rest already
}

TEST(Completion, ScriptsAreReadByTheirShells) {
  const TemporaryFolder folder;
  int shells = 0;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (run_shell("command -v " + shell).status != 0) continue;
    ++shells;
    const std::string script = (folder / shell).string();
    EXPECT_EQ(run_program("completion " + shell + " > " + script).status, 0);
    const ProgramResult checked = run_shell(shell + " -n " + script);
    EXPECT_EQ(checked.status, 0) << shell << ": " << checked.output;
  }
  EXPECT_GT(shells, 0);
  EXPECT_EQ(run_program("completion tcsh").status, 2);
}

TEST(ManPages, HoldWhatTheHelpHolds) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_program("man --output " + (folder / "man1").string()).status, 0);
  for (const std::string& command : all_commands()) {
    std::string name = command.empty() ? "trireme" : "trireme-" + command;
    std::replace(name.begin(), name.end(), ' ', '-');
    std::ifstream file(folder / "man1" / (name + ".1"));
    ASSERT_TRUE(file) << name;
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    const std::string help = run_program(command + " --help").output;
    for (const char* option : {"--resume", "--output", "--tokenizer", "--json"}) {
      std::string escaped(option);
      escaped.replace(0, 2, "\\-\\-");
      EXPECT_EQ(help.find("  " + std::string(option) + " ") != std::string::npos,
                page.find("\\fB" + escaped + "\\fR") != std::string::npos)
          << name << " " << option;
    }
  }
  if (run_shell("command -v groff").status != 0) return;
  const ProgramResult formatted =
      run_shell("groff -man -Tutf8 -ww " + (folder / "man1/trireme-train.1").string() + " > /dev/null");
  EXPECT_EQ(formatted.output, "");
}

}  // namespace
}  // namespace trireme
