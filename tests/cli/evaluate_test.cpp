// trireme evaluate as a user calls it: its files, continuing after a kill, and a line for every mistake.
#include "evaluate/evaluation_fixture.h"

namespace trireme {
namespace {

class Evaluate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = std::make_unique<TemporaryFolder>();
    make_evaluated_run(shared_->path());
  }
  static void TearDownTestSuite() { shared_.reset(); }

  static ProgramResult evaluate(const std::string& options, const std::string& model = (*shared_ / "run").string()) {
    return run_program(fmt::format("evaluate {} --threads 1 --data {}/data {}", model, kEvaluationTests.string(), options));
  }

  // One line, with status 2, that has these words.
  static void refuses(const ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_NE(result.output.find(words), std::string::npos) << result.output;
  }
  void refuses_task(const std::string& text, const std::string& words) {
    folder_.write("task.yaml", text);
    refuses(evaluate("--tasks " + (folder_ / "task.yaml").string()), words);
  }

  static inline std::unique_ptr<TemporaryFolder> shared_;
  TemporaryFolder folder_;
};

TEST_F(Evaluate, ListsTheTasks) {
  const ProgramResult list = evaluate("--list --json");
  ASSERT_EQ(list.status, 0);
  const nlohmann::json tasks = nlohmann::json::parse(list.output);
  ASSERT_EQ(tasks.size(), 10u);
  for (const nlohmann::json& task : tasks) EXPECT_EQ(task["here"], true) << task;
  EXPECT_EQ(run_program("evaluate --list --data /nowhere").status, 0);
}

TEST_F(Evaluate, AUsersTaskNeedsOnlyAFile) {
  folder_.write("sums.jsonl",
                "{\"a\": 2, \"b\": 3, \"sums\": [\"4\", \"5\"]}\n\n{\"a\": 1, \"b\": 1, \"sums\": [\"2\", \"3\"]}\n");
  folder_.write("sums.yaml",
                "output_type: multiple_choice\ndataset: {file: sums.jsonl}\ndoc_to_text: '{{a}} + {{b}} ='\ndoc_to_choice: sums\n"
                "label: '0'\nmetric_list: [{metric: acc}, acc_bytes]\n");
  const ProgramResult result = run_program(fmt::format("evaluate {0}/run --data {1} --tasks {1}/sums.yaml --json --threads 1",
                                                       shared_->path().string(), folder_.path().string()));
  ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["n-samples"]["sums"]["effective"], 2);
  EXPECT_TRUE(json["results"]["sums"]["acc_bytes,none"].is_number());
}

TEST_F(Evaluate, ContinuesAfterAKill) {
  const std::string output = (folder_ / "scores").string(), options = "--tasks piqa,race --output " + output;
  ASSERT_EQ(evaluate(options).status, 0);
  const nlohmann::json expected = read_json(only_file(output, "results_"))["results"];
  for (const auto& entry : std::filesystem::directory_iterator(output))
    EXPECT_FALSE(entry.path().filename().string().starts_with("progress_")) << "removed when the results are there";

  // As a kill leaves it: the scores of some requests, the last one incomplete. One is changed, to see that it is not made again.
  std::filesystem::remove_all(output);
  const ProgramResult killed =
      run_shell(fmt::format("ulimit -f 1; {} evaluate {}/run --threads 1 --data {}/data {} --batch-tokens 1", TRIREME_BINARY,
                            shared_->path().string(), kEvaluationTests.string(), options));
  EXPECT_EQ(killed.status, 1) << killed.output;
  const std::filesystem::path progress = std::filesystem::path(output) / "progress_piqa.jsonl";
  ASSERT_TRUE(std::filesystem::exists(progress));
  std::string kept = read_file(progress, 1 << 20);
  const size_t third = kept.find('\n', kept.find('\n', kept.find('\n') + 1) + 1) + 1;
  kept = kept.substr(0, third) + "[5,-1";
  atomic_write(progress, bytes_of(kept));
  const ProgramResult again = evaluate(options);
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_NE(again.output.find("piqa: 2 of 8 requests were scored before"), std::string::npos) << again.output;
  EXPECT_EQ(read_json(only_file(output, "results_"))["results"], expected);

  atomic_write(progress, bytes_of("{\"scores_of\": \"something else\"}\n[0,-1,1]\n"));
  const ProgramResult other = evaluate(options);
  EXPECT_NE(other.output.find("something else are dropped"), std::string::npos) << other.output;
}

TEST_F(Evaluate, LimitTakesTheFirstDocuments) {
  const ProgramResult result = evaluate("--tasks hellaswag,race,wikitext2,piqa --limit 1 --json");
  ASSERT_EQ(result.status, 0) << result.output;
  for (const auto& [task, count] : nlohmann::json::parse(result.output)["n-samples"].items())
    EXPECT_EQ(count["effective"], 1) << task;
}

TEST_F(Evaluate, SaysWhatIsWrongInOneLine) {
  refuses(evaluate("--tasks helaswag"), "task helaswag is not known; did you mean hellaswag?");
  refuses(evaluate("--tasks piqa,piqa"), "--tasks: piqa is there twice");
  refuses(evaluate(""), "name tasks with --tasks");
  refuses(run_program("evaluate --tasks piqa"), "name a checkpoint");
  refuses(evaluate("--tasks piqa", "/nowhere"), "/nowhere");
  const std::string run = (*shared_ / "run").string();
  refuses(run_program("evaluate " + run + " --tasks piqa --data /nowhere"), "/nowhere is not a folder that can be read");
  refuses(run_program(fmt::format("evaluate {} --tasks piqa --data {}", run, folder_.path().string())),
          "physicaliqa-train-dev/dev.jsonl, which is missing; get it with: trireme data fetch https://");
  refuses(evaluate("--tasks piqa --tensor-parallel 3"), "tensor_model_parallel_size=3 does not divide");
  refuses(evaluate("--tasks piqa --tensor-parallel 2"), "need a multiple of 2 ranks, and 1 were started");
  refuses(evaluate("--tasks piqa --max-length 100"), "--max-length 100: the model has 80 positions");
  refuses(evaluate("--tasks piqa --prefix-token 512"), "this model knows the tokens 0 to 511");
  folder_.write("large.json", "{}");
  refuses(evaluate("--tasks piqa --tokenizer " + (folder_ / "large.json").string()), "large.json");
  const ProgramResult larger =
      run_program(fmt::format("data train-tokenizer {}/recipes/demo-text/tales.txt --vocab-size 600 --output {}",
                              TRIREME_SOURCE_DIR, (folder_ / "tokens").string()));
  ASSERT_EQ(larger.status, 0) << larger.output;
  refuses(evaluate("--tasks piqa --tokenizer " + (folder_ / "tokens").string()),
          "the tokenizer has 600 tokens and the model 512");
}

TEST_F(Evaluate, FewShotsNeedExamples) {
  refuses(evaluate("--tasks piqa --num-fewshot 5"), "task piqa draws 6 examples at once, and ");
  refuses(evaluate("--tasks race --num-fewshot 4"), "draws 4 examples at once");
  refuses(evaluate("--tasks piqa --add-bos-token true"), "--add-bos-token true: the tokenizer names no such token");
  std::filesystem::copy(kEvaluationTests / "data/physicaliqa-train-dev", folder_ / "physicaliqa-train-dev");
  std::filesystem::remove(folder_ / "physicaliqa-train-dev/train.jsonl");
  refuses(run_program(fmt::format("evaluate {}/run --tasks piqa --num-fewshot 1 --data {}", shared_->path().string(),
                                  folder_.path().string())),
          "physicaliqa-train-dev/train.jsonl, which is missing; get it with: trireme data fetch https://");
  const ProgramResult shots = evaluate("--tasks piqa,wikitext2 --num-fewshot 2 --json");
  ASSERT_EQ(shots.status, 0) << shots.output;
  EXPECT_EQ(nlohmann::json::parse(shots.output)["n-shot"], (nlohmann::json{{"piqa", 2}, {"wikitext2", 0}}));
}

TEST_F(Evaluate, RefusesTaskFilesThatAreWrong) {
  const std::string dataset = "dataset: {file: physicaliqa-train-dev/dev.jsonl}\n",
                    good = "output_type: multiple_choice\n" + dataset +
                           "doc_to_text: a\ndoc_to_choice: ['{{sol1}}', b]\nlabel: '0'\n";
  refuses_task("[1]", "a task has keys");
  refuses_task("output_type: multiple_choice\nmetric_list: [acc]\n", "dataset is missing");
  refuses_task(good, "metric_list is missing");
  refuses_task(good + "metric_list: [acc]\ndoc_to_txt: b\n", "doc_to_txt is not a key of a task; did you mean doc_to_text?");
  refuses_task(good + "metric_list: [perplexity]\n",
               "perplexity is not a metric of multiple_choice; use acc, acc_norm, acc_bytes");
  refuses_task("output_type: generate_until\n" + dataset, "generate_until is not known");
  refuses_task("output_type: loglikelihood\nmetric_list: [acc]\ndoc_to_text: a\n" + dataset, "doc_to_target is missing");
  refuses_task("output_type: multiple_choice\ndataset: {files: x}\n", "dataset.files is not a key of a task");
  refuses_task(good + "metric_list: [acc]\nfewshot_leaves_out: perhaps\n", "fewshot_leaves_out: expected true or false");
  refuses_task(good + "metric_list: [acc]\nfilters: {doc_to_text: [{replace: a}]}\n",
               "filter replace takes 2 arguments, and here are 1");
  refuses_task("output_type: multiple_choice\ndataset: {file: physicaliqa-train-dev/dev.jsonl, format: parquet}\n",
               "dataset.format: parquet is not known");
}

TEST_F(Evaluate, RefusesDatasetsThatAreWrong) {
  const auto task = [&](const std::string& file) {
    return "output_type: multiple_choice\ndataset: {file: " + file +
           "}\ndoc_to_text: '{{q}}'\ndoc_to_choice: options\nlabel: '{{right}}'\n"
           "metric_list: [acc]\n";
  };
  const auto refuses_file = [&](const std::string& text, const std::string& words) {
    folder_.write("d.jsonl", text);
    folder_.write("task.yaml", task("d.jsonl"));
    refuses(run_program(fmt::format("evaluate {0}/run --threads 1 --data {1} --tasks {1}/task.yaml", shared_->path().string(),
                                    folder_.path().string())),
            words);
  };
  refuses_file("", "has no documents");
  refuses_file("{\"q\": 1\n", "d.jsonl, line 1: not JSON");
  refuses_file("PAR1\x15\x04", "is a parquet file, which is not read here; write it as JSON lines");
  refuses_file("[1, 2]", "d.jsonl, document 1: expected an object");
  refuses_file("{\"q\": \"a\", \"options\": [\"b\"], \"right\": 0}\n{\"question\": \"a\"}\n",
               "d.jsonl, line 2: there is no field options; it has question (task task)");
  refuses_file("{\"q\": \"a\", \"options\": [\"b\"], \"right\": 1}\n", "the label \"1\" is not one of its 1 choices");
  refuses_file("{\"q\": \"a\", \"options\": \"b\", \"right\": 1}\n", "field options is not a list");
  refuses_file("{\"q\": \"a\", \"options\": [], \"right\": 1}\n", "there are no choices");
  refuses_file("{\"q\": \"a\", \"options\": [\"" + std::string(400, 'z') + "\"], \"right\": 0}\n", "and the model reads 80");
  std::filesystem::create_directory(folder_ / "folder");
  folder_.write("task.yaml", task("folder"));
  refuses(run_program(fmt::format("evaluate {0}/run --data {1} --tasks {1}/task.yaml", shared_->path().string(),
                                  folder_.path().string())),
          "is a folder, and task task reads a file");
}

}  // namespace
}  // namespace trireme
