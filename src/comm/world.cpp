#include "comm/world.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/module_file.h"
#include "comm/control.h"
#include "comm/mpi_calls.h"
#include "comm/mpi_transport.h"
#include "comm/tcp_transport.h"

namespace trireme {
namespace {

// The rank that mpirun (Open MPI, MPICH) or srun with PMIx gave this process; null for any other process. PMI2 of srun does not
// count: Open MPI as distributions build it does not support PMI2, and the ranks find each other through Slurm's variables
// instead.
const char* rank_given_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
    if (const char* rank = std::getenv(name); rank != nullptr) return rank;
  return std::getenv("SLURM_STEP_NUM_TASKS") == nullptr ? std::getenv("PMI_RANK") : nullptr;
}

const char* environment(const char* name) { return std::getenv(name); }

// Returns the text of rank 0 on every rank. Must be the first use of the transport.
std::string share_text(Transport& transport, const std::string& text, std::chrono::seconds limit) {
  std::vector<char> buffer(64 << 10);  // a machine may have hundreds of addresses
  CHECK(text.size() < buffer.size());
  std::memcpy(buffer.data(), text.data(), text.size());
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(buffer));
  constexpr int kTag = 0;
  std::vector<Transport::Ticket> tickets;
  if (transport.rank() != 0) tickets.push_back(transport.receive(0, kTag, bytes));
  for (int other = 1; other < transport.size() && transport.rank() == 0; ++other)
    tickets.push_back(transport.send(other, kTag, bytes));
  const auto end = std::chrono::steady_clock::now() + limit;
  for (const Transport::Ticket ticket : tickets)
    while (!transport.done(ticket)) {
      if (std::chrono::steady_clock::now() > end)
        throw Failure("rank {} waited {} s for {}", transport.rank(), limit.count(), transport.rank() == 0 ? "others" : "rank 0");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  return buffer.data();
}

}  // namespace

int rank_in_environment() {
  if (const char* rank = rank_given_by_mpi(); rank != nullptr) return std::atoi(rank);
  try {
    return find_rendezvous(environment).value_or(Rendezvous{}).rank;
  } catch (const UserError&) {  // World::find reports the error
    return 0;
  }
}

bool is_built_with_mpi() { return !module_file(kMpiModule).empty(); }

World::World() : control_(std::make_unique<Control>()) {}
World::World(std::unique_ptr<Transport> transport, Progress::Options options)
    : transport_(std::move(transport)), progress_(std::make_unique<Progress>(options)), control_(std::make_unique<Control>()) {}
World::World(World&& other) noexcept = default;
World::~World() = default;

void World::connect_control(LastResort last_resort, Reach reach, const MeetingTerms& terms) {
  const ShareText share = [&](const std::string& text) { return share_text(*transport_, text, terms.timeout); };
  control_ = std::make_unique<Control>(meet(rank(), size(), reach, share, terms), last_resort);
  attach_control();
}

void World::attach_control() {
  control_->connect(
      [progress = progress_.get()] {
        return Control::Communication{progress->begun(), progress->waits()};
      },
      [progress = progress_.get()](const JobEnd& end) { progress->fail(std::make_exception_ptr(JobEnded(end))); });
  progress_->set_missing_text([control = control_.get()](const std::vector<int>& ranks, const CallCount& call) {
    return control->missing_text(ranks, call);
  });
}

void World::set_timeout(std::chrono::seconds timeout) {
  control_->set_timeout(timeout);
  if (progress_ != nullptr) progress_->set_timeout(timeout);
}

void World::leave(const std::exception& error) {
  const bool is_users = dynamic_cast<const UserError*>(&error) != nullptr;
  const auto* known = dynamic_cast<const JobEnded*>(&error);
  const JobEnd mine = known != nullptr ? known->end : JobEnd{.status = is_users ? kUserError : kFailed, .line = line_of(error)};
  const JobEnd end = control_->settle(mine, is_users);
  if (!end.is_said) control_->say(end);
  std::fflush(nullptr);
  control_->wait_for_speaker();
  // A normal exit would run MPI's finalization, which waits for ranks that may be gone.
  std::_Exit(end.status);
}

void World::find_through_mpi(const MeetingTerms& terms) {
  transport_ = connect_through_mpi();
  progress_ = std::make_unique<Progress>(Progress::Options{});
  connect_control(LastResort::exit_process, reach_of(environment), terms);
}

void World::find_through_tcp(const Rendezvous& where, const MeetingTerms& terms) {
  TcpListener listener(0, where.reach);
  Company company = meet(where, {.place = {}, .addresses = listener.addresses(), .port = listener.port()}, terms);
  const DataConnections request{.rank = company.rank, .ranks = company.ranks, .secret = company.secret, .limit = terms.timeout};
  control_ = std::make_unique<Control>(std::move(company), LastResort::exit_process);
  transport_ = connect_through_tcp(request, std::move(listener), *control_);
  progress_ = std::make_unique<Progress>(Progress::Options{});
  attach_control();
}

World World::find(const std::function<MeetingTerms()>& terms) {
  World world;
  const bool has_mpi = rank_given_by_mpi() != nullptr;
  const std::optional<Rendezvous> where = has_mpi ? std::nullopt : find_rendezvous(environment);
  if (!has_mpi && !where) return world;
  try {
    if (has_mpi)
      world.find_through_mpi(terms());
    else
      world.find_through_tcp(*where, terms());
  } catch (const std::exception& error) {
    world.leave(error);
  }
  return world;
}

}  // namespace trireme
