#include "comm/door.h"

#include <poll.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr uint8_t kGreetingKind = 0, kAnswerKind = 1;
constexpr size_t kMostGreetingBytes = 64 << 10;  // ten times what the cores and addresses of a large machine need
constexpr size_t kMostAnswerBytes = 1 << 20;
constexpr std::chrono::seconds kTimeToGreet{10};  // a rank sends its greeting as soon as it is connected
constexpr size_t kMostStrangers = 64;             // connections without a greeting, at a time

constexpr const char* kKindNames[] = {"silence", "other job", "refused", "welcome"};

// Only a process of the job can compute this proof, so another program that happens to listen is not taken for rank 0.
std::string proof_of(const std::string& secret) { return secret_of("answer " + secret); }

json answer_json(DoorAnswer::Kind kind, const std::string& text, const std::string& proof) {
  return {{"answer", kKindNames[static_cast<size_t>(kind)]}, {"text", text}, {"proof", proof}};
}

DoorAnswer answer_from(const std::string& text, const Greeting& greeting) {
  const json in = try_parse_json(text);
  const auto field = [&](const char* name) {
    const auto found = in.is_object() ? in.find(name) : in.end();
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const auto kind : {DoorAnswer::Kind::other_job, DoorAnswer::Kind::refused, DoorAnswer::Kind::welcome}) {
    if (field("answer") != kKindNames[static_cast<size_t>(kind)]) continue;
    if (kind == DoorAnswer::Kind::other_job || field("proof") == proof_of(greeting.secret)) return {kind, field("text")};
  }
  return {};
}

}  // namespace

std::string secret_of(const std::string& text) {
  Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.finish();
}

json json_of(const Greeting& greeting) {
  const RankPlace& place = greeting.place;
  return {{"trireme", greeting.protocol}, {"secret", greeting.secret},      {"rank", greeting.rank},
          {"size", greeting.size},        {"program", greeting.program},    {"recipe", greeting.recipe},
          {"host", place.host},           {"process", place.process},       {"cores", place.cores},
          {"port", greeting.port},        {"addresses", greeting.addresses}};
}

std::optional<Greeting> greeting_from(const json& in) {
  Greeting greeting;
  try {
    const int protocol = std::exchange(greeting.protocol, in.at("trireme").get<int>());
    greeting.secret = in.at("secret");
    if (greeting.protocol != protocol) return greeting;
    in.at("rank").get_to(greeting.rank);
    in.at("size").get_to(greeting.size);
    in.at("program").get_to(greeting.program);
    in.at("recipe").get_to(greeting.recipe);
    in.at("host").get_to(greeting.place.host);
    in.at("process").get_to(greeting.place.process);
    in.at("cores").get_to(greeting.place.cores);
    in.at("port").get_to(greeting.port);
    in.at("addresses").get_to(greeting.addresses);
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return greeting;
}

// ---------------------------------------------------------------------------------------------------- in front of a door

bool greet(TcpConnection& connection, const Greeting& greeting) {
  return connection.send({.kind = kGreetingKind, .text = json_text(json_of(greeting), kOneLine)});
}

std::optional<DoorAnswer> take_answer(TcpConnection& connection, const Greeting& greeting) {
  const std::optional<TcpMessage> message = connection.take_one(kMostAnswerBytes);
  if (!message && connection.is_open()) return std::nullopt;
  return message && message->kind == kAnswerKind ? answer_from(message->text, greeting) : DoorAnswer{};
}

DoorAnswer wait_for_answer(TcpConnection& connection, const Greeting& greeting, std::chrono::milliseconds limit) {
  const std::optional<TcpMessage> message = connection.wait_for_one(kMostAnswerBytes, limit);
  return message && message->kind == kAnswerKind ? answer_from(message->text, greeting) : DoorAnswer{};
}

// ------------------------------------------------------------------------------------------------------------- the door

Door::Door(TcpListener listener, std::string secret, int ranks)
    : listener_(std::move(listener)), secret_(std::move(secret)), most_pending_(kMostStrangers + static_cast<size_t>(ranks)) {}

std::optional<Visitor> Door::next(std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (true) {
    accept_all();
    if (std::optional<Visitor> visitor = read_greetings()) return visitor;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    std::vector<pollfd> entries = {{.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Pending& one : pending_) entries.push_back({.fd = one.connection.descriptor(), .events = POLLIN, .revents = 0});
    ::poll(entries.data(), entries.size(), static_cast<int>(std::min(left, std::chrono::milliseconds(kTimeToGreet)).count()));
  }
}

void Door::accept_all() {
  while (true) {
    TcpConnection connection = listener_.accept();
    if (!connection.is_open()) return;
    pending_.push_back({std::move(connection), Clock::now()});
    if (pending_.size() <= most_pending_) continue;
    pending_.erase(pending_.begin());
    ++strangers_;
  }
}

std::optional<Visitor> Door::read_greetings() {
  for (size_t i = 0; i < pending_.size();) {
    Pending& one = pending_[i];
    const std::optional<TcpMessage> message = one.connection.take_one(kMostGreetingBytes);
    const bool is_waited_for = !message && one.connection.is_open() && Clock::now() < one.since + kTimeToGreet;
    if (is_waited_for) {
      ++i;
      continue;
    }
    TcpConnection connection = std::move(one.connection);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    std::optional<Greeting> greeting;
    if (message && message->kind == kGreetingKind) greeting = greeting_from(try_parse_json(message->text));
    if (greeting && is_known(*greeting, connection)) return Visitor{std::move(connection), std::move(*greeting)};
    ++strangers_;
  }
  return std::nullopt;
}

bool Door::is_known(const Greeting& greeting, TcpConnection& connection) {
  const auto answer = [&](DoorAnswer::Kind kind, const std::string& text, const std::string& proof) {
    connection.send({.kind = kAnswerKind, .text = json_text(answer_json(kind, text, proof), kOneLine)});
    return false;
  };
  if (greeting.secret != secret_) return answer(DoorAnswer::Kind::other_job, "", "");
  if (greeting.protocol == Greeting{}.protocol) return true;
  return answer(DoorAnswer::Kind::refused, "it speaks another protocol; install the same trireme on all machines",
                proof_of(secret_));
}

TcpConnection Door::let_in(Visitor visitor, const std::string& text) {
  const json answer = answer_json(DoorAnswer::Kind::welcome, text, proof_of(secret_));
  visitor.connection.send({.kind = kAnswerKind, .text = json_text(answer, kOneLine)});
  return std::move(visitor.connection);
}

void Door::send_away(Visitor visitor, const std::string& reason) {
  const json answer = answer_json(DoorAnswer::Kind::refused, reason, proof_of(secret_));
  visitor.connection.send({.kind = kAnswerKind, .text = json_text(answer, kOneLine)});
}

}  // namespace trireme
