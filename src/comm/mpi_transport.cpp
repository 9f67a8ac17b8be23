#include "comm/mpi_transport.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <exception>
#include <vector>

#include "base/error.h"
#include "base/module_file.h"
#include "comm/mpi_calls.h"

namespace trireme {
namespace {

// MPI counts are ints, so longer messages are sent in parts.
constexpr size_t kLongest = size_t{1} << 30;

const MpiCalls& load_mpi() {
  constexpr const char* kInstead = "or start the ranks without mpirun: trireme launch local";
  const std::filesystem::path file = module_file(kMpiModule);
  if (file.empty())
    throw UserError(
        "this trireme was built without MPI and cannot join the others that mpirun started; install libopenmpi-dev and build "
        "again, {}",
        kInstead);
  // Global, because the components that MPI loads expect to find its functions.
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr)
    throw UserError(
        "mpirun started this process, but MPI cannot be loaded: {}; name the folder of Open MPI's libmpi.so.40 in "
        "LD_LIBRARY_PATH, {}",
        dlerror(), kInstead);
  const void* calls = dlsym(module, kMpiCallsName);
  if (calls == nullptr) throw UserError("{} is of another version; install the one of this trireme", file.string());
  return *static_cast<const MpiCalls*>(calls);
}

class MpiTransport final : public Transport {
 public:
  MpiTransport();
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override;
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override;
  bool done(Ticket ticket) override;
  int64_t buffer_bytes(int64_t ranks_on_host) const override;

 private:
  Ticket take_ticket();
  void check(int status, const char* call) const;

  const MpiCalls& mpi_ = load_mpi();
  int rank_ = 0, size_ = 1;
  std::vector<std::vector<MpiCalls::Request>> under_way_;  // by ticket
  std::vector<Ticket> free_;
};

MpiTransport::MpiTransport() {
  const char* call = "";
  const int status = mpi_.start(&rank_, &size_, &call);
  check(status, call);
}

MpiTransport::~MpiTransport() {
  // Without the abort, ranks that wait for this one would wait for ever.
  if (std::uncaught_exceptions() > 0) mpi_.abort();
  mpi_.finish();
}

void MpiTransport::check(int status, const char* call) const {
  if (status == 0) return;
  std::array<char, 512> text{};
  mpi_.error_text(status, text.data(), text.size());
  throw Failure("{}: {}", call, text.data());
}

Transport::Ticket MpiTransport::take_ticket() {
  if (free_.empty()) {
    free_.push_back(static_cast<Ticket>(under_way_.size()));
    under_way_.emplace_back();
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  return ticket;
}

Transport::Ticket MpiTransport::send(int to, int tag, std::span<const std::byte> bytes) {
  const Ticket ticket = take_ticket();
  do {
    const auto part = bytes.first(std::min(bytes.size(), kLongest));
    MpiCalls::Request request = 0;
    check(mpi_.send(part.data(), static_cast<int>(part.size()), to, tag, &request), "MPI_Isend");
    under_way_[static_cast<size_t>(ticket)].push_back(request);
    bytes = bytes.subspan(part.size());
  } while (!bytes.empty());
  return ticket;
}

Transport::Ticket MpiTransport::receive(int from, int tag, std::span<std::byte> bytes) {
  const Ticket ticket = take_ticket();
  do {
    const auto part = bytes.first(std::min(bytes.size(), kLongest));
    MpiCalls::Request request = 0;
    check(mpi_.receive(part.data(), static_cast<int>(part.size()), from, tag, &request), "MPI_Irecv");
    under_way_[static_cast<size_t>(ticket)].push_back(request);
    bytes = bytes.subspan(part.size());
  } while (!bytes.empty());
  return ticket;
}

// Bytes of shared memory between ranks of one machine. Each rank has a box for every other rank and touches the boxes of all that
// wrote to it. The formula is a fit to the resident shared memory of Open MPI 4.1, which makes at most 32 boxes per rank
// (btl_vader_fbox_max).
//
//   ranks     2    4    8    16    32
//   KiB     128  252  668  1956  5460
int64_t MpiTransport::buffer_bytes(int64_t ranks_on_host) const {
  constexpr int64_t kPerRank = 74 << 10, kPerPair = 3 << 10, kMostBoxes = 32;
  if (ranks_on_host < 2) return 0;
  return ranks_on_host * (kPerRank + kPerPair * std::min(ranks_on_host, kMostBoxes));
}

bool MpiTransport::done(Ticket ticket) {
  std::vector<MpiCalls::Request>& requests = under_way_[static_cast<size_t>(ticket)];
  while (!requests.empty()) {
    int is_done = 0;
    check(mpi_.test(&requests.back(), &is_done), "MPI_Test");
    if (is_done == 0) return false;
    requests.pop_back();
  }
  free_.push_back(ticket);
  return true;
}

}  // namespace

std::unique_ptr<Transport> connect_through_mpi() { return std::make_unique<MpiTransport>(); }

}  // namespace trireme
