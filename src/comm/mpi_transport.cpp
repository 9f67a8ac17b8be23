#include "comm/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

// MPI counts are ints, so longer messages are sent in parts.
constexpr size_t kLongest = size_t{1} << 30;

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Failure("{}: {}", what, std::string_view(text, static_cast<size_t>(length)));
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

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<std::vector<MPI_Request>> under_way_;  // by ticket
  std::vector<Ticket> free_;
};

MpiTransport::MpiTransport() {
  int given = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
  if (given < MPI_THREAD_SERIALIZED) throw Failure("this MPI cannot be called from a second thread");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

MpiTransport::~MpiTransport() {
  // Without the abort, ranks that wait for this one would wait for ever.
  if (std::uncaught_exceptions() > 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
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
    MPI_Request request;
    check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to, tag, comm_, &request), "MPI_Isend");
    under_way_[static_cast<size_t>(ticket)].push_back(request);
    bytes = bytes.subspan(part.size());
  } while (!bytes.empty());
  return ticket;
}

Transport::Ticket MpiTransport::receive(int from, int tag, std::span<std::byte> bytes) {
  const Ticket ticket = take_ticket();
  do {
    const auto part = bytes.first(std::min(bytes.size(), kLongest));
    MPI_Request request;
    check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from, tag, comm_, &request), "MPI_Irecv");
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
  std::vector<MPI_Request>& requests = under_way_[static_cast<size_t>(ticket)];
  int all = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (all == 0) return false;
  requests.clear();
  free_.push_back(ticket);
  return true;
}

}  // namespace

std::unique_ptr<Transport> connect_through_mpi() { return std::make_unique<MpiTransport>(); }

}  // namespace trireme
