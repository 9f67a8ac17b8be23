#include "serve/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(ParseRequest, TakesAWholeRequest) {
  const auto request = parse_request("GET /a%20b?x=1%2C2&flag&y=%26 HTTP/1.1\r\nHost: localhost:4444\r\nX-Other:  text \r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/a b");
  EXPECT_EQ(request->parameter("x"), "1,2");
  EXPECT_EQ(request->parameter("y"), "&");
  EXPECT_EQ(request->parameter("flag"), "");
  EXPECT_EQ(request->header("host"), "localhost:4444");
  EXPECT_EQ(request->header("x-other"), "text");
  EXPECT_EQ(request->header("none"), "");
}

TEST(ParseRequest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "GET", "GET /\r\n", "GET / HTTP/2\r\n", "GET x HTTP/1.1\r\n", "GET /%2 HTTP/1.1\r\n", "GET /%zz HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n", "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n", "GET http://evil/ HTTP/1.1\r\n"})
    EXPECT_FALSE(parse_request(text)) << text;
}

// A server with a thread, and what it answers to bytes.
class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() : server_("127.0.0.1", 0, [](const HttpRequest& request) { return answer(request); }) {
    EXPECT_EQ(::pipe(stop_.data()), 0);
    thread_ = std::thread([this] { server_.run(stop_[0]); });
  }
  ~HttpServerTest() override {
    EXPECT_EQ(::write(stop_[1], "x", 1), 1);
    thread_.join();
    ::close(stop_[0]), ::close(stop_[1]);
  }
  static HttpResponse answer(const HttpRequest& request) {
    if (request.path == "/throw") throw Failure("it broke");
    return {.body = "you asked for " + request.path, .headers = {"X-Mine: yes"}};
  }

  int connect() const {
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(server_.port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return connection;
  }
  // Everything that comes until the server closes the connection.
  std::string exchange(const std::string& bytes) const {
    const int connection = connect();
    EXPECT_EQ(::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::recv(connection, buffer.data(), buffer.size(), 0)) > 0;)
      text.append(buffer.data(), static_cast<size_t>(got));
    ::close(connection);
    return text;
  }

  std::array<int, 2> stop_{};
  HttpServer server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, AnswersSeveralRequestsOfAConnection) {
  const std::string text =
      exchange("GET /a HTTP/1.1\r\nHost: x\r\n\r\nHEAD /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(contains(text, "HTTP/1.1 200 OK"));
  EXPECT_TRUE(contains(text, "you asked for /a"));
  EXPECT_EQ(text.find("you asked for /b"), text.npos);  // HEAD
  EXPECT_TRUE(contains(text, "Content-Length: 16"));
  EXPECT_TRUE(contains(text, "X-Mine: yes"));
  EXPECT_TRUE(text.ends_with("you asked for /c"));
}

TEST_F(HttpServerTest, RefusesEverythingElse) {
  EXPECT_TRUE(exchange("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(exchange("DELETE / HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(exchange("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_EQ(exchange("GET /" + std::string(40'000, 'a')).substr(0, 4), "");  // too long: closed
  EXPECT_TRUE(contains(exchange("GET /throw HTTP/1.1\r\nConnection: close\r\n\r\n"), "it broke"));
}

TEST_F(HttpServerTest, AServerThatEndsClosesItsConnections) {
  const int idle = connect();  // the destructor would wait for it otherwise
  EXPECT_EQ(::send(idle, "GET ", 4, MSG_NOSIGNAL), 4);
  ::close(::dup(idle));
}

TEST_F(HttpServerTest, APortInUseIsAMistakeOfOneLine) {
  const std::string text = message_of<UserError>([&] { HttpServer("127.0.0.1", server_.port(), answer); });
  EXPECT_TRUE(contains(text, fmt::format("port {} of 127.0.0.1 is in use", server_.port())));
  EXPECT_TRUE(contains(message_of<UserError>([] { HttpServer("192.0.2.1", 0, answer); }), "--host 192.0.2.1"));
  EXPECT_TRUE(contains(message_of<UserError>([] { HttpServer("no such name", 0, answer); }), "--host no such name"));
}

}  // namespace
}  // namespace trireme
