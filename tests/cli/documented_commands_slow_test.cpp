// Every command of README, docs and --help is run, in a folder that holds the files they name, page by page in their order. Only
// five things differ from what a reader types: training stops after a few steps, a machine is measured quickly, models that do
// not fit here are not trained but checked with --dry-run, mpirun may share cores, and a server takes any port and ends when it
// has printed its address.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string_view>

#include "cli/documented_commands.h"
#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// What cannot be run here, by a part of its text, and why.
const std::map<std::string, std::string> kLeftOut = {
    {"trireme data prepare INPUT", "a synopsis"},
    {"srun ", "needs Slurm"},
    {"trireme-0.1.0-linux-x86_64/bin/", "needs the package; package_slow_test trains from one"},
    {"podman run", "needs the image; image_slow_test trains in one"},
    {"sbatch ", "needs Slurm"},
    {"launch slurm my.yaml", "needs Slurm; slurm_run_slow_test.cpp runs this page"},
    {"launch slurm gpt3/5b", "needs Slurm"},
    {"validate slurm ", "needs Slurm; slurm_validate_slow_test checks nodes of one"},
    {"launch --status first", "as above"},
    {"launch --logs first", "as above"},
    {"launch --fetch first", "as above"},
    {"launch --stop first", "as above"},
    {"MASTER_ADDR=node1", "needs a second machine"},
    {"huggingface.co", "needs the network"},
    {"s3://", "needs a bucket"},
    {"gs://", "needs a bucket"},
    {"https://", "needs the network"},
    {"http://127.0.0.1", "needs a server"},
    {"trireme data run data/", "needs the network"},
    {"trainer.backend=cuda", "needs a GPU"},
    {"--tokenizer gpt2/", "needs the vocabulary of GPT-2"},
    {" ... ", "an abbreviation"},
    {"trireme 0.1.0 ", "output, not a command"},
    {"next    trireme ", "output, not a command"},
    {"bench/gpu/recipes/", "needs a GPU"},
    {"train pythia/1b", "its answer depends on the memory of the machine"},
    {"import llama-3-8b", "needs a model of others"},
    {"import downloaded.nemo", "needs a hostile archive; torch_pickle_test makes such"},
    {"man -l", "needs man"},
    {"completion fish", "needs fish"},
    {"completion zsh", "needs zsh"},
};

// Put before the program on the path: makes runs short, and checks large models without training them.
constexpr std::string_view kWrapper = R"(#!/bin/sh
if [ "$1" = train ] && [ -z "$AS_TYPED" ]; then
  case "$2 $3" in
    demo*|my.yaml*|small.yaml*|imported/recipe.yaml*)
      case " $* " in *" --resume "*) steps=6 ;; *) steps=3 ;; esac
      set -- "$@" trainer.max_steps=$steps ;;
    gpt3/126m*) set -- "$@" --dry-run trainer.max_steps=100 ;;
    *) set -- "$@" --dry-run ;;
  esac
fi
[ "$1" != finetune ] || [ -n "$AS_TYPED" ] || set -- "$@" trainer.max_steps=3
case "$1 $2 " in
  "plan --measure ") set -- "$@" --quick ;;
esac
case "$1 $2 $3 " in
  "launch local demo "*)
    case " $* " in *" --resume "*) steps=6 ;; *) steps=3 ;; esac
    [ -n "$AS_TYPED" ] || set -- "$@" trainer.max_steps=$steps ;;
esac
if [ "$1" = serve ] && [ -z "$AS_TYPED" ]; then
  words=""
  while [ $# -gt 0 ]; do
    if [ "$1" = --port ]; then shift; else words="$words $1"; fi
    shift
  done
  rm -f serve.out
  TRIREME $words --port 0 > serve.out & server=$!
  until [ -s serve.out ] || ! kill -0 $server 2> /dev/null; do sleep 0.05; done
  kill -INT $server 2> /dev/null
  wait $server
  exit
fi
exec TRIREME "$@"
)";

// With every number replaced, since sizes and processes differ from machine to machine.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit) out += c;
    if (is_digit && !out.ends_with('#')) out += '#';
  }
  return out;
}

class DocumentedCommands : public testing::Test {
 protected:
  // A folder with everything that the pages name; made once, copied for each page.
  static void SetUpTestSuite() {
    workplace_ = std::make_unique<TemporaryFolder>();
    const fs::path home = workplace_->path() / "home";
    fs::create_directories(home / "build");
    fs::create_directories(workplace_->path() / "bin");
    std::string wrapper(kWrapper);
    constexpr std::string_view kProgram = "TRIREME ";
    for (size_t at = wrapper.find(kProgram); at != wrapper.npos; at = wrapper.find(kProgram))
      wrapper.replace(at, kProgram.size() - 1, TRIREME_BINARY);
    write(workplace_->path() / "bin/trireme", wrapper);
    fs::permissions(workplace_->path() / "bin/trireme", fs::perms::owner_all);
    fs::create_symlink(workplace_->path() / "bin/trireme", home / "build/trireme");
    fs::create_directory_symlink(fs::path(TRIREME_SOURCE_DIR) / "bench", home / "bench");
    fs::copy(fs::path(TRIREME_SOURCE_DIR) / "tests/evaluate/data", home / "evaluation-data", fs::copy_options::recursive);
    fs::create_directories(home / "other-data");
    fs::copy(fs::path(TRIREME_SOURCE_DIR) / "tests/train/finetune/chats.jsonl", home / "chats.jsonl");
    for (const char* name : {"README.md", "CMakeLists.txt"}) fs::copy(fs::path(TRIREME_SOURCE_DIR) / name, home / name);
    write_texts(home);
    write_recipes(home);
    make_datasets_and_runs(home);
  }
  static void TearDownTestSuite() { workplace_.reset(); }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  static void write_texts(const fs::path& home) {
    std::string text, documents;
    for (int i = 0; i < 400; ++i) text += fmt::format("Line {} of a book that somebody wrote. It is not long.\n", i * i);
    // Enough that a share of 8 in 100,000 documents is a sample of 2,048 tokens.
    const std::string words = [] {
      std::string many;
      for (int i = 0; i < 280; ++i) many += "a word ";
      return many;
    }();
    for (int i = 0; i < 14'000; ++i) documents += fmt::format("{{\"text\": \"{} {}{}\", \"meta\": {{}}}}\n", i, words, i);
    for (const char* name : {"texts/a.txt", "books/a.txt", "books/b.txt", "my/folder/a.txt", "more.txt"})
      write(home / name, text);
    for (const char* name : {"code.jsonl", "pile/00.jsonl", "pile/01.jsonl"}) write(home / name, documents);
  }

  static void write_recipes(const fs::path& home) {
    write(home / "my.yaml", "extends: demo\n");
    write(home / "small.yaml",
          "extends: demo\nexp_manager: {name: small}\n"
          "model: {num_layers: 2, hidden_size: 32, num_attention_heads: 4, encoder_seq_length: 32, micro_batch_size: 1}\n");
    write(home / "recipe.yaml",
          "extends: demo\nmodel: {data: {data_impl: mmap, data_prefix: [a_text_document], splits_string: '90,8,2'}}\n");
    write(home / "megatron_gpt_config.yaml",
          "trainer: {devices: 1, num_nodes: 1, precision: bf16, max_steps: 100}\n"
          "model:\n"
          "  micro_batch_size: 4\n  global_batch_size: 8\n  encoder_seq_length: 512\n  max_position_embeddings: 512\n"
          "  num_layers: 12\n  hidden_size: 768\n  num_attention_heads: 12\n  vocab_size: 50257\n"
          "  data:\n    data_impl: mmap\n    data_prefix: ???\n");
    fs::copy(home / "megatron_gpt_config.yaml", home / "my/megatron_gpt_config.yaml");
    write(home / "gpt3_proxy_hydra.yaml", "extends: proxy/h200\nrun: {name: gpt3}\n");
    write(home / "conf/config.yaml",
          "defaults: [_self_, training: gpt3/5b]\ndata_dir: ???\nstages: [conversion]\nlauncher_scripts_path: ???\n"
          "base_results_dir: ${launcher_scripts_path}/results\n");
    for (const char* name : {"126m", "5b", "175b"})
      write(home / "conf/training/gpt3" / (std::string(name) + ".yaml"),
            "trainer: {num_nodes: 1, devices: 1, precision: bf16, max_steps: 100}\n"
            "exp_manager: {explicit_log_dir: '${base_results_dir}/run'}\n"
            "model: {micro_batch_size: 2, global_batch_size: 8, encoder_seq_length: 128, max_position_embeddings: 128,\n"
            "  num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 50257, data: {data_impl: mock}}\n");
  }

  static void make_datasets_and_runs(const fs::path& home) {
    const auto must = [&](const std::string& command) {
      const ProgramResult result = run_in(home, command);
      if (result.status != 0) throw std::runtime_error(command + ": " + result.output);
    };
    const std::string program = TRIREME_BINARY;  // as it is, with as many steps as are asked for
    must("trireme data prepare code.jsonl --tokenizer bytes --append-eod --output my");
    for (const char* name : {"a", "b", "part_0", "part_1", "shard_0", "data/mine"})
      for (const char* ending : {"bin", "idx"}) {
        fs::create_directories((home / name).parent_path());
        fs::copy(home / fmt::format("my_text_document.{}", ending), home / fmt::format("{}_text_document.{}", name, ending));
      }
    fs::create_directories(home / "parts");
    must("trireme data prepare code.jsonl --tokenizer bytes --format flat --output openwebtext");
    must("trireme train demo");
    must(program + " train small.yaml trainer.max_steps=40 exp_manager.explicit_log_dir=results/demo");
    for (const char* copy : {"results/gpt3_175b", "a-bf16", "b-fp8", "c-lr3e-4", "RUN", "OTHER_RUN"})
      fs::copy(home / "results/demo", home / copy, fs::copy_options::recursive);
    fs::copy(home / "results/demo/dllogger/rank-0/dllogger.json", home / "dllogger.json");
    must("tar cJf owt.tar.xz books");
    must("trireme data train-tokenizer README.md --vocab-size 512 --output gpt2");
    fs::copy(home / "gpt2/tokenizer.json", home / "tokenizer.json");
    must("trireme train small.yaml model.data.data_impl=mock model.data.data_prefix=[] exp_manager.explicit_log_dir=llama");
    must(
        "trireme train small.yaml model.activation=fast-swiglu model.position_embedding_type=rope "
        "exp_manager.explicit_log_dir=runs/improved");
  }

  static ProgramResult run_in(const fs::path& folder, const std::string& command) {
    // The pages show mpirun without what a test needs: to run as root, on few cores.
    const std::string environment =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
        "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe TRIREME_RECIPES=" TRIREME_SOURCE_DIR "/recipes";
    const fs::path script = workplace_->path() / "command.sh";
    write(script, command + "\n");
    return run_shell(fmt::format("cd {} && env PATH={}/bin:$PATH {} timeout 120 bash {} < /dev/null", folder.string(),
                                 workplace_->path().string(), environment, script.string()));
  }

  // Runs the commands of one page in a folder of their own.
  static void run_page(const std::string& page, const std::vector<DocumentedCommand>& commands) {
    const fs::path folder = workplace_->path() / "page";
    fs::remove_all(folder);
    fs::copy(workplace_->path() / "home", folder, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (const DocumentedCommand& command : commands) {
      if (!reason_to_leave_out(command.text).empty()) continue;
      const ProgramResult result = run_in(folder, (command.error.empty() ? "" : "export AS_TYPED=1\n") + command.text);
      const bool must_fail = !command.error.empty();
      EXPECT_EQ(result.status != 0, must_fail) << command.place << ": " << command.text << "\n" << result.output;
      if (must_fail) {
        EXPECT_NE(without_numbers(result.output).find(without_numbers(command.error)), std::string::npos)
            << command.place << ": " << command.text << "\nis said to answer " << command.error << "\nanswers " << result.output;
      }
    }
    EXPECT_FALSE(commands.empty()) << page;
  }

  static std::string reason_to_leave_out(const std::string& text) {
    for (const auto& [part, reason] : kLeftOut)
      if (text.find(part) != std::string::npos) return reason;
    return "";
  }

  static std::vector<DocumentedCommand> commands_of_all_help(const std::string& command) {
    const std::string help = run_program(command + " --help").output;
    std::vector<DocumentedCommand> commands = commands_of_help(help, "trireme " + command);
    bool in_list = false;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      if (in_list && line.starts_with("  ") && line[2] != ' ')
        std::ranges::copy(commands_of_all_help(command + " " + line.substr(2, line.find(' ', 2) - 2)),
                          std::back_inserter(commands));
      in_list |= line == "Subcommands:";
    }
    return commands;
  }

  static inline std::unique_ptr<TemporaryFolder> workplace_;
};

std::vector<std::string> pages() {
  std::vector<std::string> names{"README.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(TRIREME_SOURCE_DIR) / "docs"))
    if (entry.path().extension() == ".md") names.push_back("docs/" + entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST_F(DocumentedCommands, OfPagesWork) {
  for (const std::string& page : pages()) {
    const auto commands = commands_of_page(fs::path(TRIREME_SOURCE_DIR) / page, page);
    if (!commands.empty()) run_page(page, commands);
  }
}

TEST_F(DocumentedCommands, OfHelpWork) { run_page("--help", commands_of_all_help("")); }

}  // namespace
}  // namespace trireme
