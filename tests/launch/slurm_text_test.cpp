// What Slurm prints, read: lists of nodes, times, objects, srun's messages.
#include "launch/slurm/slurm_text.h"

#include <gtest/gtest.h>

#include "launch/slurm/allocation.h"
#include "launch/slurm/srun_messages.h"

namespace trireme {
namespace {

using Names = std::vector<std::string>;

TEST(SlurmText, ExpandsNodeLists) {
  EXPECT_EQ(expand_node_list("n[1-3,07],login1"), (Names{"n1", "n2", "n3", "n07", "login1"}));
  EXPECT_EQ(expand_node_list("node[08-11]"), (Names{"node08", "node09", "node10", "node11"}));
  EXPECT_EQ(expand_node_list("r[1-2]n[1,3]-ib"), (Names{"r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib"}));
  EXPECT_EQ(expand_node_list(""), Names{});
  for (const char* odd : {"n[", "n[1-", "n]", "n[]", "n[a-b]", "n[9-1]x["}) EXPECT_EQ(expand_node_list(odd), Names{odd}) << odd;
  EXPECT_LT(expand_node_list("n[1-99999999999]").size(), 2U);
}

TEST(SlurmText, ReadsTimes) {
  EXPECT_EQ(parse_slurm_seconds("90"), 90 * 60);
  EXPECT_EQ(parse_slurm_seconds("1:30"), 90);
  EXPECT_EQ(parse_slurm_seconds("4:00:00"), 4 * 3600);
  EXPECT_EQ(parse_slurm_seconds("1-00"), 86400);
  EXPECT_EQ(parse_slurm_seconds("26-01:02:03"), 26 * 86400 + 3723);
  for (const char* none : {"", "UNLIMITED", "infinite", "1:2:3:4", "-1", "a", "1-", "-", "1.5", "99999999999999999999"})
    EXPECT_EQ(parse_slurm_seconds(none), std::nullopt) << none;
  EXPECT_EQ(format_slurm_seconds(4 * 3600), "4:00:00");
  EXPECT_EQ(format_slurm_seconds(86400 + 61), "1-00:01:01");
}

TEST(SlurmText, CountsGpus) {
  EXPECT_EQ(gpus_of_gres("gpu:8"), 8);
  EXPECT_EQ(gpus_of_gres("gpu:h100:8(S:0-1,3),nic:2"), 8);
  EXPECT_EQ(gpus_of_gres("gpu:a:4,gpu:b:2,shard:12"), 6);
  EXPECT_EQ(gpus_of_gres("gpu"), 1);
  EXPECT_EQ(gpus_of_gres("(null)"), 0);
  EXPECT_EQ(gpus_of_gres(""), 0);
}

TEST(SlurmText, ReadsObjectsWhoseValuesHaveSpaces) {
  const auto objects = parse_slurm_objects(
      "NodeName=n1 Arch=x86_64 Gres=gpu:8 State=DOWN+DRAIN OS=Linux 6.1 #1 SMP Reason=bad memory [root@2026-11-18T19:29:09]\n"
      "\nNodeName=n2 State=IDLE\nnot an object\n");
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(slurm_value(objects[0], "OS"), "Linux 6.1 #1 SMP");
  EXPECT_EQ(slurm_value(objects[0], "Reason"), "bad memory [root@2026-11-18T19:29:09]");
  EXPECT_EQ(slurm_value(objects[1], "State"), "IDLE");
  EXPECT_EQ(slurm_value(parse_slurm_config("SLURM_VERSION           = 22.05.8\nEpilog = (null)\n"), "SLURM_VERSION"), "22.05.8");
  EXPECT_EQ(slurm_value(parse_slurm_config("Epilog = (null)\n"), "Epilog"), "");
}

TEST(SrunMessagesTest, LabelsAreRanks) {
  EXPECT_EQ(parse_labelled_line("0: step 1").rank, 0);
  EXPECT_EQ(parse_labelled_line("0: step 1").text, "step 1");
  EXPECT_EQ(parse_labelled_line(" 3:   indented").rank, 3);
  EXPECT_EQ(parse_labelled_line(" 3:   indented").text, "  indented");
  EXPECT_EQ(parse_labelled_line("0012:").rank, 12);
  EXPECT_EQ(parse_labelled_line("0012:").text, "");
  EXPECT_EQ(parse_labelled_line("srun: error: n1: task 0: Killed").rank, std::nullopt);
  EXPECT_EQ(parse_labelled_line("").rank, std::nullopt);
  EXPECT_EQ(parse_labelled_line("12").rank, std::nullopt);
}

SrunMessages messages_of(const Names& lines) {
  SrunMessages messages;
  for (const std::string& line : lines) messages.note(parse_labelled_line(line));
  return messages;
}

TEST(SrunMessagesTest, TheFirstFailureCounts) {
  const SrunMessages messages = messages_of({"srun: error: n2: task 1: Segmentation fault (core dumped)",
                                             "srun: launch/slurm: _step_signal: Terminating StepId=3.0",
                                             "srun: error: n1: task 0: Killed", "srun: Force Terminated StepId=3.0"});
  ASSERT_TRUE(messages.first_failure());
  EXPECT_EQ(messages.first_failure()->rank, 1);
  EXPECT_EQ(messages.first_failure()->node, "n2");
  EXPECT_EQ(messages.first_failure()->status, 128 + 11);
  EXPECT_EQ(messages.reason(), "rank 1 on n2 was killed by signal 11");
  EXPECT_TRUE(messages.lost_nodes().empty());
}

TEST(SrunMessagesTest, SeveralTasksOfOneNode) {
  const SrunMessages messages = messages_of({"srun: error: n4: tasks 8-11: Exited with exit code 2"});
  ASSERT_TRUE(messages.first_failure());
  EXPECT_EQ(messages.first_failure()->rank, 8);
  EXPECT_EQ(messages.first_failure()->status, 2);
}

TEST(SrunMessagesTest, TheErrorOfTheProgramIsTheReason) {
  const SrunMessages messages =
      messages_of({"0: trireme: rank 1 (n2, process 18001) died in step 51", "srun: error: n1: task 0: Exited with exit code 1"});
  EXPECT_EQ(messages.reason(), "rank 1 (n2, process 18001) died in step 51");
}

TEST(SrunMessagesTest, LostNodesAreNamed) {
  EXPECT_EQ(messages_of({"srun: error: Node failure on n[2-3]"}).lost_nodes(), (Names{"n2", "n3"}));
  EXPECT_EQ(messages_of({"srun: error: Node failure on n2"}).reason(), "node n2 failed");
  EXPECT_EQ(unreachable_nodes("srun: error: Task launch for StepId=1.1 failed on node n2: Communication connection failure\n"
                              "srun: error: Application launch failed: Communication connection failure\n"),
            Names{"n2"});
  EXPECT_EQ(unreachable_nodes("srun: Job step aborted\n"), Names{});
}

TEST(SrunMessagesTest, ARankThatCannotBeStartedIsAFailure) {
  const SrunMessages messages = messages_of({"srun: error: task 0 launch failed: Plugin initialization failed"});
  EXPECT_TRUE(messages.could_not_start());
  EXPECT_EQ(messages.reason(), "task 0 launch failed: Plugin initialization failed");
  EXPECT_FALSE(messages_of({"srun: error: Unable to confirm allocation for job 5: Invalid job id specified"}).could_not_start());
}

TEST(SrunMessagesTest, KnowsWhySlurmEndedTheStep) {
  EXPECT_EQ(messages_of({"0: slurmstepd-n3: error: *** STEP 5.0 ON n3 CANCELLED AT 2026-11-18T19:36:23 ***"}).cancelled(), "");
  EXPECT_EQ(messages_of({"0: slurmstepd-n3: error: *** STEP 5.0 ON n3 CANCELLED AT 2026-11-18T19:36:23 DUE TO TIME LIMIT ***"})
                .cancelled(),
            "TIME LIMIT");
  EXPECT_EQ(messages_of({"srun: error: n1: task 0: Killed"}).cancelled(), std::nullopt);
}

}  // namespace
}  // namespace trireme
