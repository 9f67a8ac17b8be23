// The pages of docs/from, run on this machine: the folder that their reader has, and a program on the path that differs from what
// a reader types in a few things, which the script below says.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/documented_commands.h"
#include "cli/run_program.h"

namespace trireme {

// What differs: models are made small, bf16 and of CPU ranks, layouts keep their form; a machine with eight GPUs is only
// described for what is bound to it, and then the same run starts unbound; downloads come from a folder; a server takes any port
// and ends when it has printed its address; without a cluster a launch on one is a --dry-run.
inline constexpr std::string_view kMovingProgram = R"(#!/bin/sh
one_line() { echo "$@"; }
small=$(one_line trainer.backend=cpu trainer.threads=1 model.fp8=false model.hidden_size=64 model.ffn_hidden_size=128 \
  model.num_attention_heads=8 model.encoder_seq_length=16 model.max_position_embeddings=16)
one_rank=$(one_line model.tensor_model_parallel_size=1 model.pipeline_model_parallel_size=1 \
  model.virtual_pipeline_model_parallel_size=null model.num_layers=2 model.sequence_parallel=false model.micro_batch_size=1 \
  model.global_batch_size=16)
describe() {
  CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 HWLOC_XMLFILE=$HOME_OF_PAGES/machine.xml HWLOC_THISSYSTEM=0 TRIREME "$@" --dry-run > dry-run.txt || exit
}
without_binding() {
  words=""
  while [ $# -gt 0 ]; do
    case "$1" in
      --map-by | --bind-to | --gpus | --gpu) shift ;;
      --report-bindings | --nsys) ;;
      *) words="$words '$1'" ;;
    esac
    shift
  done
}
case "$1 $2 $3" in
  "launch local pythia/"*)
    exec TRIREME "$@" $small batch_size=2 micro_batch_size=1 trainer.max_steps=10 trainer.limit_val_batches=1 ;;
  "launch local "*)
    case " $* " in *" --map-by "*) describe "$@" ;; esac
    without_binding "$@"
    eval "exec TRIREME $words $small model.num_layers=12 model.vocab_size=256 model.global_batch_size=2" \
      'model.virtual_pipeline_model_parallel_size=3' ;;
  "launch slurm "*)
    if [ -z "$SLURM_CONF" ]; then exec TRIREME "$@" --dry-run; fi
    without_binding "$@"
    words=$(echo "$words" | sed "s|'ndmv4'|'main'|; s|'data/pile'|'pile.yaml'|; s|'/[a-z]*/pile'|'pile'|")
    eval "exec TRIREME $words $small $one_rank model.vocab_size=512 --ranks 1 --time 10 model.data.data_impl=mock" ;;
  "validate slurm "*)
    eval "exec TRIREME $(echo "$*" | sed 's/ndmv4/main/') --quick" ;;
  "launch kubernetes "*)
    case " $* " in *" --dry-run "*) exec TRIREME "$@" ;; esac
    exec TRIREME "$@" --dry-run ;;
  "data run data/pile") exec TRIREME "$@" --url "$HOME_OF_PAGES/mirror" download_vocab_url="$HOME_OF_PAGES/gpt2/vocab.json" \
    download_merges_url="$HOME_OF_PAGES/gpt2/merges.txt" ;;
  "data run data/openwebtext") exec TRIREME "$@" --url "$HOME_OF_PAGES/mirror" \
    download_tokenizer_url="$HOME_OF_PAGES/gpt2/tokenizer.json" ;;
  "serve "*)
    TRIREME serve "$2" --port 0 > serve.out & server=$!
    until [ -s serve.out ] || ! kill -0 $server 2> /dev/null; do sleep 0.05; done
    kill -INT $server 2> /dev/null
    wait $server
    exit ;;
esac
exec TRIREME "$@"
)";

class MovingFolder {
 public:
  explicit MovingFolder(const std::filesystem::path& path) : path_(path) {
    namespace fs = std::filesystem;
    std::string program(kMovingProgram);
    for (size_t at = program.find("TRIREME "); at != program.npos; at = program.find("TRIREME ", at + 1))
      program.replace(at, 7, TRIREME_BINARY);
    write("build/trireme", program);
    fs::permissions(path_ / "build/trireme", fs::perms::owner_all);
    write("machine.xml", machine());
    fs::create_directory_symlink(TRIREME_SOURCE_DIR "/charts", path_ / "charts");
    fs::copy(TRIREME_SOURCE_DIR "/tests/data/golden/dllogger-gpt3-175b.json", path_ / "dllogger.json");
    write_recipes();
    write_mirror();
  }

  const std::filesystem::path& path() const { return path_; }

  // The words before a command that make it one of this folder.
  std::string environment() const {
    return fmt::format(
        "cd {0} && env HOME_OF_PAGES={0} TRIREME_RECIPES={1}/recipes OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
        path_.string(), TRIREME_SOURCE_DIR);
  }

  // A script with the words of a command.
  std::string script_of(const DocumentedCommand& command) const {
    write("command.sh", command.text + "\n");
    return (path_ / "command.sh").string();
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

  // The files of other systems that the pages name, with a few of their keys.
  void write_recipes() const {
    write("gpt3_proxy_hydra.yaml",
          "hydra: {searchpath: ['file:///opt/NeMo/examples/nlp/language_modeling/conf']}\nextends: proxy/h200\n"
          "run: {name: gpt3_175b, results_dir: /results/175b/16}\n");
    write("gpt3-175b-256gpus-fp8.yaml", "extends: gpt3/175b-256gpus-fp8\n");
    write("pile.yaml", fmt::format("extends: data/pile\ndownload_url: {0}/mirror\ndownload_vocab_url: {0}/gpt2/vocab.json\n"
                                   "download_merges_url: {0}/gpt2/merges.txt\n",
                                   path_.string()));
    write("conf/config.yaml",
          "defaults: [_self_, training: gpt3/126m]\ndata_dir: ???\nrun_data_preparation: False\nrun_training: True\n"
          "run_conversion: False\nrun_finetuning: False\nrun_evaluation: False\nbignlp_path: ???\n"
          "base_results_dir: ${bignlp_path}/results\nenv_vars: {NCCL_IB_TIMEOUT: 22}\n");
    write("conf/training/gpt3/126m.yaml",
          "trainer: {num_nodes: 8, devices: 8, precision: bf16, max_steps: 600000}\n"
          "exp_manager: {explicit_log_dir: '${base_results_dir}/run'}\n"
          "model: {micro_batch_size: 4, global_batch_size: 256, encoder_seq_length: 2048, max_position_embeddings: 2048,\n"
          "  num_layers: 12, hidden_size: 768, num_attention_heads: 12, vocab_size: 50257, data: {data_impl: mock}}\n");
  }

  // Of the downloads: small files of the same names.
  void write_mirror() const {
    std::string documents;
    for (int i = 0; i < 300; ++i) documents += fmt::format("{{\"text\": \"document {} of a small pile of words\"}}\n", i);
    write("mirror/00.jsonl", documents);
    const ProgramResult made = run_shell(
        fmt::format("cd {}/mirror && {} data train-tokenizer 00.jsonl --vocab-size 300 --output ../gpt2 && zstd -q 00.jsonl && "
                    "for i in $(seq -w 1 29); do cp 00.jsonl.zst $i.jsonl.zst; done && rm 00.jsonl && "
                    "echo a page of text > 1.txt && tar cJf 1.xz 1.txt && "
                    "for i in $(seq -w 0 20); do tar cf urlsf_subset$i.tar 1.xz; done && "
                    "cd .. && mkdir openwebtext && {} data prepare mirror/00.jsonl.zst mirror/01.jsonl.zst "
                    "--tokenizer gpt2/vocab.json --format flat --validation 0.2 --output openwebtext",
                    path_.string(), TRIREME_BINARY, TRIREME_BINARY));
    if (made.status != 0) throw std::runtime_error(made.output);
  }

  // As hwloc describes two sockets of 32 cores with four GPUs each.
  static std::string machine() {
    constexpr int kSockets = 2, kCores = 32, kGpus = 4;
    constexpr uint64_t kAll = (uint64_t{1} << kCores) - 1;
    const auto set_of = [](uint64_t low, uint64_t high) { return fmt::format("0x{:08x},0x{:08x}", high, low); };
    int number = 0;
    const auto object = [&](const char* type, int index, const std::string& cpus, const std::string& nodes) {
      std::string text = fmt::format("<object type=\"{}\" os_index=\"{}\"", type, index);
      for (const char* name : {"cpuset", "complete_cpuset"}) text += fmt::format(" {}=\"{}\"", name, cpus);
      for (const char* name : {"nodeset", "complete_nodeset"}) text += fmt::format(" {}=\"{}\"", name, nodes);
      if (std::string_view(type) == "Machine") text += fmt::format(" allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"", cpus, nodes);
      return text + fmt::format(" gp_index=\"{}\"", ++number);
    };
    std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology version=\"2.0\">\n";
    xml += object("Machine", 0, set_of(kAll, kAll), "0x00000003") + ">\n";
    for (int socket = 0; socket < kSockets; ++socket) {
      const auto half = [&](uint64_t cpus) { return socket == 0 ? set_of(cpus, 0) : set_of(0, cpus); };
      const std::string nodes = fmt::format("0x{:08x}", 1 << socket);
      xml += object("Package", socket, half(kAll), nodes) + ">\n" + object("NUMANode", socket, half(kAll), nodes) +
             "><page_type size=\"4096\" count=\"0\"/></object>\n";
      for (int core = 0; core < kCores; ++core) {
        const int index = socket * kCores + core;
        const std::string cpus = half(uint64_t{1} << core);
        xml += object("Core", index, cpus, nodes) + ">" + object("PU", index, cpus, nodes) + "/></object>\n";
      }
      xml += fmt::format(
          "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[{:02x}-{:02x}]\">\n",
          ++number, 0x80 * socket, 0x80 * socket + 0x7f);
      for (int gpu = 0; gpu < kGpus; ++gpu)
        xml += fmt::format(
            "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"0000:{:02x}:00.0\" pci_type=\"0302 [10de:2335] [10de:18be] a1\" "
            "pci_link_speed=\"0.000000\"/>\n",
            ++number, 0x80 * socket + 0x10 * (gpu + 1));
      xml += "</object>\n</object>\n";
    }
    return xml + "</object>\n</topology>\n";
  }

  std::filesystem::path path_;
};

}  // namespace trireme
