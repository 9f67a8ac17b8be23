// trireme evaluate: scores a model on tasks.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/choice_option.h"
#include "cli/command.h"
#include "comm/control.h"
#include "config/validate_layout.h"
#include "evaluate/model_tokenizer.h"
#include "evaluate/results.h"

namespace trireme {
namespace {

struct EvaluateArguments {
  std::string model;
  std::vector<std::string> tasks;
  std::string data = "evaluation-data";
  std::string output;
  std::string tokenizer;
  int64_t limit = 0;
  int64_t batch_tokens = 0, most_tokens = 0;
  int64_t prefix = -1;
  int64_t shots = 0;
  uint64_t fewshot_seed = FewShot{}.seed;
  std::string adds_begin;  // "", true, false
  int64_t tp = 1, pp = 1;
  int64_t threads = 0;
  std::string precision, backend;
  bool list = false;
  bool json = false;
};

int list_tasks(const EvaluateArguments& arguments) {
  const std::vector<Task> tasks = load_tasks(arguments.tasks.empty() ? shipped_tasks() : arguments.tasks, "--tasks");
  std::error_code failed;
  const bool has_data = std::filesystem::is_directory(arguments.data, failed);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Task& task : tasks) {
    std::vector<std::string> metrics;
    for (const Metric metric : task.metrics) metrics.emplace_back(name_of(metric));
    const bool is_there = has_data && missing_files(task, arguments.data).empty();
    if (!arguments.json)
      fmt::print("{:<14} {:<22} {}{}\n{:14} {}\n", task.name, name_of(task.kind), task.dataset.file,
                 is_there ? "" : " (not here)", "", fmt::join(metrics, ", "));
    json.push_back({{"task", task.name},
                    {"summary", task.summary},
                    {"output_type", name_of(task.kind)},
                    {"metrics", metrics},
                    {"file", task.dataset.file},
                    {"from", task.dataset.from},
                    {"here", is_there},
                    {"path", task.path.string()}});
  }
  if (arguments.json) print_json(json);
  return kDone;
}

// The settings of the model for these ranks. Its own layout and precision were for training.
Settings settings_for(const EvaluateArguments& arguments, const ModelSource& source, const World& world) {
  Settings settings = source.settings;
  settings.model = for_scoring(settings.model);
  ModelSettings& model = settings.model;
  model.tensor_model_parallel_size = arguments.tp;
  model.pipeline_model_parallel_size = arguments.pp;
  settings.trainer.threads = arguments.threads;
  if (!arguments.precision.empty()) settings.trainer.precision = arguments.precision == "32" ? Precision::f32 : Precision::bf16;
  for (const auto& [name, kind] : {std::pair{"cpu", BackendKind::cpu}, std::pair{"cuda", BackendKind::cuda},
                                   std::pair{"reference", BackendKind::reference}, std::pair{"auto", BackendKind::automatic}})
    if (arguments.backend == name) settings.trainer.backend = kind;
  validate_layout(model);
  if (const int64_t ranks = arguments.tp * arguments.pp; world.size() % ranks != 0)
    throw UserError("--tensor-parallel {} and --pipeline-parallel {} need a multiple of {} ranks, and {} were started",
                    arguments.tp, arguments.pp, ranks, world.size());
  return settings;
}

int64_t most_tokens_of(const EvaluateArguments& arguments, const ModelSettings& model) {
  const bool is_learned = model.position_embedding_type == PositionEmbedding::learned_absolute;
  const int64_t most = model.max_position_embeddings;
  if (arguments.most_tokens > most && is_learned)
    throw UserError("--max-length {}: the model has {} positions", arguments.most_tokens, most);
  return arguments.most_tokens > 0 ? arguments.most_tokens : most;
}

int32_t prefix_of(const EvaluateArguments& arguments, const ModelTokenizer& tokenizer, int64_t vocabulary) {
  if (const int64_t tokens = tokenizer.tokenizer->vocabulary(); tokens > vocabulary)
    throw UserError("the tokenizer has {} tokens and the model {}: they do not belong together; name another with --tokenizer",
                    tokens, vocabulary);
  const int64_t prefix = arguments.prefix >= 0 ? arguments.prefix : tokenizer.prefix();
  if (prefix < 0)
    throw UserError(
        "the tokenizer has no token that ends documents; give the number of the token that texts begin with: "
        "--prefix-token N");
  if (prefix >= vocabulary) throw UserError("--prefix-token {}: this model knows the tokens 0 to {}", prefix, vocabulary - 1);
  return narrow<int32_t>(prefix);
}

// What the tokenizer puts before every text.
std::optional<int32_t> begin_of(const EvaluateArguments& arguments, const BeginToken& begin) {
  if (arguments.adds_begin == "false" || (arguments.adds_begin.empty() && !begin.is_added)) return std::nullopt;
  if (!begin.id)
    throw UserError("--add-bos-token true: the tokenizer names no such token; tokenizer_config.json has it as bos_token");
  return begin.id;
}

// One line on a terminal, redrawn; nothing elsewhere.
class ScoringProgress {
 public:
  ScoringProgress() : shown_(detect_terminal(STDERR_FILENO).interactive) {}
  ~ScoringProgress() { clear(); }

  void operator()(const std::string& task, int64_t done, int64_t of) {
    if (!shown_) return;
    if (task != task_) task_ = task, watch_.emplace();
    const double seconds = watch_->seconds(), rate = static_cast<double>(done) / seconds;
    fmt::print(stderr, "\r\033[K{} {:3.0f}%  {:.0f} requests/s  {} left", task,
               100.0 * static_cast<double>(done) / static_cast<double>(std::max<int64_t>(of, 1)), rate,
               format_duration(rate > 0 ? static_cast<double>(of - done) / rate : 0));
    std::fflush(stderr);
    drawn_ = true;
  }
  void clear() {
    if (std::exchange(drawn_, false)) fmt::print(stderr, "\r\033[K");
  }

 private:
  bool shown_, drawn_ = false;
  std::string task_;
  std::optional<Stopwatch> watch_;
};

double now() { return static_cast<double>(system_clock().unix_microseconds()) * 1e-6; }

int evaluate_on(World& world, const EvaluateArguments& arguments) {
  const bool is_first = world.rank() == 0;
  const auto tell = [&](const std::string& line) {
    if (is_first) fmt::print(stderr, "{}\n", line);
  };
  EvaluationRequest request{.tasks = load_tasks(arguments.tasks, "--tasks"),
                            .data = arguments.data,
                            .output = arguments.output,
                            .limit = arguments.limit,
                            .shots = {.count = arguments.shots, .seed = arguments.fewshot_seed}};
  require_files(request);
  const ModelSource source = open_model_source(arguments.model);
  for (const std::string& note : source.notes) tell("warning: " + note);
  const Settings settings = settings_for(arguments, source, world);
  const ModelTokenizer tokenizer = open_model_tokenizer(source, arguments.tokenizer);
  request.prefix = prefix_of(arguments, tokenizer, settings.model.vocab_size);
  request.begin = begin_of(arguments, tokenizer.begin);
  request.most_tokens = most_tokens_of(arguments, settings.model);
  EvaluationFacts facts{.model = arguments.model,
                        .dtype = name_of(activation_dtype(settings.trainer.precision)),
                        .limit = arguments.limit,
                        .fewshot_seed = arguments.fewshot_seed,
                        .most_tokens = request.most_tokens,
                        .ranks = world.size(),
                        .step = source.step,
                        .parameters = source.parameters(),
                        .start = now()};
  ScoringModel model(source, settings, world);
  facts.device = model.backend().description();
  constexpr int64_t kOnHost = 4096, kOnDevice = 32768;
  const bool is_device = !model.backend().device_name().empty();
  request.batch_tokens = facts.batch_tokens = arguments.batch_tokens > 0 ? arguments.batch_tokens
                                              : is_device                ? kOnDevice
                                                                         : kOnHost;
  ScoringProgress progress;
  const EvaluationHooks hooks{.tell =
                                  [&](const std::string& line) {
                                    progress.clear();
                                    tell(line);
                                  },
                              .progress = [&](const std::string& task, int64_t done, int64_t of) { progress(task, done, of); }};
  const std::string identity = fmt::format("{} {} {}", source.identity, facts.dtype, request.most_tokens);
  const std::vector<TaskResult> results = run_evaluation(request, *tokenizer.tokenizer, identity, model, world, hooks);
  progress.clear();
  if (!is_first) return kDone;
  facts.end = now();
  std::string written;
  if (!request.output.empty()) written = write_results(request, facts, results).string();
  if (arguments.json) {
    print_json(results_json(facts, results));
    return kDone;
  }
  fmt::print("{}", results_table(results));
  if (!written.empty()) fmt::print("written  {}\n", written);
  return kDone;
}

int evaluate_model(const EvaluateArguments& arguments) {
  if (arguments.list) return list_tasks(arguments);
  if (arguments.model.empty())
    throw UserError("name a checkpoint, a run or a folder of transformers: trireme evaluate runs/demo");
  if (arguments.tasks.empty())
    throw UserError("name tasks with --tasks, such as {}; --list shows them", fmt::join(shipped_tasks(), ","));
  World world = World::find();
  try {
    return evaluate_on(world, arguments);
  } catch (const std::exception& error) {
    if (world.streams() == nullptr) throw;  // a single process
    world.leave(error);
  }
}

}  // namespace

void add_evaluate_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate",
                                         "Score a model on evaluation tasks, as EleutherAI's lm-eval defines them.\n\n"
                                         "examples:  trireme evaluate --list\n"
                                         "           trireme evaluate runs/demo --tasks piqa,wikitext2 --output scores\n"
                                         "           mpirun -n 2 trireme evaluate runs/demo --tasks lambada --limit 100\n");
  command->add_option("model", arguments->model, "a run, a checkpoint, or a folder of transformers");
  command->add_option("--tasks", arguments->tasks, "names of shipped tasks or paths of task files, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--data", arguments->data, "the folder with the files of the datasets")->capture_default_str();
  command->add_option("--output", arguments->output,
                      "the folder for results_DATE.json and samples_TASK_DATE.jsonl; an evaluation that was killed continues");
  command->add_option("--limit", arguments->limit, "only the first N documents of each task; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command->add_option("--tokenizer", arguments->tokenizer, "as for generate: where the model names none");
  command
      ->add_option("--prefix-token", arguments->prefix,
                   "the token before texts without a context; default: the end of a document")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  command
      ->add_option("--add-bos-token", arguments->adds_begin,
                   "whether the tokenizer's begin token precedes every text; default: as transformers does")
      ->check(one_of({"true", "false"}));
  command->add_option("--num-fewshot", arguments->shots, "solved examples before each question")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command->add_option("--fewshot-seed", arguments->fewshot_seed, "which examples are drawn")->capture_default_str();
  command->add_option("--max-length", arguments->most_tokens, "tokens that the model reads at once; default: all its positions")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24));
  command
      ->add_option("--batch-tokens", arguments->batch_tokens,
                   "tokens of a batch, padding included; default: 4096, on a GPU 32768")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command->add_option("--tensor-parallel", arguments->tp, "ranks that share each layer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--pipeline-parallel", arguments->pp, "stages that the layers are divided among; other ranks are copies")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--precision", arguments->precision, "32 or bf16; default: as the model was trained")
      ->check(one_of({"32", "bf16"}));
  command->add_option("--backend", arguments->backend, "auto, cpu, cuda or reference; default: as the model was trained")
      ->check(one_of({"auto", "cpu", "cuda", "reference"}));
  command->add_option("--threads", arguments->threads, "CPU threads; 0: all this process may use")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command->add_flag("--list", arguments->list, "list the tasks, and which of their files are in the data folder");
  command->add_flag("--json", arguments->json, "print the results as JSON");
  command->callback([arguments, &status] { status = evaluate_model(*arguments); });
}

}  // namespace trireme
