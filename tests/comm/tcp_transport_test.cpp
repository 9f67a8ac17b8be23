// Ranks that find each other without MPI, and messages between them over TCP.
#include "comm/tcp_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/host_group.h"
#include "comm/rendezvous.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Variables = std::map<std::string, std::string>;

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

std::optional<Rendezvous> find(const Variables& variables) {
  return find_rendezvous([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// What does not depend on how ports follow from a job: rank, size, address.
void expect(const Variables& variables, int rank, int size, const std::string& address) {
  const std::optional<Rendezvous> found = find(variables);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, rank);
  EXPECT_EQ(found->size, size);
  EXPECT_EQ(found->address, address);
}

TEST(RendezvousTest, EveryLauncherSaysItInItsWay) {
  EXPECT_EQ(find({}), std::nullopt);
  const Variables script = {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node1"}};
  EXPECT_EQ(find(script), (Rendezvous{3, 8, "node1", {29500}, "port 29500", Reach::network}));
  EXPECT_EQ(find(with(script, {{"MASTER_PORT", "6002"}})), (Rendezvous{3, 8, "node1", {6002}, "port 6002", Reach::network}));
  EXPECT_EQ(find(with(script, {{"TRIREME_JOB_ID", "x7"}})), (Rendezvous{3, 8, "node1", {29500}, "job x7", Reach::network}));
  EXPECT_EQ(find(with(script, {{"MASTER_ADDR", "localhost"}}))->reach, Reach::machine);
  EXPECT_EQ(find({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), std::nullopt);
  EXPECT_EQ(find({{"RANK", "0"}}), std::nullopt) << "a name that many programs use";
  const Variables batch_script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "31415"}};
  EXPECT_EQ(find(batch_script), std::nullopt);
}

TEST(RendezvousTest, PodsHaveOneRankOrSeveral) {
  const Variables pod = {{"JOB_COMPLETION_INDEX", "2"}, {"NNODES", "4"},          {"WORLD_SIZE", "32"},
                         {"GPUS_PER_NODE", "8"},        {"MASTER_ADDR", "job-0"}, {"MASTER_PORT", "6002"}};
  expect(pod, 2, 4, "job-0");
  expect(with(pod, {{"LOCAL_RANK", "5"}}), 21, 32, "job-0");
  Variables without_size = with(pod, {{"LOCAL_RANK", "5"}});
  without_size.erase("WORLD_SIZE");
  expect(without_size, 21, 32, "job-0");
  EXPECT_EQ(find({{"JOB_COMPLETION_INDEX", "2"}}), std::nullopt) << "pods that do not know each other";
}

Variables slurm_step(const std::string& job, const std::string& step) {
  return {{"SLURM_PROCID", "1"},         {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NODELIST", "gpu[07-09],gpu12"},
          {"SLURM_STEP_NUM_NODES", "4"}, {"SLURM_JOB_ID", job},         {"SLURM_STEP_ID", step}};
}

// Every step of every job has a name and ports of its own; the ports are many, since others may have some of them.
TEST(RendezvousTest, StepsOfSlurmAreJobsOfTheirOwn) {
  expect(slurm_step("31415", "0"), 1, 4, "gpu07");
  const Rendezvous first = *find(slurm_step("31415", "0"));
  EXPECT_EQ(find(slurm_step("31415", "0")), first);
  for (const auto& [job, step] : {std::pair{"31415", "1"}, std::pair{"31416", "0"}, std::pair{"3141", "50"}}) {
    const Rendezvous other = *find(slurm_step(job, step));
    EXPECT_NE(other.job, first.job);
    EXPECT_NE(other.ports, first.ports);
  }
  EXPECT_EQ(std::set<int>(first.ports.begin(), first.ports.end()).size(), 16u);
  for (const int port : first.ports) EXPECT_TRUE(port >= 20000 && port < 30000) << port;
  EXPECT_EQ(find(with(slurm_step("7", "0"), {{"SLURM_STEP_NUM_NODES", "1"}}))->reach, Reach::machine);
  // A port that was given is used, and the steps still know each other apart.
  const Rendezvous given = *find(with(slurm_step("31415", "1"), {{"MASTER_PORT", "6002"}}));
  EXPECT_EQ(given.ports, std::vector<int>{6002});
  EXPECT_NE(given.job, first.job);
}

// Its agent listens at MASTER_PORT.
TEST(RendezvousTest, TorchrunHasThePortItself) {
  const Variables worker = {{"RANK", "1"},           {"WORLD_SIZE", "2"},      {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29400"}, {"TORCHELASTIC_RUN_ID", "none"}};
  const Rendezvous found = *find(worker);
  EXPECT_EQ(found.ports.size(), 16u);
  EXPECT_EQ(std::ranges::count(found.ports, 29400), 0);
  EXPECT_EQ(found.reach, Reach::machine);
  EXPECT_NE(find(with(worker, {{"MASTER_PORT", "29401"}}))->job, found.job);
  EXPECT_NE(find(with(worker, {{"TORCHELASTIC_RUN_ID", "b"}}))->job, found.job);
  EXPECT_EQ(find(with(worker, {{"LOCAL_WORLD_SIZE", "1"}}))->reach, Reach::network);
}

TEST(RendezvousTest, FirstMachineOfANodeList) {
  EXPECT_EQ(first_of_node_list("node1"), "node1");
  EXPECT_EQ(first_of_node_list("node1,node2"), "node1");
  EXPECT_EQ(first_of_node_list("node[07-12,20],login1"), "node07");
  EXPECT_EQ(first_of_node_list("node[3,5]"), "node3");
  EXPECT_EQ(first_of_node_list("login1,node[3,5]"), "login1");
}

TEST(RendezvousTest, HalfAnAnswerIsAMistake) {
  const auto message = [](const Variables& variables) { return message_of<UserError>([&] { find(variables); }); };
  EXPECT_TRUE(contains(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "MASTER_ADDR is not"));
  EXPECT_TRUE(contains(message({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), "RANK=\"x\""));
  EXPECT_TRUE(contains(message({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), "rank 2 of 2"));
  EXPECT_TRUE(contains(message({{"RANK", "1"}, {"MASTER_ADDR", "a"}}), "WORLD_SIZE is not"));
  EXPECT_TRUE(contains(message({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), "RANK is not"));
  for (const char* port : {"99999", "65536", "0", "x", "-1"})
    EXPECT_TRUE(contains(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", port}}),
                         std::string("MASTER_PORT=") + (*port >= '0' && *port <= '9' ? port : "")))
        << port;
  const Variables pod = {{"JOB_COMPLETION_INDEX", "1"}, {"MASTER_ADDR", "a"}, {"NNODES", "2"}, {"LOCAL_RANK", "0"}};
  EXPECT_TRUE(contains(message(pod), "GPUS_PER_NODE is not"));
  EXPECT_TRUE(contains(message(with(pod, {{"GPUS_PER_NODE", "2"}, {"WORLD_SIZE", "8"}})), "NNODES=2 times GPUS_PER_NODE=2"));
  EXPECT_TRUE(contains(message(with(pod, {{"GPUS_PER_NODE", "2"}, {"LOCAL_RANK", "2"}})), "LOCAL_RANK=2"));
  EXPECT_TRUE(contains(message({{"JOB_COMPLETION_INDEX", "1"}, {"MASTER_ADDR", "a"}}), "NNODES is not"));
}

// Runs `work` on threads, each a rank that meets the others on this machine.
template <class Work>
void on_ranks(int size, Work work, const std::function<void(const Company&)>& after_meeting = {}) {
  const int port = TcpListener(0, Reach::machine).port();  // free a moment ago
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([=, &after_meeting] {
      const Rendezvous where{
          .rank = rank, .size = size, .address = "127.0.0.1", .ports = {port}, .job = "test", .reach = Reach::machine};
      TcpListener listener(0, Reach::machine);
      Company company = meet(where, {.place = {}, .addresses = listener.addresses(), .port = listener.port()}, {});
      if (after_meeting) after_meeting(company);
      const DataConnections request{.rank = rank, .ranks = company.ranks, .secret = company.secret};
      Control control(std::move(company), LastResort::none);
      const auto transport = connect_through_tcp(request, std::move(listener), control);
      work(*transport);
      control.first_of("done", "");
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(TcpTransportTest, MessagesOfAnyLengthComeInOrder) {
  on_ranks(3, [](Transport& transport) {
    const size_t lengths[] = {0, 1, 100, 5'000'000, 3};
    const auto value = [](int from, int tag, size_t message) {
      return std::byte(from * 50 + tag * 10 + static_cast<int>(message));
    };
    std::vector<std::vector<std::byte>> buffers;
    buffers.reserve(100);  // those that are on their way must not move
    std::vector<Transport::Ticket> tickets;
    for (int other = 0; other < transport.size(); ++other)
      for (int tag = 0; tag < 2 && other != transport.rank(); ++tag)
        for (size_t i = 0; i < std::size(lengths); ++i) {
          buffers.emplace_back(lengths[i], value(transport.rank(), tag, i));
          tickets.push_back(transport.send(other, tag, buffers.back()));
        }
    // Asked for in another order than sent, tag by tag.
    struct Got {
      size_t buffer;
      std::byte expected;
    };
    std::vector<Got> got;
    for (int tag = 1; tag >= 0; --tag)
      for (int other = transport.size() - 1; other >= 0; --other)
        for (size_t i = 0; i < std::size(lengths) && other != transport.rank(); ++i) {
          buffers.emplace_back(lengths[i]);
          got.push_back({buffers.size() - 1, value(other, tag, i)});
          tickets.push_back(transport.receive(other, tag, buffers.back()));
        }
    for (const Transport::Ticket ticket : tickets)
      while (!transport.done(ticket)) std::this_thread::yield();
    for (const Got& message : got)
      for (const std::byte byte : buffers[message.buffer]) ASSERT_EQ(byte, message.expected);
  });
}

// Connections of others to the ports where ranks wait for data connections are dropped; a process that knows where they are and
// not the secret is not taken for a rank.
TEST(TcpTransportTest, StrangersAreDropped) {
  std::mutex mutex;
  std::vector<TcpConnection> strangers;
  const auto disturb = [&](const Company& company) {
    const std::lock_guard lock(mutex);
    for (const Greeting& other : company.ranks)
      for (const char* text : {"", "GET / HTTP/1.0\r\n\r\n", "greeting"}) {
        std::string why;
        strangers.push_back(TcpConnection::try_open("127.0.0.1", other.port, std::chrono::seconds(5), why));
        if (std::string_view(text) == "greeting")
          greet(strangers.back(), {.secret = "guessed", .rank = 2, .size = 3, .place = {}, .addresses = {}});
        else
          ::send(strangers.back().descriptor(), text, std::strlen(text), MSG_NOSIGNAL);
      }
  };
  std::atomic<int> sums = 0;
  const auto add_up = [&](Transport& transport) {
    Progress progress({.timeout = std::chrono::seconds(60)});
    HostGroup group(GroupKind::tp, {0, 1, 2}, transport, progress);
    std::vector<float> values(10, 1.0f);
    const Tensor tensor{values.data(), DType::f32, {std::ssize(values)}, Device::host};
    group.all_reduce(kTensorParallel, tensor, Reduce::sum);
    progress.synchronize({"sums", kTensorParallel, progress.enqueued(kTensorParallel)});
    sums += static_cast<int>(values[0]);
  };
  on_ranks(3, add_up, disturb);
  EXPECT_EQ(sums, 9);
}

// A rank that dies before the others are connected to it ends the job for them at once.
TEST(TcpTransportTest, ARankThatDiesWhileTheyConnectIsNamed) {
  const int port = TcpListener(0, Reach::machine).port();
  const auto where = [&](int rank) {
    return Rendezvous{.rank = rank, .size = 3, .address = "127.0.0.1", .ports = {port}, .job = "test", .reach = Reach::machine};
  };
  const pid_t victim = ::fork();
  if (victim == 0) {
    TcpListener listener(0, Reach::machine);
    meet(where(2), {.place = {}, .addresses = listener.addresses(), .port = listener.port()}, {});
    ::kill(::getpid(), SIGKILL);
  }
  std::vector<std::thread> threads;
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      TcpListener listener(0, Reach::machine);
      Company company = meet(where(rank), {.place = {}, .addresses = listener.addresses(), .port = listener.port()}, {});
      const DataConnections request{.rank = rank, .ranks = company.ranks, .secret = company.secret};
      Control control(std::move(company), LastResort::none);
      const std::string line = message_of<JobEnded>([&] { connect_through_tcp(request, std::move(listener), control); });
      EXPECT_TRUE(contains(line, fmt::format("process {}) died before the first step", victim))) << line;
      control.wait_for_speaker();
    });
  for (std::thread& thread : threads) thread.join();
  int status = 0;
  ::waitpid(victim, &status, 0);
}

TEST(TcpTransportTest, CollectivesRunOverIt) {
  on_ranks(4, [](Transport& transport) {
    Progress progress({.timeout = std::chrono::seconds(60)});
    HostGroup group(GroupKind::tp, {0, 1, 2, 3}, transport, progress);
    std::vector<float> values(100'001, static_cast<float>(transport.rank() + 1));
    const Tensor tensor{values.data(), DType::f32, {std::ssize(values)}, Device::host};
    for (int round = 0; round < 3; ++round) group.all_reduce(kTensorParallel, tensor, Reduce::sum);
    group.barrier(kTensorParallel);
    progress.synchronize({"sums", kTensorParallel, progress.enqueued(kTensorParallel)});
    for (const float value : values) ASSERT_EQ(value, 10.0f * 4 * 4);
  });
}

}  // namespace
}  // namespace trireme
