// The chart rendered by real Helm: value sets of every kind, mistakes, and what the manifests must say.
#include <gtest/gtest.h>

#include <map>

#include "config/yaml.h"
#include "launch/helm.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class ChartRender : public testing::Test {
 protected:
  void SetUp() override { NEEDS_HELM(); }

  // The documents, in helm's order, each as a tree.
  std::vector<Tree> documents(const std::string& arguments) {
    const Rendered result = render_chart(folder_, arguments);
    EXPECT_EQ(result.status, 0) << arguments << "\n" << result.errors;
    std::vector<Tree> trees;
    std::string text = result.manifests;
    for (size_t begin = text.find("---\n"); begin != std::string::npos;) {
      const size_t end = text.find("\n---\n", begin);
      const std::string document = text.substr(begin + 4, end == std::string::npos ? end : end - begin - 3);
      if (document.find("kind:") != std::string::npos) trees.push_back(read_yaml(document, "manifest"));
      begin = end == std::string::npos ? end : end + 1;
    }
    return trees;
  }
  Tree document(const std::string& kind, const std::string& arguments) {
    for (Tree& tree : documents(arguments))
      if (tree.find("kind")->text() == kind) return tree;
    ADD_FAILURE() << "no " << kind << " with " << arguments;
    return {};
  }
  static std::string at(const Tree& tree, const std::string& path) {
    const Tree* found = tree.find(path);
    return found == nullptr ? "" : found->text();
  }
  // The variables of the workload.
  static std::map<std::string, std::string> environment(const Tree& job) {
    std::map<std::string, std::string> all;
    for (const Tree& one : job.find("spec.template.spec.containers.0.env")->list())
      all[one.find("name")->text()] = one.find("value") == nullptr ? "" : one.find("value")->text();
    return all;
  }
  std::string error_of(const std::string& arguments, const std::string& name = "demo") {
    const Rendered result = render_chart(folder_, arguments, name);
    EXPECT_NE(result.status, 0) << arguments;
    return result.errors;
  }

  TemporaryFolder folder_;
};

using ChartRenderSlow = ChartRender;

TEST_F(ChartRenderSlow, LintsAndRendersTwiceTheSame) {
  for (const fs::path& values : value_sets()) {
    const std::string arguments = "-f " + values.string();
    const ProgramResult lint = run_shell(helm_folder() + "/helm lint --strict " + kChart + " " + arguments);
    EXPECT_EQ(lint.status, 0) << values << "\n" << lint.output;
    const Rendered once = render_chart(folder_, arguments), again = render_chart(folder_, arguments);
    EXPECT_EQ(once.status, 0) << values << "\n" << once.errors;
    EXPECT_FALSE(once.manifests.empty());
    EXPECT_EQ(once.manifests, again.manifests) << values;
  }
}

TEST_F(ChartRenderSlow, KubernetesTakesEveryManifest) {
  if (!fs::exists(kShared + "/fixtures/kube-validate")) SKIP_FOR(peer) << "kube-validate is not beside the checkout";
  for (const fs::path& values : value_sets()) {
    const Rendered result = render_chart(folder_, "-f " + values.string());
    const std::string file = folder_.write(values.filename().string(), result.manifests);
    const ProgramResult verdict = run_shell(kShared + "/fixtures/kube-validate " + file);
    EXPECT_EQ(verdict.status, 0) << values << "\n" << verdict.output;
  }
}

// PyPI's kubernetes-validate has the schemas of the server, and none of JobSet.
TEST_F(ChartRenderSlow, KubernetesValidateTakesEveryManifest) {
  if (find_program("kubernetes-validate").empty()) SKIP_FOR(peer) << "kubernetes-validate is not on PATH";
  for (const fs::path& values : value_sets()) {
    const Rendered result = render_chart(folder_, "-f " + values.string());
    const std::string file = folder_.write(values.filename().string(), result.manifests);
    const ProgramResult verdict = run_shell("kubernetes-validate -k 1.32 --strict " + file);
    EXPECT_EQ(verdict.status, 0) << values << "\n" << verdict.output;
    EXPECT_EQ(verdict.output.find("ERROR"), std::string::npos) << verdict.output;
  }
}

TEST_F(ChartRender, RejectsTypos) {
  for (const char* typo :
       {"qeue=a3", "workload.argumentz={a=b}", "volumes.pvcMounts[0].claim=x", "network.stack=tcpxx", "mode=jobs", "nodes=0",
        "nodes=two", "cluster.nodes=4", "run.copyTo=bucket", "workload.envs[0].names=A"})
    EXPECT_TRUE(contains(error_of(std::string("--set '") + typo + "'"), "values don't meet the specifications")) << typo;
}

TEST_F(ChartRender, SaysWhatIsWrong) {
  const std::map<std::string, std::string> mistakes = {
      {"--set workload.gpus=12", "workload.gpus=12: use up to 8, or a multiple of 8"},
      {"--set workload.gpus=16,nodes=3", "nodes=3 and workload.gpus=16 disagree"},
      {"--set cluster.nNodes=2,nodes=3", "nodes=3 and cluster.nNodes=2 disagree"},
      {"--set workload.arguments={max_steps}", "is not an override; write key=value"},
      {"--set volumes.gcsMounts[0].mountPath=/x", "volumes.gcsMounts[0] has no bucketName"},
      {"--set volumes.pvcMounts[0].mountPath=/x", "volumes.pvcMounts[0] has no claimName"},
      {"--set run.supervisor=false,gpusPerNode=8", "run.supervisor=false starts one rank per pod, and ranksPerNode is 8"},
      {"--set gcsDownload.source=gs://a/b", "gcsDownload.source needs gcsDownload.target"},
      {"--set task.list[0][0]=a", "task.list needs task.command"}};
  for (const auto& [arguments, line] : mistakes)
    EXPECT_TRUE(contains(error_of("'" + arguments.substr(0, 5) + "' '" + arguments.substr(6) + "'"), line));
}

TEST_F(ChartRender, RefusesNamesThatAreTooLong) {
  const std::string longest(53, 'a');  // what Helm takes
  EXPECT_EQ(render_chart(folder_, "--set nodes=1000", longest).status, 0);
  EXPECT_TRUE(contains(error_of("--set nodes=8,mode=jobset", longest), "is too long"));
  EXPECT_EQ(render_chart(folder_, "--set nodes=8,mode=jobset", std::string(45, 'a')).status, 0);
  EXPECT_NE(render_chart(folder_, "", std::string(54, 'a')).status, 0);
}

TEST_F(ChartRender, JobGivesRanksWhatTheyMeetBy) {
  const Tree job = document("Job", "--set nodes=4,gpusPerNode=8");
  EXPECT_EQ(at(job, "spec.completionMode"), "Indexed");
  EXPECT_EQ(at(job, "spec.completions"), "4");
  EXPECT_EQ(at(job, "spec.parallelism"), "4");
  EXPECT_EQ(at(job, "spec.template.spec.subdomain"), "demo");
  const auto env = environment(job);
  EXPECT_EQ(env.at("NNODES"), "4");
  EXPECT_EQ(env.at("GPUS_PER_NODE"), "8");
  EXPECT_EQ(env.at("MASTER_ADDR"), "demo-0.demo");
  EXPECT_EQ(env.at("MASTER_PORT"), "6002");
  const Tree service = document("Service", "--set nodes=4");
  EXPECT_EQ(at(service, "spec.clusterIP"), "None");
  EXPECT_EQ(at(service, "spec.publishNotReadyAddresses"), "true");
  const Tree set = document("JobSet", "--set nodes=4,mode=jobset");
  EXPECT_EQ(at(set, "spec.replicatedJobs.0.template.spec.template.spec.containers.0.env.4.value"), "demo-workers-0-0.demo");
  for (const Tree& one : documents("--set nodes=4,mode=jobset")) EXPECT_NE(at(one, "kind"), "Service");
}

TEST_F(ChartRender, FailuresAreJudgedByTheirExitStatus) {
  const Tree job = document("Job", "");
  EXPECT_EQ(at(job, "spec.podFailurePolicy.rules.0.action"), "FailJob");
  EXPECT_EQ(at(job, "spec.podFailurePolicy.rules.0.onExitCodes.values"), "[2,93]");
  EXPECT_EQ(at(job, "spec.podFailurePolicy.rules.0.onExitCodes.containerName"), at(job, "spec.template.spec.containers.0.name"));
  EXPECT_EQ(at(job, "spec.podFailurePolicy.rules.1.action"), "Ignore");
  EXPECT_EQ(at(job, "spec.podFailurePolicy.rules.1.onPodConditions.0.type"), "DisruptionTarget");
  EXPECT_EQ(at(job, "spec.backoffLimit"), "0");
}

TEST_F(ChartRender, QueuesAndChainsSuspendTheJob) {
  const Tree queued = document("Job", "--set queue=a3");
  EXPECT_EQ(at(queued, "spec.suspend"), "true");
  EXPECT_EQ(queued.find("metadata.labels")->map().back().key, "kueue.x-k8s.io/queue-name");
  EXPECT_EQ(at(document("Job", ""), "spec.suspend"), "");
  // Kueue would start a chained job as soon as there is room, so it enters the queue later.
  const auto all = documents("--set 'queue=a3,after={data}'");
  for (const Tree& tree : all)
    for (const Tree::Entry& label : tree.find("metadata.labels")->map()) EXPECT_NE(label.key, "kueue.x-k8s.io/queue-name");
}

TEST_F(ChartRender, ALaterValueOfAVariableWins) {
  const auto env = environment(document("Job",
                                        "--set network.stack=tcpxo --set 'workload.envs[0].name=NCCL_BUFFSIZE,"
                                        "workload.envs[0].value=4194304'"));
  EXPECT_EQ(env.at("NCCL_BUFFSIZE"), "4194304");  // not 4.194304e+06
  EXPECT_EQ(env.at("NCCL_P2P_NVL_CHUNKSIZE"), "1048576");
}

// One variable per line, as in the reference systems.
TEST_F(ChartRender, NetworksHaveTheVariablesOfTheReferenceSystems) {
  const std::map<std::string, std::vector<std::pair<std::string, std::string>>> wanted = {
      {"tcpxo",
       {{"NCCL_SOCKET_IFNAME", "eth0"},
        {"NCCL_DYNAMIC_CHUNK_SIZE", "524288"},
        {"NCCL_P2P_NET_CHUNKSIZE", "524288"},
        {"NCCL_P2P_PCI_CHUNKSIZE", "524288"},
        {"NCCL_P2P_NVL_CHUNKSIZE", "1048576"},
        {"NCCL_CROSS_NIC", "0"},
        {"NCCL_PROTO", "Simple"},
        {"NCCL_NET_GDR_LEVEL", "PIX"},
        {"NCCL_P2P_PXN_LEVEL", "0"},
        {"NCCL_NVLS_ENABLE", "0"},
        {"NCCL_ALGO", "Ring,Tree"},
        {"NCCL_MIN_NCHANNELS", "4"},
        {"NCCL_BUFFSIZE", "8388608"},
        {"NCCL_FASTRAK_CTRL_DEV", "eth0"},
        {"NCCL_FASTRAK_IFNAME", "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8"},
        {"NCCL_FASTRAK_NUM_FLOWS", "2"},
        {"NCCL_FASTRAK_NUM_FLOWS_PER_GROUP", "1"},
        {"NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0"},
        {"NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING", "0"},
        {"NCCL_FASTRAK_USE_SNAP", "1"},
        {"NCCL_FASTRAK_USE_LLCM", "1"},
        {"NCCL_TUNER_PLUGIN", "libnccl-tuner.so"},
        {"NCCL_TUNER_CONFIG_PATH", "/usr/local/nccl-plugin/lib64/a3plus_tuner_config.textproto"}}},
      {"tcpx",
       {{"NCCL_ALGO", "Ring"},
        {"NCCL_PROTO", "Simple"},
        {"NCCL_CROSS_NIC", "0"},
        {"NCCL_NSOCKS_PERTHREAD", "4"},
        {"NCCL_SOCKET_NTHREADS", "1"},
        {"NCCL_MAX_NCHANNELS", "8"},
        {"NCCL_MIN_NCHANNELS", "8"},
        {"NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0"},
        {"NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4"},
        {"NCCL_GPUDIRECTTCPX_TX_BINDINGS", "eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177"},
        {"NCCL_GPUDIRECTTCPX_RX_BINDINGS", "eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191"},
        {"NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "500000"},
        {"NCCL_GPUDIRECTTCPX_FORCE_ACK", "1"},
        {"NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP", "1000"}}},
      {"efa",
       {{"FI_PROVIDER", "efa"},
        {"FI_EFA_USE_DEVICE_RDMA", "1"},
        {"FI_EFA_FORK_SAFE", "1"},
        {"FI_EFA_ENABLE_SHM_TRANSFER", "1"},
        {"RDMAV_FORK_SAFE", "1"},
        {"NCCL_PROTO", "simple"},
        {"NCCL_LAUNCH_MODE", "parallel"},
        {"NCCL_NVLS_ENABLE", "0"},
        {"NCCL_SOCKET_IFNAME", "^docker,lo,veth"},
        {"OMPI_MCA_pml", "^ucx"},
        {"OMPI_MCA_btl", "tcp,self"}}},
      {"azure-ib",
       {{"NCCL_TOPO_FILE", "/opt/microsoft/ndv4-topo.xml"},
        {"UCX_IB_PCI_RELAXED_ORDERING", "auto"},
        {"NCCL_IB_PCI_RELAXED_ORDERING", "2"},
        {"NCCL_IB_TIMEOUT", "22"}}},
      {"ib", {{"NCCL_IB_TIMEOUT", "22"}}},
      {"roce", {{"NCCL_IB_GID_INDEX", "3"}}},
      {"tcp", {{"NCCL_IB_DISABLE", "1"}}}};
  for (const auto& [network, variables] : wanted) {
    const auto env = environment(document("Job", "--set network.stack=" + network));
    for (const auto& [name, value] : variables) {
      ASSERT_TRUE(env.contains(name)) << network << " " << name;
      EXPECT_EQ(env.at(name), value) << network << " " << name;
    }
  }
}

TEST_F(ChartRender, TcpxAndTcpxoBringTheirDaemonAndPlugin) {
  for (const char* network : {"tcpx", "tcpxo"}) {
    const Tree job = document("Job", std::string("--set network.stack=") + network);
    const Tree* init = job.find("spec.template.spec.initContainers");
    ASSERT_NE(init, nullptr) << network;
    EXPECT_EQ(at(*init, "0.name"), "nccl-plugin-installer");
    EXPECT_EQ(at(*init, "1.name"), "receive-daemon");
    EXPECT_EQ(at(*init, "1.restartPolicy"), "Always");  // a sidecar: it does not keep the pod alive
    EXPECT_EQ(at(job, "spec.template.spec.hostNetwork"), "true");
  }
  for (const char* network : {"efa", "ib", "azure-ib", "roce", "tcp"})
    EXPECT_EQ(document("Job", std::string("--set network.stack=") + network).find("spec.template.spec.initContainers"), nullptr);
}

// The chain waits for every job, tells a failed one, and starts the suspended job: its script, with a kubectl that answers in
// turn.
TEST_F(ChartRender, ChainStartsTheJobAfterTheOthers) {
  std::string script;
  for (const Tree& tree : documents("--set 'after={data,jobset/warm-up}'"))
    if (at(tree, "metadata.name") == "demo-chain" && at(tree, "kind") == "Job")
      script = at(tree, "spec.template.spec.containers.0.args.0");
  ASSERT_FALSE(script.empty());
  const std::string file = folder_.write("chain.sh", script);
  folder_.write("bin/sleep", "#!/bin/sh\n");
  folder_.write("bin/kubectl",
                "#!/bin/sh\necho \"$@\" >> $LOG\ncase \"$*\" in\n"
                "*get\\ job/data*) [ -e $LOG.2 ] && echo \"$DATA \" || touch $LOG.2 ;;\n"
                "*get\\ jobset/warm-up*) echo 'Completed ' ;;\nesac\n");
  for (const char* name : {"bin/sleep", "bin/kubectl"}) fs::permissions(folder_ / name, fs::perms::owner_all);
  const auto run = [&](const std::string& outcome) {
    fs::remove(folder_ / "log");
    fs::remove(folder_ / "log.2");
    return run_shell("PATH=" + (folder_ / "bin").string() + ":$PATH LOG=" + (folder_ / "log").string() + " DATA=" + outcome +
                     " sh " + file);
  };
  EXPECT_EQ(run("Complete").status, 0);
  std::ifstream log(folder_ / "log");
  const std::string calls{std::istreambuf_iterator<char>(log), {}};
  EXPECT_TRUE(contains(calls, R"(patch job/demo --type merge -p {"spec":{"suspend":false}})"));
  EXPECT_EQ(lines_of(calls), 4) << calls;  // data twice, warm-up, patch
  const ProgramResult failed = run("Failed");
  EXPECT_EQ(failed.status, 3);
  EXPECT_TRUE(contains(failed.output, "job/data failed; demo is not started"));
}

}  // namespace
}  // namespace trireme
