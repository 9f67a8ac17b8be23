// A small HTTP/1.1 server for one page and its data: GET and HEAD, a thread per connection, bounded in everything. The
// distribution's cpp-httplib is a shared library of another version in every release, and the program has to run where it is not
// installed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct HttpRequest {
  std::string method, path;                    // the path is decoded
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // by lower-case name
  std::string header(const std::string& name) const;
  std::string parameter(const std::string& name) const;  // of the query; empty if it is not there
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::string> headers = {};  // more of them, "Name: value"
};

// The request in `text`, which ends with an empty line; nothing if it is not one.
std::optional<HttpRequest> parse_request(std::string_view text);

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Binds the address; port 0 takes a free one. UserError if the port is in use or the address is not one of this machine.
  HttpServer(const std::string& address, int port, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

  // Answers until `stop` becomes readable. Handlers run in threads; one that throws answers 500.
  void run(int stop);

 private:
  void serve(int connection);
  void answer(int connection, const HttpRequest& request, bool is_last) const;
  void end_all();

  const Handler handler_;
  int listener_ = -1, port_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<int> connections_;
};

}  // namespace trireme
