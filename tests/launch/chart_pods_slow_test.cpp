// The entry point that the chart renders, executed pod by pod: processes in network namespaces, with what Kubernetes gives a pod.
#include <gtest/gtest.h>

#include <map>

#include "config/yaml.h"
#include "launch/helm.h"
#include "launch/pod_network.h"

namespace trireme {
namespace {

constexpr const char* kUid = "0f1e2d3c-aaaa-bbbb-cccc-1234567890ab";

class ChartPods : public SmallRun {
 protected:
  ChartPods() : SmallRun({.trainer = "precision: 32", .checkpoints = "every_n_train_steps: 4", .micro_batch = 1}) {}
  void SetUp() override {
    NEEDS_HELM();
    if (::geteuid() != 0 || find_program("ip").empty()) SKIP_FOR(machine) << "network namespaces need root and iproute2";
    folder_.write("bin/trireme", "");
    fs::remove(folder_ / "bin/trireme");
    fs::create_symlink(TRIREME_BINARY, folder_ / "bin/trireme");
    fs::create_directories(folder_ / "volume");
  }

  // Renders a run on a volume of this folder, and writes what pods find in their ConfigMap.
  void render(int nodes, const std::string& more = "") {
    const std::string own = folder_.path().string();
    folder_.write(
        "values.yaml",
        fmt::format("nodes: {1}\nrecipe: {{name: small}}\nrun: {{results: {0}/volume, copyTo: {0}/bucket, copySeconds: 1}}\n"
                    "workload: {{configPath: {0}/config, arguments: [trainer.max_steps=6]}}\n"
                    "volumes: {{hostMounts: [{{hostPath: {0}/volume, mountPath: {0}/volume}}]}}\n",
                    own, nodes));
    const Rendered result =
        render_chart(folder_, fmt::format("-f {0}/values.yaml --set-file recipe.text={0}/small.yaml {1}", own, more));
    ASSERT_EQ(result.status, 0) << result.errors;
    std::string text = result.manifests;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find("\n---\n", begin), text.size());
      const std::string document = text.substr(begin, end - begin);
      if (document.find("\nkind: ConfigMap") != std::string::npos) write_configuration(read_yaml(document, "ConfigMap"));
      if (document.find("\nkind: Job\n") != std::string::npos) job_ = read_yaml(document, "Job");
      begin = end + 5;
    }
  }

  void write_configuration(const Tree& map) {
    for (const Tree::Entry& file : map.find("data")->map()) folder_.write("config/" + file.key, file.value.string());
  }

  // The command of a pod, with its variables and those that Kubernetes adds.
  std::string command_of_pod(int index, const std::string& uid) const {
    const Tree& container = job_.find("spec.template.spec.containers")->list().front();
    std::string line = fmt::format("env -i PATH={}:$PATH HOME={} JOB_COMPLETION_INDEX={} JOB_UID={}", (folder_ / "bin").string(),
                                   folder_.path().string(), index, uid);
    for (const Tree& one : container.find("env")->list())
      if (const Tree* value = one.find("value")) line += " " + one.find("name")->text() + "='" + value->text() + "'";
    for (const Tree& word : container.find("command")->list()) line += " " + word.text();
    return line + fmt::format(" > {}/pod-{}.log 2>&1", folder_.path().string(), index);
  }

  pid_t start_pod(const PodNetwork& network, int index, const std::string& uid = kUid) {
    const std::string host = fmt::format("demo-{}", index);
    network.announce(index, fmt::format("{0}.demo {0}.demo.default.svc.cluster.local", host));
    return network.start(index, host, command_of_pod(index, uid));
  }

  static int wait_for(pid_t pod) {
    int status = 0;
    const bool ended = eventually([&] { return waitpid(pod, &status, WNOHANG) == pod; }, std::chrono::seconds(60));
    if (!ended) kill(pod, SIGKILL);
    EXPECT_TRUE(ended);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string logs() const {
    std::string all;
    for (int i = 0; i < 8; ++i)
      if (const fs::path log = folder_ / fmt::format("pod-{}.log", i); fs::exists(log)) all += read_file(log, 1 << 20);
    return all;
  }

  // The losses of every step, as dllogger wrote them.
  std::vector<std::string> losses(const fs::path& run) const {
    std::vector<std::string> all;
    std::ifstream file(run / "dllogger/rank-0/dllogger.json");
    for (std::string line; std::getline(file, line);)
      if (const size_t at = line.find("\"reduced_train_loss\":"); at != std::string::npos)
        all.push_back(line.substr(at, line.find(',', at) - at));
    return all;
  }

  // The same layout on this machine, started by hand.
  std::vector<std::string> local_losses(int ranks) {
    std::vector<pid_t> started;
    for (int rank = 0; rank < ranks; ++rank)
      started.push_back(start_shell(fmt::format(
          "RANK={} WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={} exec {} {} > /dev/null 2>&1", rank, ranks, port_,
          TRIREME_BINARY, train("local", fmt::format("trainer.max_steps=6 ++trainer.num_nodes={} ++trainer.devices=1", ranks)))));
    for (const pid_t process : started) EXPECT_EQ(wait_for(process), 0);
    return losses(folder_ / "local");
  }

  Tree job_;
  int port_ = 20000 + ::getpid() % 10000;
};

TEST_F(ChartPods, MeetInAnyOrderAndTrain) {
  constexpr int kPods = 3;
  render(kPods, "--set run.supervisor=false,workload.arguments[1]=model.global_batch_size=6");
  const PodNetwork network(kPods);
  if (!network.works()) SKIP_FOR(machine) << "network namespaces cannot be made here";
  std::vector<pid_t> pods;
  for (const int index : {2, 1, 0}) {  // the first pod, which the others look for, comes last
    pods.push_back(start_pod(network, index));
    ::usleep(700'000);
  }
  for (const pid_t pod : pods) EXPECT_EQ(wait_for(pod), 0) << logs();
  // The id of the run is made from the job's.
  const fs::path run = folder_ / "volume/demo-0f1e2d3c/results";
  const auto trained = losses(run);
  ASSERT_EQ(trained.size(), 6U) << logs();
  std::string recipe = text_of("small.yaml");
  recipe.replace(recipe.find("global_batch_size: 4"), 20, "global_batch_size: 6");
  folder_.write("small.yaml", recipe);
  EXPECT_EQ(trained, local_losses(kPods));
  // Everything is where the user wanted it, checkpoints included.
  EXPECT_EQ(losses(folder_ / "bucket/demo-0f1e2d3c/results"), trained);
  EXPECT_TRUE(fs::exists(folder_ / "bucket/demo-0f1e2d3c/results/checkpoints/step-00000004/manifest.json")) << logs();
}

// As the chart does it by default: a supervisor in each pod, here with two ranks each.
TEST_F(ChartPods, SupervisorsOfPodsStartTheirRanks) {
  constexpr int kPods = 2;
  render(kPods, "--set ranksPerNode=2");
  const PodNetwork network(kPods);
  if (!network.works()) SKIP_FOR(machine) << "network namespaces cannot be made here";
  const std::vector<pid_t> pods{start_pod(network, 1), start_pod(network, 0)};
  for (const pid_t pod : pods) EXPECT_EQ(wait_for(pod), 0) << logs();
  const fs::path run = folder_ / "volume/demo-0f1e2d3c";
  const auto trained = losses(run / "results");
  ASSERT_EQ(trained.size(), 6U) << logs();
  EXPECT_EQ(trained, local_losses(2 * kPods));
  EXPECT_EQ(losses(folder_ / "bucket/demo-0f1e2d3c/results"), trained);
  for (int pod = 0; pod < kPods; ++pod) EXPECT_TRUE(fs::exists(run / fmt::format("pods/pod-{}/demo/launch.json", pod)));
}

// The supervisor of the pod that is left starts its ranks again, and they meet those of the new pod.
TEST_F(ChartPods, SupervisorsWaitForTheNewPod) {
  constexpr int kPods = 2;
  render(kPods, "--set ranksPerNode=1,workload.arguments[0]=trainer.max_steps=1500");
  const PodNetwork network(kPods);
  if (!network.works()) SKIP_FOR(machine) << "network namespaces cannot be made here";
  std::vector<pid_t> pods{start_pod(network, 0), start_pod(network, 1)};
  const fs::path run = folder_ / "volume/demo-0f1e2d3c/results";
  ASSERT_TRUE(eventually([&] { return fs::exists(run / "checkpoints/step-00000004/manifest.json"); })) << logs();
  network.lose(1);
  EXPECT_EQ(wait_for(pods[1]), 128 + SIGKILL);
  pods[1] = start_pod(network, 1);
  for (const pid_t pod : pods) EXPECT_EQ(wait_for(pod), 0) << logs();
  EXPECT_TRUE(fs::exists(run / "checkpoints/step-00001500/manifest.json")) << logs();
  EXPECT_TRUE(contains(logs(), "attempt 2"));
}

// Kubernetes starts a new pod of the same index after a node is lost. With the same job it continues the same run.
TEST_F(ChartPods, ContinueTheirRunAfterAPodWasLost) {
  constexpr int kPods = 2;
  render(kPods, "--set run.supervisor=false,workload.arguments[0]=trainer.max_steps=4000");
  const PodNetwork network(kPods);
  if (!network.works()) SKIP_FOR(machine) << "network namespaces cannot be made here";
  std::vector<pid_t> pods{start_pod(network, 0), start_pod(network, 1)};
  const fs::path checkpoints = folder_ / "volume/demo-0f1e2d3c/results/checkpoints";
  ASSERT_TRUE(eventually([&] { return fs::exists(checkpoints / "step-00000004/manifest.json"); })) << logs();
  kill(pods[1], SIGKILL);
  EXPECT_EQ(wait_for(pods[1]), 128 + SIGKILL);
  EXPECT_EQ(wait_for(pods[0]), 1) << logs();  // its peer is gone
  std::string script = text_of("config/run.sh");
  script.replace(script.find("trainer.max_steps=4000"), 22, "trainer.max_steps=4001");
  folder_.write("config/run.sh", script);
  pods = {start_pod(network, 1), start_pod(network, 0)};
  ASSERT_TRUE(eventually([&] { return logs().find("esum") != std::string::npos; })) << logs();
  for (const pid_t pod : pods) kill(pod, SIGTERM);  // as Kubernetes ends a pod: it saves
  for (const pid_t pod : pods) EXPECT_EQ(wait_for(pod), 75) << logs();
}

TEST_F(ChartPods, TasksRunTheirOwnWords) {
  folder_.write("task.yaml", "task: {command: [echo, run], list: [[--files, '0 1'], [--files, '2']]}\n");
  render(1, fmt::format("-f {}/task.yaml --set run.copyTo=null", folder_.path().string()));
  const PodNetwork network(2);
  if (!network.works()) SKIP_FOR(machine) << "network namespaces cannot be made here";
  for (const int index : {0, 1}) EXPECT_EQ(wait_for(start_pod(network, index)), 0);
  EXPECT_TRUE(contains(text_of("pod-0.log"), "run --files 0 1\n"));
  EXPECT_TRUE(contains(text_of("pod-1.log"), "run --files 2\n"));
}

// The pod of an evaluation finds what the pod of the training wrote, and leaves its scores beside it, in the copy too.
TEST_F(ChartPods, AnEvaluationScoresTheTraining) {
  const PodNetwork network(1);
  if (!network.works()) SKIP_FOR(machine) << "network namespaces cannot be made here";
  render(1, "--set run.folder=run");
  EXPECT_EQ(wait_for(start_pod(network, 0)), 0) << logs();
  const std::string run = (folder_ / "volume/run").string();
  folder_.write("evaluation.yaml",
                fmt::format("run: {{folder: run}}\nafter: [demo]\ntask: {{command: [trireme, evaluate, {0}/results, --tasks, "
                            "'boolq', --data, {1}/tests/evaluate/data, --output, {0}/evaluation/scores]}}\n",
                            run, TRIREME_SOURCE_DIR));
  render(1, fmt::format("-f {}/evaluation.yaml", folder_.path().string()));
  EXPECT_EQ(wait_for(start_pod(network, 0, "another-uid")), 0) << logs();
  for (const char* folder : {"volume", "bucket"}) {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / folder / "run/evaluation/scores", none))
      names.push_back(entry.path().filename().string().substr(0, 8));
    EXPECT_EQ(std::ranges::count(names, "results_"), 1) << folder << "\n" << logs();
  }
}

TEST_F(ChartPods, HelmTestChecksRecipeAndFolder) {
  render(2);
  const std::string run =
      fmt::format("PATH={}:$PATH sh {}/config/run.sh check", (folder_ / "bin").string(), folder_.path().string());
  EXPECT_TRUE(contains(run_shell(run).output, "results ok"));
  render(2, "--set workload.arguments[0]=trainer.max_stepz=6");
  const ProgramResult result = run_shell(run);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "max_stepz"));
}

}  // namespace
}  // namespace trireme
