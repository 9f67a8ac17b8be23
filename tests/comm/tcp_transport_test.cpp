// Ranks that find each other without MPI, and messages between them over TCP.
#include "comm/tcp_transport.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/error.h"
#include "comm/host_group.h"
#include "comm/tcp.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Rendezvous> find(const Variables& variables) {
  return find_rendezvous([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(RendezvousTest, EveryLauncherSaysItInItsWay) {
  EXPECT_EQ(find({}), std::nullopt);
  EXPECT_EQ(find({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "6002"}}),
            (Rendezvous{3, 8, "node1", 6002}));
  EXPECT_EQ(find({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node1"}}), (Rendezvous{3, 8, "node1", 29500}));
  EXPECT_EQ(find({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), std::nullopt);
  const Variables pod = {{"JOB_COMPLETION_INDEX", "2"}, {"NNODES", "4"},          {"WORLD_SIZE", "32"},
                         {"GPUS_PER_NODE", "8"},        {"MASTER_ADDR", "job-0"}, {"MASTER_PORT", "6002"}};
  EXPECT_EQ(find(pod), (Rendezvous{2, 4, "job-0", 6002}));
  Variables rank_in_pod = pod;
  rank_in_pod["LOCAL_RANK"] = "5";
  EXPECT_EQ(find(rank_in_pod), (Rendezvous{21, 32, "job-0", 6002}));
  const Variables batch_script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "31415"}};
  EXPECT_EQ(find(batch_script), std::nullopt);
  Variables step = batch_script;
  step["SLURM_STEP_NUM_TASKS"] = "4";
  step["SLURM_STEP_NODELIST"] = "gpu[07-09],gpu12";
  EXPECT_EQ(find(step), (Rendezvous{0, 4, "gpu07", 21415}));
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
}

// Runs `work` on threads, each a rank that meets the others on this machine.
template <class Work>
void on_ranks(int size, Work work) {
  const int port = TcpListener().port();  // free a moment ago
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([=] {
      const auto transport = connect_through_tcp({.rank = rank, .size = size, .address = "127.0.0.1", .port = port});
      work(*transport);
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

TEST(TcpTransportTest, NamesWithoutAnAddressAreTold) {
  const std::string name(300, 'x');  // too long for one, so that nobody is asked for it
  const std::string message = message_of<Failure>([&] { TcpConnection::open({"127.0.0.1", name}, 1, std::chrono::seconds(0)); });
  EXPECT_TRUE(message.starts_with("nobody answers at 127.0.0.1 or " + name + ", port 1; " + name + " has no address here ("))
      << message;
}

TEST(TcpTransportTest, CollectivesRunOverIt) {
  on_ranks(4, [](Transport& transport) {
    Progress progress({.timeout = std::chrono::seconds(60)});
    HostGroup group("test", 1, {0, 1, 2, 3}, transport, progress);
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
