#include "comm/nccl_session.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <exception>
#include <thread>

#include "base/clock.h"

namespace trireme {
namespace {

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

}  // namespace

NcclSession::NcclSession(Backend& backend, DeviceStreams& streams, Progress& progress)
    : backend_(backend), streams_(streams), progress_(progress), memory_(backend.allocate(sizeof(float))) {
  one_number_ = {memory_.block.get(), DType::f32, {1}, memory_.device};
  streams_.set_watch([this](const Event& event, double seconds) { watch(event, seconds); });
}

NcclSession::~NcclSession() {
  const bool fails = std::uncaught_exceptions() > 0;  // other ranks may be gone then
  for (NcclCommunicator* communicator : communicators_) {
    if (fails) {
      library_.abort(communicator);
      continue;
    }
    const Stopwatch watch;
    constexpr double kPatience = 10;
    NcclResult result = library_.finalize(communicator);
    while (result == NcclResult::in_progress && watch.seconds() < kPatience) {
      pause();
      library_.async_error(communicator, &result);
    }
    result == NcclResult::success ? library_.destroy(communicator) : library_.abort(communicator);
  }
  streams_.set_watch({});
}

NcclCommunicator* NcclSession::connect(const NcclUniqueId& id, Seat seat, const std::string& what) {
  NcclCommunicator* communicator = nullptr;
  const NcclResult result = library_.begin_connecting(&communicator, seat.size, id, seat.rank);
  if (communicator != nullptr) communicators_.push_back(communicator);
  check(result, communicator, [&] { return what + " cannot connect"; });
  return communicator;
}

void NcclSession::check(NcclResult result, NcclCommunicator* communicator, const std::function<std::string()>& what) {
  const Stopwatch watch;
  while (result == NcclResult::in_progress) {
    pause();
    progress_.rethrow_failure();
    if (watch.seconds() > static_cast<double>(progress_.timeout().count()))
      give_up(fmt::format("waited {} s: {}; other ranks did not come", progress_.timeout().count(), what()));
    if (const NcclResult asked = library_.async_error(communicator, &result); asked != NcclResult::success) result = asked;
  }
  if (result != NcclResult::success) give_up(fmt::format("{}: {}", what(), library_.result_text(result, communicator)));
}

void NcclSession::add(const Call& call, const HostGroup& group) {
  Ring<UnderWay>& line = lines_[call.stream.number()];
  while (!line.empty() && streams_.reached(line.front().done)) line.pop_front();
  line.push_back({.call = call,
                  .group = &group,
                  .number = progress_.count_call(group.id(), call.stream),
                  .done = backend_.record(call.stream, "called")});
}

// Runs repeatedly while the host waits for the device.
void NcclSession::watch(const Event& event, double seconds) {
  progress_.rethrow_failure();
  for (NcclCommunicator* communicator : communicators_) {
    NcclResult result = NcclResult::success;
    if (library_.async_error(communicator, &result) != NcclResult::success) continue;
    if (result != NcclResult::success && result != NcclResult::in_progress)
      give_up(fmt::format("{} while waiting for \"{}\"; under way: {}", library_.result_text(result, communicator), event.name,
                          under_way_text()));
  }
  if (seconds > static_cast<double>(progress_.timeout().count()))
    give_up(fmt::format("waited {} s for \"{}\"; under way: {}", progress_.timeout().count(), event.name, under_way_text()));
}

std::string NcclSession::under_way_text() {
  std::vector<std::string> texts;
  for (Ring<UnderWay>& line : lines_) {
    while (!line.empty() && streams_.reached(line.front().done)) line.pop_front();
    if (line.empty()) continue;
    const UnderWay& first = line.front();
    const Awaited awaited = first.group->awaited(first.call);
    const std::string missing = progress_.missing_text(awaited.ranks, first.group->id(), awaited.stream, first.number);
    texts.push_back(first.group->text(first.call) + (missing.empty() ? "" : "; " + missing));
  }
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, "; "));
}

void NcclSession::give_up(const std::string& text) {
  const std::string line = fmt::format("{}; {}", text, where());
  for (NcclCommunicator* communicator : communicators_) library_.abort(communicator);
  communicators_.clear();
  throw Failure("{}", line);
}

std::string NcclSession::where() const {
  if (!log_.is_known()) return library_.name() + ", network not known: its log goes where NCCL_DEBUG says";
  const NcclFacts facts = log_.facts();
  return fmt::format("{}, network {}, {}", library_.name(), facts.network.empty() ? "none yet" : facts.network,
                     facts.plugin.empty() ? "no net plugin" : "net plugin " + facts.plugin);
}

void NcclSession::note_transport(const std::string& group) { groups_[group] = log_.new_facts(); }

std::string NcclSession::description() const {
  std::string text = where();
  if (!topology_.description().empty()) text += "; " + topology_.description();
  if (!log_.is_known()) return text;
  for (const auto& [group, facts] : groups_)
    text += fmt::format("; {} over {}", group,
                        facts.transports.empty() ? "nothing" : fmt::format("{}", fmt::join(facts.transports, " and ")));
  return text;
}

void NcclSession::require_network() const {
  const std::string complaint = network_complaint(log_.facts(), [](const char* name) { return std::getenv(name); });
  if (!complaint.empty()) throw UserError("{} ({})", complaint, library_.name());
}

}  // namespace trireme
