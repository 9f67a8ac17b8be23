// What a site has, and what it makes of a launch: choices, and requests that it cannot fulfil.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "launch/slurm/site.h"
#include "launch/slurm/site_choice.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr const char* kConfig =
    "Configuration data as of 2026-11-18T19:29:09\n"
    "ClusterName             = atlas\n"
    "JobRequeue              = 1\n"
    "MaxArraySize            = 20\n"
    "SLURM_VERSION           = 23.11.4\n";
constexpr const char* kPartitions =
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO DefaultTime=NONE MaxNodes=UNLIMITED "
    "MaxTime=1-00:00:00 MinNodes=0 Nodes=n[1-4] State=UP TotalCPUs=384 TotalNodes=4\n"
    "PartitionName=batch AllowAccounts=chem,bio DenyAccounts=old AllowQos=normal Default=YES DefaultTime=00:02:00 MaxNodes=2 "
    "MaxTime=UNLIMITED MinNodes=0 Nodes=c[1-3] State=UP TotalNodes=3\n"
    "PartitionName=closed Default=NO MaxTime=UNLIMITED Nodes=c1 State=INACTIVE TotalNodes=1\n";
constexpr const char* kNodes =
    "NodeName=n1 CPUTot=96 CPUEfctv=92 Gres=gpu:h100:8(S:0-1) State=IDLE Partitions=gpu\n"
    "NodeName=n2 CPUTot=96 Gres=gpu:h100:8(S:0-1) State=MIXED+POWERED_DOWN+CLOUD Partitions=gpu\n"
    "NodeName=n3 CPUTot=96 Gres=gpu:h100:8(S:0-1) State=DOWN*+DRAIN Reason=Not responding [slurm@2026-11-18T19:29:09] "
    "Partitions=gpu\n"
    "NodeName=n4 CPUTot=96 Gres=gpu:a100:4 State=IDLE+DRAIN Reason=bad GPU Partitions=gpu,other\n"
    "NodeName=c1 CPUTot=16 Gres=(null) State=IDLE Partitions=batch,closed\n"
    "NodeName=c2 CPUTot=16 Gres=(null) State=ALLOCATED Partitions=batch\n"
    "NodeName=c3 CPUTot=16 Gres=(null) State=IDLE Partitions=batch\n";

SlurmAnswers answers() {
  return {.config = kConfig,
          .partitions = kPartitions,
          .nodes = kNodes,
          .mpi_list = "MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions available: pmix_v4\n",
          .srun_help = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n      --container-env=NAMES\n"};
}

Job training(int64_t nodes = 1, int64_t ranks = 8) {
  Job job;
  job.name = "run";
  job.nodes = nodes;
  job.ranks_per_node = ranks;
  job.has_gpus = true;
  return job;
}

LaunchOptions options_for(const std::string& partition) {
  LaunchOptions options;
  options.partition = partition;
  return options;
}

std::string refusal(const LaunchOptions& options, const Job& job, const SlurmAnswers& site = answers()) {
  return message_of<UserError>([&] { choose_run(parse_site(site), options, job); });
}

bool says(const SlurmRun& run, const std::string& what) {
  return std::ranges::any_of(run.choices, [&](const LaunchChoice& choice) {
    return choice.what.find(what) != std::string::npos || choice.why.find(what) != std::string::npos;
  });
}

TEST(SlurmSiteTest, IsReadFromTheAnswersOfScontrol) {
  const SlurmSite site = parse_site(answers());
  EXPECT_EQ(site.cluster, "atlas");
  EXPECT_TRUE(site.has_pmix && site.has_pyxis && site.has_container_env && site.has_requeue);
  ASSERT_EQ(site.partitions.size(), 3U);
  EXPECT_EQ(site.partitions[0].most_seconds, 86400);
  EXPECT_EQ(site.partitions[0].most_nodes, -1);
  EXPECT_TRUE(site.partitions[1].is_default);
  EXPECT_EQ(site.partitions[1].default_seconds, 120);
  EXPECT_EQ(site.partitions[1].accounts, (std::vector<std::string>{"chem", "bio"}));
  ASSERT_EQ(site.nodes.size(), 7U);
  EXPECT_EQ(site.nodes[0].cpus, 92);
  EXPECT_EQ(site.nodes[3].gpus, 4);
  EXPECT_TRUE(is_usable(site.nodes[1]));  // Slurm starts it
  EXPECT_FALSE(is_usable(site.nodes[2]));
  EXPECT_FALSE(is_usable(site.nodes[3]));
}

TEST(SlurmSiteTest, OddAnswersAreNoSite) {
  for (const char* odd :
       {"", "\n\n", "= = =\n", "NodeName", "slurm_load_partitions: Unable to contact slurm controller\n", "\xff=\xfe\n"}) {
    const SlurmSite site = parse_site({odd, odd, odd, odd, odd});
    EXPECT_TRUE(site.partitions.empty()) << odd;
    EXPECT_FALSE(site.has_pmix || site.has_pyxis) << odd;
  }
  EXPECT_FALSE(is_usable({.name = "n1", .state = "IDLE*"}));
  EXPECT_FALSE(is_usable({.name = "n1", .state = ""}));
}

TEST(SlurmSiteTest, ChoosesGpusCoresAndMpi) {
  const SlurmRun run = choose_run(parse_site(answers()), options_for("gpu"), training(3));
  EXPECT_EQ(run.gpus_per_node, 8);
  EXPECT_EQ(run.cpus_per_task, 92 / 8);
  EXPECT_EQ(run.mpi, "none");
  EXPECT_EQ(run.signal_before, 300);
  EXPECT_TRUE(says(run, "1 nodes of gpu are powered down"));
  EXPECT_TRUE(says(run, "2 of 4 nodes of gpu are usable; the job waits for 3"));
  EXPECT_TRUE(says(run, "n4 is IDLE+DRAIN: bad GPU"));
}

TEST(SlurmSiteTest, ShortTimeLimitsLeaveTimeToTrain) {
  Job job = training(2, 8);
  job.has_gpus = false;
  const SlurmRun run = choose_run(parse_site(answers()), options_for(""), job);
  EXPECT_EQ(run.signal_before, 60);  // half of the default of the partition
  EXPECT_TRUE(says(run, "partition batch"));
  LaunchOptions options = options_for("gpu");
  options.time = "8:00";
  EXPECT_EQ(choose_run(parse_site(answers()), options, training()).signal_before, 240);
}

TEST(SlurmSiteTest, RefusesWhatThePartitionDoesNotHave) {
  EXPECT_EQ(refusal(options_for("gpus"), training()), "partition=gpus: cluster atlas has gpu, batch, closed; did you mean gpu?");
  EXPECT_EQ(refusal(options_for("gpu"), training(5)), "nodes=5: partition gpu has 4 nodes");
  EXPECT_TRUE(contains(refusal(options_for("closed"), training()), "is INACTIVE and takes no jobs"));
  LaunchOptions options = options_for("gpu");
  options.spares = 2;
  EXPECT_EQ(refusal(options, training(3)), "nodes=3 and spares=2: partition gpu has 4 nodes");
  options = options_for("gpu");
  options.time = "1-00:00:01";
  EXPECT_EQ(refusal(options, training()), "time=1-00:00:01: partition gpu allows 1-00:00:00");
  for (const char* odd : {"soon", "1:2:3:4", "0", "-5"}) {
    options.time = odd;
    EXPECT_TRUE(contains(refusal(options, training()), "time=" + std::string(odd))) << odd;
  }
  EXPECT_TRUE(contains(refusal(options_for("gpu"), training(1, 9)), "have 8 GPUs"));
  EXPECT_EQ(refusal(options_for("gpu"), training(4, 8)), "nodes=4: only 3 nodes of partition gpu have 8 GPUs");
  Job job = training(3, 4);
  job.has_gpus = false;
  EXPECT_TRUE(contains(refusal(options_for("batch"), job), "allows jobs of at most 2 nodes"));
  job = training(1, 17);
  job.has_gpus = false;
  EXPECT_TRUE(contains(refusal(options_for("batch"), job), "at most 16 CPUs"));
  options = options_for("batch");
  options.account = "physics";
  EXPECT_EQ(refusal(options, training()), "account=physics: partition batch is for chem, bio");
  options.account = "chem";
  options.qos = "high";
  EXPECT_EQ(refusal(options, training()), "qos=high: partition batch has normal");
  job = training();
  job.tasks.resize(21);
  EXPECT_TRUE(contains(refusal(options_for("gpu"), job), "allows 20 per array"));
}

TEST(SlurmSiteTest, RefusesPmixAndContainersThatTheSiteDoesNotHave) {
  SlurmAnswers bare = answers();
  bare.mpi_list = "srun: MPI types are...\nsrun: none\nsrun: pmi2\n";
  bare.srun_help = "      --container             Path to OCI container bundle\n";
  LaunchOptions options = options_for("gpu");
  options.mpi = "pmix";
  EXPECT_TRUE(contains(refusal(options, training(), bare), "has no PMIx"));
  Job job = training();
  job.container = Container{.runtime = "pyxis", .image = "ubuntu", .mounts = {}};
  EXPECT_TRUE(contains(refusal(options_for("gpu"), job, bare), "pyxis is not installed"));
  EXPECT_EQ(choose_run(parse_site(answers()), options, job).mpi, "pmix");
}

TEST(SlurmSiteTest, AnUnknownSiteIsNotChecked) {
  SlurmSite site;
  site.unknown = "sbatch is not on PATH";
  const SlurmRun run = choose_run(site, options_for("anything"), training(1000));
  EXPECT_TRUE(says(run, "checks left out"));
  EXPECT_TRUE(says(run, "sbatch is not on PATH"));
  EXPECT_EQ(run.gpus_per_node, 8);
}

TEST(SlurmSiteTest, ASiteThatCountsNoGpusGivesWholeNodes) {
  SlurmAnswers site = answers();
  for (size_t at; (at = site.nodes.find("Gres=gpu:h100:8(S:0-1)")) != std::string::npos;)
    site.nodes.replace(at, 22, "Gres=(null)");
  site.nodes.replace(site.nodes.find("Gres=gpu:a100:4"), 15, "Gres=(null)");
  const SlurmRun run = choose_run(parse_site(site), options_for("gpu"), training(1, 8));
  EXPECT_TRUE(run.exclusive);
  EXPECT_EQ(run.gpus_per_node, 0);
  EXPECT_EQ(run.cpus_per_task, 92 / 8);
}

TEST(SlurmImages, TakeTheFormsOfPyxis) {
  const TemporaryFolder folder;
  std::vector<LaunchChoice> choices;
  const std::string file = folder.write("image.sqsh", "");
  EXPECT_EQ(pyxis_image(file, choices), file);
  EXPECT_EQ(pyxis_image("ubuntu:22.04", choices), "ubuntu:22.04");
  EXPECT_EQ(pyxis_image("nvcr.io#nvidia/pytorch:24.07-py3", choices), "nvcr.io#nvidia/pytorch:24.07-py3");
  EXPECT_EQ(pyxis_image("docker://library/ubuntu", choices), "library/ubuntu");
  EXPECT_TRUE(choices.empty());
  EXPECT_EQ(pyxis_image("nvcr.io/nvidia/pytorch:24.07-py3", choices), "nvcr.io#nvidia/pytorch:24.07-py3");
  EXPECT_EQ(choices.size(), 1U);
  const auto refused = [&](const std::string& image) { return message_of<UserError>([&] { pyxis_image(image, choices); }); };
  EXPECT_TRUE(contains(refused("image.sqsh"), "as in ./image.sqsh"));
  EXPECT_TRUE(contains(refused("./no-such.sqsh"), "there is no such file"));
  EXPECT_TRUE(contains(refused("/no/such.sqsh"), "there is no such file"));
  EXPECT_TRUE(contains(refused("podman://x"), "[REGISTRY#]NAME[:TAG]"));
  EXPECT_TRUE(contains(refused("two words"), "[REGISTRY#]NAME[:TAG]"));
}

}  // namespace
}  // namespace trireme
