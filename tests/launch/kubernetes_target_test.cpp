// trireme launch kubernetes with a kubectl and a helm that record how they are called and answer from files.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/small_run.h"
#include "config/yaml.h"
#include "launch/kubernetes/cluster.h"
#include "launch/kubernetes/job_status.h"

namespace trireme {
namespace {

// Answers with the file of the first pattern that its arguments match: answers/1.pattern, answers/1.output, answers/1.status.
constexpr const char* kFake = R"(#!/bin/bash
call="${0##*/} $*"
echo "$call" >> "$FAKE/calls"
for pattern in "$FAKE"/answers/*.pattern; do
  if [[ "$call" == *$(<"$pattern")* ]]; then
    base=${pattern%.pattern}
    [ -s $base.errors ] && cat $base.errors >&2
    [ -s $base.output ] && cat $base.output
    exit $(<$base.status)
  fi
done
exit 0
)";

class KubernetesTest : public testing::Test {
 protected:
  KubernetesTest() {
    for (const char* name : {"kubectl", "helm"}) {
      folder_.write(std::string("bin/") + name, kFake);
      fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
    }
    fs::create_directories(folder_ / "answers");
    answer("config current-context", "test-cluster\n");
    answer("jsonpath={..namespace}", "research\n");
    answer("helm status", "", 1, "Error: release: not found\n");
    answer("get job demo2-chain", "", 1, "Error from server (NotFound): jobs.batch \"demo2-chain\" not found\n");
  }
  // Later answers win over earlier ones.
  void answer(const std::string& pattern, const std::string& output, int status = 0, const std::string& errors = "") {
    const std::string base = "answers/" + std::to_string(next_--);
    folder_.write(base + ".pattern", pattern);
    folder_.write(base + ".output", output);
    folder_.write(base + ".errors", errors);
    folder_.write(base + ".status", std::to_string(status));
  }
  ProgramResult run(const std::string& arguments, const std::string& path = "") const {
    return run_shell(fmt::format("cd {0} && PATH={1} FAKE={0} {2} {3}", folder_.path().string(),
                                 path.empty() ? (folder_ / "bin").string() + ":$PATH" : path, TRIREME_BINARY, arguments));
  }
  ProgramResult launch(const std::string& more = "") const {
    const std::string image = more.find("--image") == std::string::npos ? "--image registry.example.com/trireme:1 " : "";
    return run("launch kubernetes demo --nodes 2 trainer.backend=cpu " + image + more);
  }
  std::string calls() const { return fs::exists(folder_ / "calls") ? read_file(folder_ / "calls", 1 << 20) : ""; }
  std::string text(const std::string& name) const { return read_file(folder_ / name, 1 << 20); }
  // A pod of the run, as kubectl prints it.
  static std::string pod(int index, const std::string& phase, const std::string& state) {
    return fmt::format(
        R"({{"metadata": {{"name": "demo2-{0}-x", "labels": {{"batch.kubernetes.io/job-completion-index": "{0}"}}}},
      "spec": {{"containers": [{{"name": "workload", "env": [{{"name": "GPUS_PER_NODE", "value": "1"}}]}}]}},
      "status": {{"phase": "{1}", "containerStatuses": [{{"name": "workload", "state": {2}}}]}}}})",
        index, phase, state);
  }
  void answer_job(const std::string& spec, const std::string& status, const std::string& pods = "") {
    answer("get job demo2 ", fmt::format(R"({{"spec": {}, "status": {}}})", spec, status));
    answer("get pods", fmt::format(R"({{"items": [{}]}})", pods));
  }

  TemporaryFolder folder_;
  int next_ = 9999;  // as text in the same order as the number
};

using KubernetesTestSlow = KubernetesTest;

TEST_F(KubernetesTest, InstallsAReleaseAndWritesWhatItInstalls) {
  const ProgramResult result = launch();
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "started demo2 as demo2@research@test-cluster"));
  EXPECT_TRUE(contains(calls(), "helm install demo2 "));
  EXPECT_TRUE(contains(calls(), "/charts/trireme --values " + (folder_ / "runs/demo2/demo2-values.yaml").string() +
                                    " --set-file recipe.text=" + (folder_ / "runs/demo2/demo2_hydra.yaml").string() +
                                    " --namespace research --kube-context test-cluster"));
  const std::string values = text("runs/demo2/demo2-values.yaml");
  for (const char* line : {"nodes: 2", "folder: demo2", "image: \"registry.example.com/trireme:1\"", "mode: job"})
    EXPECT_TRUE(contains(values, line));
}

TEST_F(KubernetesTest, DryRunNeedsNoCluster) {
  answer("get --raw /version", "", 1, "The connection to the server was refused\n");
  const ProgramResult result = launch("--dry-run");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(
      contains(result.output, "no cluster is asked (the cluster of context test-cluster cannot be reached: The connection"));
  EXPECT_TRUE(contains(result.output, "run     helm install demo2"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_EQ(calls().find("helm install"), std::string::npos);
  // Without both programs the values are still printed.
  const ProgramResult bare = run("launch kubernetes demo --nodes 2 --image x:1 --dry-run", "/nowhere");
  EXPECT_EQ(bare.status, 0) << bare.output;
  EXPECT_TRUE(contains(bare.output, "helm is not on the path"));
  EXPECT_TRUE(contains(bare.output, "demo2-values.yaml"));
}

TEST_F(KubernetesTestSlow, MistakesAreFoundBeforeAnythingIsWritten) {
  const auto refused = [&](const std::string& options, const std::string& line) {
    const ProgramResult result = launch(options);
    EXPECT_EQ(result.status, 2) << options << result.output;
    EXPECT_TRUE(contains(result.output, line)) << options;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
    EXPECT_EQ(calls().find("helm install"), std::string::npos);
  };
  refused("--image ./trireme.sqsh", "is a file, and Kubernetes pulls images from a registry");
  refused("--image 'my image'", "is not the name of an image");
  refused("--mode pods", "mode=pods: use job (an indexed Job) or jobset (a JobSet)");
  refused("--pvc :/data", "--pvc :/data: use CLAIM, or CLAIM:/PATH");
  refused("--pvc claim:data", "use CLAIM, or CLAIM:/PATH");
  refused("--bucket http://x", "--bucket http://x: use NAME or gs://NAME");
  refused("--results gs://bucket/runs", "give the bucket by --bucket");
  refused("--data /datasets", "pods see no such folder");
  refused("--node-selector gpu", "--node-selector gpu: use LABEL=VALUE");
  refused("--values none.yaml", "--values none.yaml: there is no such file");
  refused("--chart .", "is not the folder of a chart");
  refused("--name " + std::string(48, 'a') + " --stages training,conversion", "Helm takes 53");
}

TEST_F(KubernetesTest, AsksTheClusterForWhatItNeeds) {
  const auto refused = [&](const std::string& pattern, const std::string& error, const std::string& options,
                           const std::string& line) {
    answer(pattern, "", 1, error);
    const ProgramResult result = launch(options);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_TRUE(contains(result.output, line));
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
  };
  refused("get persistentvolumeclaim", "Error from server (NotFound): ...\n", "--pvc shared",
          "pvc=shared: namespace research has no such claim");
  refused("get localqueues", "error: the server doesn't have a resource type \"localqueues\"\n", "--queue a3",
          "queue=a3: namespace research has no such queue of Kueue");
  refused("get crd jobsets", "Error from server (NotFound): ...\n", "--mode jobset", "the cluster has no JobSet; use --mode job");
  refused("get --raw /version", "Unable to connect to the server\n", "",
          "the cluster of context test-cluster cannot be reached: Unable to connect");
  refused("config current-context", "error: current-context is not set\n", "", "kubectl has no current context; give --context");
}

TEST_F(KubernetesTest, WhoMayNotLookIsNotHindered) {
  answer("get crd jobsets", "", 1, "Error from server (Forbidden): ...\n");
  EXPECT_EQ(launch("--mode jobset").status, 0);
}

TEST_F(KubernetesTest, ANameInUseSaysWhoHoldsItAndWhatFreesIt) {
  answer("helm status demo2", R"({"info": {"status": "deployed", "first_deployed": "2026-01-02T03:04:05.6Z"},
                                  "config": {"launchedBy": "ada@login1"}})");
  answer_job("{\"parallelism\": 2}", "{}", pod(0, "Running", R"({"running": {}})"));
  const ProgramResult result = launch();
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output,
                       "demo2 is in use: a release of ada@login1 in namespace research, deployed since 2026-01-02T03:04:05, "
                       "job running; helm uninstall demo2 --namespace research frees it"));
}

TEST_F(KubernetesTest, ResumeReplacesTheReleaseOfAnEndedJob) {
  answer("helm status demo2", R"({"info": {"status": "deployed"}, "config": {}})");
  answer_job("{}", R"({"conditions": [{"type": "Failed", "status": "True"}]})");
  EXPECT_EQ(launch().status, 2);
  EXPECT_EQ(launch("--resume").status, 0);
  EXPECT_LT(calls().find("helm uninstall demo2"), calls().find("helm install demo2"));
  EXPECT_TRUE(contains(calls(), "helm uninstall demo2"));
}

TEST_F(KubernetesTest, JobsBeforeOneThatCannotBeInstalledAreRemoved) {
  answer("helm install demo2-conversion", "", 1, "Error: INSTALLATION FAILED: quota exceeded\n");
  const ProgramResult result = launch("--stages training,conversion --pvc shared");
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.output, "demo2-conversion cannot be installed: INSTALLATION FAILED: quota exceeded"));
  EXPECT_TRUE(contains(calls(), "helm uninstall demo2 "));
  EXPECT_FALSE(fs::exists(folder_ / "runs/demo2/launch.json"));
}

TEST_F(KubernetesTest, StagesAreChained) {
  ASSERT_EQ(launch("--stages training,conversion --pvc shared:/volume --mode jobset").status, 0);
  const std::string values = text("runs/demo2/demo2-conversion-values.yaml");
  EXPECT_TRUE(contains(values, "jobset/demo2"));
  EXPECT_TRUE(contains(values, "/volume/demo2/results"));  // the paths of this machine as pods see them
  EXPECT_TRUE(contains(values, "mode: job\n"));
  EXPECT_EQ(values.find((folder_ / "runs").string()), std::string::npos);
}

// One pod with one rank reads what the pods of the training wrote, and writes beside it.
TEST_F(KubernetesTest, EvaluationRunsInAPod) {
  const std::string stages = "--stages training,evaluation --pvc shared:/volume --data /volume/tasks ";
  ASSERT_EQ(launch(stages + "--ranks 4 --tasks piqa,lambada model.global_batch_size=8").status, 0);
  const std::string values = text("runs/demo2/demo2-evaluation-values.yaml");
  std::vector<std::string> words;
  const Tree tree = read_yaml(values, "values");
  for (const Tree& word : tree.find("task.command")->list()) words.push_back(word.text());
  EXPECT_EQ(words, (std::vector<std::string>{"trireme", "evaluate", "/volume/demo2/results", "--tasks", "piqa,lambada", "--data",
                                             "/volume/tasks", "--output", "/volume/demo2/evaluation/scores"}));
  EXPECT_TRUE(contains(values, "after: [demo2]"));
  EXPECT_TRUE(contains(values, "mode: job\n"));
  EXPECT_EQ(tree.find("ranksPerNode"), nullptr);
  EXPECT_EQ(tree.find("gpusPerNode"), nullptr);

  // Without a volume it first fetches the checkpoint from the bucket; on GPUs it asks for one.
  const std::string output = run("launch kubernetes demo --name kept --nodes 2 --image x:1 --stages training,evaluation --tasks "
                                 "piqa --bucket logs --data /bucket/tasks --dry-run")
                                 .output;
  const std::string later = output.substr(std::min(output.find("kept-evaluation-values.yaml"), output.size()));
  for (const char* line : {"restore: true", "gpusPerNode: 1", "/results/kept/results"}) EXPECT_TRUE(contains(later, line));

  folder_.write("sums.yaml", read_file(TRIREME_SOURCE_DIR "/tasks/piqa.yaml", 1 << 16));
  const ProgramResult own = launch("--name other --pvc shared --stages training,evaluation --tasks sums.yaml");
  EXPECT_EQ(own.status, 2);
  EXPECT_TRUE(contains(own.output, "--tasks sums.yaml: pods have only the tasks of the image"));
}

TEST_F(KubernetesTestSlow, StatusFollowsTheJob) {
  ASSERT_EQ(launch().status, 0);
  const auto says = [&](const std::string& line) {
    const ProgramResult result = run("launch --status demo2");
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(contains(result.output, line));
  };
  answer_job("{\"parallelism\": 2}", "{}", pod(0, "Running", R"({"running": {}})") + "," + pod(1, "Pending", "{}"));
  says("running: 1 of 2 pods run");
  answer_job("{\"parallelism\": 2}", "{}",
             pod(0, "Pending", R"({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})"));
  says("waiting: demo2-0-x: ImagePullBackOff: no such image");
  answer_job("{\"suspend\": true}", "{}");
  says("waiting: until the jobs before it have succeeded");
  answer_job("{}", R"({"conditions": [{"type": "Complete", "status": "True"}]})");
  says("done (exit status 0)");
  answer_job("{}", R"({"conditions": [{"type": "Failed", "status": "True", "message": "why"}]})",
             pod(0, "Failed", R"({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:09Z"}})") + "," +
                 pod(1, "Failed", R"({"terminated": {"exitCode": 93, "finishedAt": "2026-01-01T00:00:08Z"}})"));
  says("failed (exit status 93): pod demo2-1-x ended first, with exit status 93");
  answer("get job demo2 ", "", 1, "Error from server (NotFound): jobs.batch \"demo2\" not found\n");
  says("stopped: namespace research has no job demo2");
  answer("get job demo2 ", "", 1, "Unable to connect to the server\n");
  says("unknown: kubectl: Unable to connect to the server");
  answer("get job demo2 ", "not JSON");
  says("unknown: kubectl printed no JSON");
}

TEST_F(KubernetesTest, AJobAfterAFailedOneHasFailed) {
  ASSERT_EQ(launch().status, 0);
  answer_job("{\"suspend\": true}", "{}");
  answer("get job demo2-chain", R"({"status": {"conditions": [{"type": "Failed", "status": "True"}]}})");
  EXPECT_TRUE(contains(run("launch --status demo2").output, "failed: a job before it failed, so it is not started"));
}

TEST_F(KubernetesTest, LogsAreThoseOfAllPodsOrOfOneRank) {
  ASSERT_EQ(launch().status, 0);
  answer_job("{\"parallelism\": 2}", "{}",
             pod(0, "Running", R"({"running": {}})") + "," + pod(1, "Running", R"({"running": {}})"));
  answer(" logs ", "step 1\n");
  EXPECT_TRUE(contains(run("launch --logs demo2").output, "step 1"));
  EXPECT_TRUE(contains(calls(),
                       "logs --container workload --tail=-1 --selector app.kubernetes.io/instance=demo2,"
                       "app.kubernetes.io/component=workload --max-log-requests=2 --prefix"));
  EXPECT_EQ(run("launch --logs demo2 --rank 1").status, 0);
  EXPECT_TRUE(contains(calls(), "logs --container workload --tail=-1 demo2-1-x"));
  EXPECT_TRUE(contains(run("launch --logs demo2 --rank 2").output, "demo2 has no rank 2; its pods have ranks 0 to 1"));
  answer_job("{\"parallelism\": 2}", "{}");
  EXPECT_TRUE(contains(run("launch --logs demo2").output, "demo2 has no log: waiting, pods are starting"));
}

TEST_F(KubernetesTest, WaitFollowsTheLogAndEndsAsTheJob) {
  answer(" logs ", "step 1\n");
  answer_job("{}", R"({"conditions": [{"type": "Complete", "status": "True"}]})",
             pod(0, "Succeeded", R"({"terminated": {"exitCode": 0}})"));
  const ProgramResult done = launch("--wait");
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "step 1"));
  EXPECT_TRUE(contains(calls(), "--max-log-requests=1 --follow"));
  answer_job("{}", R"({"conditions": [{"type": "Failed", "status": "True"}]})",
             pod(0, "Failed", R"({"terminated": {"exitCode": 93, "finishedAt": "2026-01-01T00:00:09Z"}})"));
  answer("get job again ", R"({"status": {"conditions": [{"type": "Failed", "status": "True"}]}})");
  EXPECT_EQ(launch("--wait --name again").status, 93);
}

TEST_F(KubernetesTest, StopRemovesEverything) {
  ASSERT_EQ(launch().status, 0);
  answer_job("{\"parallelism\": 2}", "{}", pod(0, "Running", R"({"running": {}})"));
  EXPECT_TRUE(contains(run("launch --stop demo2").output, "stopped demo2"));
  EXPECT_TRUE(contains(calls(), "helm uninstall demo2 --namespace research --kube-context test-cluster"));
  EXPECT_TRUE(contains(calls(), "delete pod demo2-test demo2-reader --ignore-not-found"));
  answer("helm uninstall", "", 1, "Error: uninstall: Release not loaded: demo2: release: not found\n");
  EXPECT_EQ(run("launch --stop demo2").status, 0);  // done already
}

TEST_F(KubernetesTest, FetchCopiesFromARunningPodOrFromTheVolume) {
  ASSERT_EQ(launch("--pvc shared").status, 0);
  folder_.write("volume/demo2/results/metrics.csv", "step,loss\n");
  run_shell(fmt::format("tar cf {0}/archive -C {0}/volume/demo2 results/metrics.csv", folder_.path().string()));
  answer("-- find /results/demo2", "/results/demo2/results/metrics.csv\n/results/demo2/pods/pod-0/log.txt\n");
  answer("-- tar cf - -C /results/demo2 -- results/metrics.csv", text("archive"));
  answer_job("{\"parallelism\": 2}", "{}", pod(0, "Running", R"({"running": {}})"));
  const ProgramResult running = run("launch --fetch demo2 '*.csv'");
  EXPECT_TRUE(contains(running.output, "1 file to ")) << running.output;
  EXPECT_EQ(text("demo2/results/metrics.csv"), "step,loss\n");
  EXPECT_TRUE(contains(calls(), "exec demo2-0-x --container workload -- tar"));
  // Nothing runs any more: a pod of its own reads the claim, and goes again.
  answer_job("{}", R"({"conditions": [{"type": "Complete", "status": "True"}]})");
  answer("helm template demo2", "kind: Pod\n");
  fs::remove_all(folder_ / "demo2");
  EXPECT_EQ(run("launch --fetch demo2 '*.csv'").status, 0);
  EXPECT_EQ(text("demo2/results/metrics.csv"), "step,loss\n");
  for (const char* call :
       {"--set reader=true --show-only templates/reader.yaml", "apply --filename", "wait --for=condition=Ready pod/demo2-reader",
        "exec demo2-reader --container workload", "delete pod demo2-reader"})
    EXPECT_TRUE(contains(calls(), call));
}

TEST_F(KubernetesTest, FetchSaysWhereFilesAre) {
  ASSERT_EQ(launch("--name kept --bucket s3://bucket/team").status, 0);
  ASSERT_EQ(launch("--name lost").status, 0);
  answer("get pods", R"({"items": []})");
  EXPECT_TRUE(contains(run("launch --fetch kept").output, "trireme data fetch s3://bucket/team/kept/ --output"));
  EXPECT_TRUE(contains(run("launch --fetch lost").output, "its files were on their disks; --pvc and --bucket keep them"));
}

// Every option of the target changes what helm is given.
TEST_F(KubernetesTestSlow, EveryOptionReachesTheChart) {
  const std::map<std::string, std::string> lines = {
      {"--context other", "--kube-context other"},
      {"--namespace team", "--namespace team"},
      {"--mode jobset", "mode: jobset"},
      {"--queue a3", "queue: a3"},
      {"--topology example.com/rack", "topology: example.com/rack"},
      {"--pvc shared:/data --data /data/pile", "mountPath: /data"},
      {"--bucket logs/team", "copyTo: /bucket/team"},
      {"--bucket s3://logs/team", "copyTo: \"s3://logs/team\""},
      {"--ssd /ssd", "ssdMountPath: /ssd"},
      {"--service-account trainer", "serviceAccount: trainer"},
      {"--shm 8Gi", "sharedMemorySize: 8Gi"},
      {"--node-selector a=b,c=d", "c: d"},
      {"--backoff-limit 3", "backoffLimit: 3"},
      {"--gpus-per-node 8", "gpusPerNode: 8"},
      {"--max-restarts 7", "maxRestarts: 7"},
      {"--mount /mnt/lustre:/lustre", "hostPath: /mnt/lustre"},
      {"--network tcpx", "stack: tcpx"},
      {"--network tcpx --env NCCL_ALGO=Tree", "value: Tree"},
      {"--env A=b", "name: A"},
      {"--benchmark", "--benchmark"},
      {"--mllog", "--mllog"},
      {"--trace-ops", "--trace-ops"},
      {"--ranks 4 model.global_batch_size=8", "ranksPerNode: 4"},
      {"--image docker://a/b:1", "image: \"a/b:1\""},
      {"--image nvcr.io#a/b:1", "image: \"nvcr.io/a/b:1\""},
      {"--resume --bucket logs", "restore: true"},
      {"--set ttlSecondsAfterFinished=60", "--set ttlSecondsAfterFinished=60"},
  };
  const std::string without = launch("--dry-run").output;
  for (const auto& [options, line] : lines) {
    const ProgramResult result = launch("--dry-run " + options);
    EXPECT_EQ(result.status, 0) << options << "\n" << result.output;
    EXPECT_TRUE(contains(result.output, line)) << options;
    EXPECT_EQ(without.find(line), std::string::npos) << line << " is there without " << options;
  }
  folder_.write("own.yaml", "queue: mine\n");
  EXPECT_TRUE(contains(launch("--dry-run --values own.yaml").output, "--values " + (folder_ / "own.yaml").string()));
}

TEST_F(KubernetesTest, ACustomNetworkBringsOnlyItsVariables) {
  folder_.write("net.yaml", "summary: mine\nenv: {NCCL_MINE: 1}\n");
  const std::string output = launch("--dry-run --network net.yaml").output;
  EXPECT_TRUE(contains(output, "name: NCCL_MINE"));
  EXPECT_EQ(output.find("stack:"), std::string::npos);
}

TEST(ReleaseId, HasThreeParts) {
  const Release release = parse_release("demo@research@arn:aws:eks:eu:1:cluster/a@b");
  EXPECT_EQ(release.name_space, "research");
  EXPECT_EQ(release.context, "arn:aws:eks:eu:1:cluster/a@b");
  EXPECT_EQ(id_of(release), "demo@research@arn:aws:eks:eu:1:cluster/a@b");
  EXPECT_THROW(parse_release("1234"), Failure);
}

TEST(JobStatusOfKubernetes, SurvivesAnything) {
  for (const char* text : {"null", "[]", "{}", "3", R"({"status": 3})", R"({"status": {"conditions": {"a": 1}}})",
                           R"({"status": {"conditions": [null, 3]}, "spec": []})"})
    for (const char* pods : {"null", "{}", R"({"items": [null, {}, {"status": {"containerStatuses": [1]}}]})"})
      EXPECT_NO_THROW(job_status(nlohmann::json::parse(text), nlohmann::json::parse(pods))) << text << pods;
}

}  // namespace
}  // namespace trireme
