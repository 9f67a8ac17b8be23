#include "comm/meeting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/build_info.h"
#include "base/json.h"
#include "base/process.h"

namespace trireme {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using MeetingClock = std::chrono::steady_clock;

// Messages after a welcome: facts go to rank 0, the others come from it.
enum MeetingKind : uint8_t { kFactsKind = 16, kAllHereKind, kEndKind };

constexpr milliseconds kGlance{50};            // how often the connections of admitted ranks are read
constexpr seconds kTimeToConnect{2};           // per address and port
constexpr seconds kTimeToAnswer{3};            // a process that listens and does not answer is not rank 0
constexpr seconds kTimeToComeBack{3};          // to open a broken connection again; a process that died does not
constexpr seconds kTimeForRank0{10};           // added to the timeout, because rank 0 can name the missing ranks
constexpr size_t kMostMeetingBytes = 1 << 28;  // the greetings of all ranks

std::string program_text() { return fmt::format("trireme {} ({}), build {:.8}", kVersion, kCommit, build_id()); }

std::string digest_of(const SharedFacts& facts) { return facts.empty() ? "" : secret_of(json_text(json(facts), kOneLine)); }

std::string random_secret() {
  return secret_of(fmt::format("{:08x}{:08x}{:08x}{:08x}", random_bits(), random_bits(), random_bits(), random_bits()));
}

std::string name_of(const Greeting& greeting) {
  return fmt::format("rank {} ({}, process {})", greeting.rank, greeting.place.host, greeting.place.process);
}

json json_of(const JobEnd& end) { return {{"status", end.status}, {"line", end.line}}; }

// Reports what this rank waits for, after 2 s and then every 10 s.
class Patience {
 public:
  explicit Patience(const MeetingTerms& terms) : terms_(terms) {}

  bool is_over(seconds more = seconds(0)) const { return MeetingClock::now() > start_ + terms_.timeout + more; }
  template <class Text>
  void say(const Text& text) {
    if (MeetingClock::now() < next_) return;
    next_ = MeetingClock::now() + seconds(10);
    const std::string line = fmt::format("{} ({} s of {})", text(), waited(), terms_.timeout.count());
    if (terms_.notice)
      terms_.notice(line);
    else
      fmt::print(stderr, "{}\n", line);
  }
  int64_t waited() const { return std::chrono::duration_cast<seconds>(MeetingClock::now() - start_).count(); }

 private:
  const MeetingTerms& terms_;
  MeetingClock::time_point start_ = MeetingClock::now(), next_ = start_ + seconds(2);
};

// ---------------------------------------------------------------------------------------------------------------- rank 0

class Host {
 public:
  Host(Door door, const Greeting& own, const MeetingTerms& terms);
  Company receive_all();

 private:
  struct Guest {
    TcpConnection connection;
    Greeting greeting;
    bool has_come = false;
    bool differs = false;             // its recipe differs; its facts will follow
    MeetingClock::time_point left{};  // when its connection broke, if it is not open
  };

  void admit(Visitor visitor);
  void look_after_guests();
  [[noreturn]] void complain(const Guest& guest, const std::string& facts) const;
  void tell_all(uint8_t kind, const std::string& text);
  std::vector<int> missing() const;
  std::string missing_text() const;

  Door door_;
  const MeetingTerms& terms_;
  Patience patience_{terms_};
  std::vector<Guest> guests_;  // by rank; the first is rank 0
  std::string sent_away_;      // the last process that was refused, and why
};

Host::Host(Door door, const Greeting& own, const MeetingTerms& terms) : door_(std::move(door)), terms_(terms) {
  guests_.resize(static_cast<size_t>(own.size));
  guests_[0].greeting = own;
  guests_[0].has_come = true;
}

std::vector<int> Host::missing() const {
  std::vector<int> ranks;
  for (size_t rank = 1; rank < guests_.size(); ++rank)
    if (!guests_[rank].connection.is_open() || guests_[rank].differs) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::string Host::missing_text() const {
  const std::vector<int> ranks = missing();
  std::string text = fmt::format("{} {} of {}", ranks.size() == 1 ? "rank" : "ranks", range_text(ranks), guests_.size());
  text += fmt::format("; rank 0 listens at {}, port {}", guests_[0].greeting.place.host, door_.port());
  if (!sent_away_.empty()) text += fmt::format("; sent away: {}", sent_away_);
  if (door_.strangers() > 0) text += fmt::format("; {} connections were not of this job", door_.strangers());
  return text;
}

void Host::admit(Visitor visitor) {
  const Greeting greeting = visitor.greeting;
  const Greeting& own = guests_[0].greeting;
  const auto refuse = [&](const std::string& reason) {
    sent_away_ = fmt::format("{}: {}", name_of(greeting), reason);
    door_.send_away(std::move(visitor), reason);
  };
  if (greeting.size != own.size)
    return refuse(fmt::format("it was told that there are {} ranks, and rank 0 that there are {}", greeting.size, own.size));
  if (greeting.rank <= 0 || greeting.rank >= own.size) return refuse(fmt::format("rank {} is taken", greeting.rank));
  Guest& guest = guests_[static_cast<size_t>(greeting.rank)];
  if (guest.connection.is_open() && guest.connection.read() == TcpConnection::State::open)
    return refuse(fmt::format("{} is here already; look at what sets RANK", name_of(guest.greeting)));
  if (greeting.program != own.program)
    throw UserError("{} is {}, and rank 0 is {}; install the same program on all machines", name_of(greeting), greeting.program,
                    own.program);
  const bool differs = !own.recipe.empty() && !greeting.recipe.empty() && own.recipe != greeting.recipe;
  guest = {
      .connection = door_.let_in(std::move(visitor), own.recipe), .greeting = greeting, .has_come = true, .differs = differs};
}

void Host::complain(const Guest& guest, const std::string& facts) const {
  const json in = try_parse_json(facts);
  throw UserError("{} differs from rank 0: {}; start all ranks with the same recipe, data and options", name_of(guest.greeting),
                  in.is_array() ? difference_of(terms_.facts, in.get<SharedFacts>()) : "it does not say which");
}

// A rank sends a message only if its recipe differs.
void Host::look_after_guests() {
  for (Guest& guest : guests_) {
    if (guest.connection.is_open()) {
      if (const std::optional<TcpMessage> message = guest.connection.take_one(kMostMeetingBytes)) complain(guest, message->text);
      if (!guest.connection.is_open()) guest.left = MeetingClock::now();
    } else if (guest.has_come && guest.greeting.rank != 0 && MeetingClock::now() > guest.left + kTimeToComeBack) {
      throw Failure("{} died before all ranks had met", name_of(guest.greeting));
    }
  }
}

void Host::tell_all(uint8_t kind, const std::string& text) {
  for (Guest& guest : guests_)
    if (guest.connection.is_open()) guest.connection.send({.kind = kind, .text = text});
}

Company Host::receive_all() {
  try {
    while (!missing().empty()) {
      if (std::optional<Visitor> visitor = door_.next(kGlance)) admit(std::move(*visitor));
      look_after_guests();
      patience_.say([&] { return "waiting for " + missing_text(); });
      if (patience_.is_over() && !missing().empty())
        throw Failure("waited {} s for {}; trainer.rank_timeout={} sets how long", patience_.waited(), missing_text(),
                      terms_.timeout.count());
    }
  } catch (const std::exception& error) {
    const bool is_users = dynamic_cast<const UserError*>(&error) != nullptr;
    tell_all(kEndKind, json_text(json_of(JobEnd{.status = is_users ? 2 : 1, .line = error.what()}), kOneLine));
    throw;
  }
  Company company{.rank = 0, .connections = {}, .ranks = {}, .secret = random_secret()};
  json all = {{"secret", company.secret}, {"ranks", json::array()}};
  for (const Guest& guest : guests_) all["ranks"].push_back(trireme::json_of(guest.greeting));
  tell_all(kAllHereKind, json_text(all, kOneLine));
  for (Guest& guest : guests_) {
    company.connections.push_back(std::move(guest.connection));
    company.ranks.push_back(std::move(guest.greeting));
  }
  return company;
}

// ------------------------------------------------------------------------------------------------------------ the others

// Where rank 0 may listen.
struct Where {
  std::vector<std::string> addresses;
  std::vector<int> ports;

  std::string text() const {
    return fmt::format("{}, port {}{}", fmt::join(addresses, " or "), ports.front(),
                       ports.size() > 1 ? fmt::format(" or {} others", ports.size() - 1) : "");
  }
};

// Greets the process at one address. Returns a connection to rank 0 if it admitted this rank; otherwise a closed connection, and
// `answer` says why.
TcpConnection knock(const std::string& address, int port, const Greeting& own, DoorAnswer& answer) {
  answer = {};
  TcpConnection connection = TcpConnection::try_open(address, port, kTimeToConnect, answer.text);
  if (!connection.is_open()) return connection;
  if (greet(connection, own)) answer = wait_for_answer(connection, own, kTimeToAnswer);
  const std::string place = fmt::format("{}, port {}", address, port);
  switch (answer.kind) {
    case DoorAnswer::Kind::welcome:
      return connection;
    case DoorAnswer::Kind::refused:
      throw UserError("rank 0 at {} does not take this process as rank {} of {}: {}", place, own.rank, own.size, answer.text);
    case DoorAnswer::Kind::other_job:
      answer.text = fmt::format("at {} is rank 0 of another job", place);
      break;
    case DoorAnswer::Kind::silence:
      answer.text = fmt::format("what listens at {} is not rank 0", place);
      break;
  }
  return {};
}

// Sets `recipe` to rank 0's digest of its facts.
TcpConnection find_rank_0(const Where& where, const Greeting& own, Patience& patience, std::string& recipe) {
  while (true) {
    std::string why;
    for (const int port : where.ports)
      for (const std::string& address : where.addresses) {
        DoorAnswer answer;
        TcpConnection connection = knock(address, port, own, answer);
        if (connection.is_open()) {
          recipe = answer.text;
          return connection;
        }
        if (answer.text.size() > why.size()) why = answer.text;  // the longest explanation is the most specific
      }
    patience.say([&] { return fmt::format("rank {} is waiting for rank 0 at {}: {}", own.rank, where.text(), why); });
    if (patience.is_over())
      throw Failure("rank {} waited {} s for rank 0 at {}: {}; trainer.rank_timeout sets how long", own.rank, patience.waited(),
                    where.text(), why);
    std::this_thread::sleep_for(kGlance);
  }
}

// Rank 0 prints why the job ends. This rank waits for that, because a launcher that sees it exit first might kill rank 0 before.
[[noreturn]] void leave_after_rank_0(TcpConnection& connection, const json& end) {
  connection.wait_for_one(0, kTimeToAnswer);
  throw JobEnded({.status = end.value("status", 1), .line = end.value("line", ""), .is_said = true});
}

Company join(const Where& where, const Greeting& own, const MeetingTerms& terms) {
  Patience patience(terms);
  std::string recipe;
  TcpConnection connection = find_rank_0(where, own, patience, recipe);
  const bool differs = !recipe.empty() && !own.recipe.empty() && recipe != own.recipe;
  if (differs) connection.send({.kind = kFactsKind, .text = json_text(json(terms.facts), kOneLine)});
  std::optional<TcpMessage> message;
  while (!message) {
    message = connection.wait_for_one(kMostMeetingBytes, kGlance);
    if (!message && !connection.is_open())
      throw Failure("rank {} lost the connection to rank 0 at {} before all ranks had met", own.rank, where.text());
    if (!message && patience.is_over(kTimeForRank0))
      throw Failure("rank {} waited {} s for rank 0 at {}, which is silent", own.rank, patience.waited(), where.text());
  }
  const json in = parse_json(message->text);
  if (message->kind == kEndKind) leave_after_rank_0(connection, in);
  Company company{.rank = own.rank, .connections = {}, .ranks = {}, .secret = in.at("secret")};
  for (const json& rank : in.at("ranks")) company.ranks.push_back(greeting_from(rank).value());
  company.connections.resize(company.ranks.size());
  company.connections[0] = std::move(connection);
  return company;
}

// Listens at the first port that is free.
TcpListener listen_at(const Rendezvous& where) {
  for (const int port : where.ports) {
    try {
      return TcpListener(port, where.reach);
    } catch (const Failure& failure) {
      if (port == where.ports.back() && where.ports.size() == 1)
        throw UserError("rank 0 {}; another job may have it: give this one another MASTER_PORT", failure.what());
    }
  }
  throw Failure("rank 0 cannot listen on any of the TCP ports {}", fmt::join(where.ports, ", "));
}

Greeting complete(Greeting own, const MeetingTerms& terms) {
  own.program = program_text();
  own.recipe = digest_of(terms.facts);
  own.place = place_of_this_process();
  return own;
}

}  // namespace

std::string difference_of(const SharedFacts& of_rank_0, const SharedFacts& of_other) {
  const std::map<std::string, std::string> mine(of_rank_0.begin(), of_rank_0.end()), theirs(of_other.begin(), of_other.end());
  const auto value = [](const auto& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? "not set" : found->second;
  };
  std::map<std::string, std::string> all = mine;
  all.insert(theirs.begin(), theirs.end());
  constexpr size_t kMostShown = 3;
  std::vector<std::string> shown;
  size_t count = 0;
  for (const auto& [name, ignored] : all) {
    if (value(mine, name) == value(theirs, name) || ++count > kMostShown) continue;
    shown.push_back(fmt::format("{}={} (rank 0: {})", name, value(theirs, name), value(mine, name)));
  }
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (count > kMostShown) text += fmt::format(", and {} more differ", count - kMostShown);
  return text;
}

Company meet(const Rendezvous& where, const Greeting& own, const MeetingTerms& terms) {
  Greeting greeting = complete(own, terms);
  greeting.rank = where.rank;
  greeting.size = where.size;
  greeting.secret = secret_of(where.job);
  if (where.rank != 0) return join({{where.address}, where.ports}, greeting, terms);
  return Host(Door(listen_at(where), greeting.secret, where.size), greeting, terms).receive_all();
}

Company meet(int rank, int size, Reach reach, const ShareText& share, const MeetingTerms& terms) {
  Greeting greeting = complete({.rank = rank, .size = size, .place = {}, .addresses = {}}, terms);
  if (rank != 0) {
    const json address = parse_json(share(""));
    greeting.secret = address.at("secret");
    std::vector<std::string> addresses = address.at("addresses").get<std::vector<std::string>>();
    if (address.at("host") == host_name()) addresses.insert(addresses.begin(), "127.0.0.1");
    return join({addresses, {address.at("port").get<int>()}}, greeting, terms);
  }
  greeting.secret = random_secret();
  Door door(TcpListener(0, reach), greeting.secret, size);
  share(
      json_text(json{{"host", host_name()}, {"addresses", door.addresses()}, {"port", door.port()}, {"secret", greeting.secret}},
                kOneLine));
  return Host(std::move(door), greeting, terms).receive_all();
}

}  // namespace trireme
