// trireme serve: runs in a browser, live.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/report_options.h"
#include "serve/http_server.h"
#include "serve/run_server.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct ServeArguments {
  std::string runs = "runs", host;
  int port = 4444;
  FactArguments facts;
};

int stop_writer = -1;

void on_stop(int) {
  const char byte = 0;
  [[maybe_unused]] const ssize_t ignored = ::write(stop_writer, &byte, 1);
}

// Returns a descriptor that becomes readable when a signal asks the program to end.
int stop_descriptor() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw Failure("no pipe can be made: too many files are open");
  stop_writer = ends[1];
  struct sigaction action {};
  action.sa_handler = on_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  return ends[0];
}

void require_folder(const std::string& runs) {
  std::error_code failed;
  if (!fs::exists(runs, failed)) throw UserError("{} is not there; give the folder that holds the runs", runs);
  if (!fs::is_directory(runs, failed))
    throw UserError("{} is not a folder; give the folder that holds the runs, or follow one log with trireme watch", runs);
}

void print_address(const ServeArguments& arguments, const AccessRules& access, int port) {
  const bool is_v6 = access.host.find(':') != std::string::npos;
  const std::string host = access.host.empty() ? "127.0.0.1" : is_v6 ? "[" + access.host + "]" : access.host;
  fmt::print("http://{}:{}/{}  shows the runs in {}; Ctrl-C ends it\n", host, port,
             access.token.empty() ? "" : "?token=" + access.token, arguments.runs);
  if (access.host.empty() && std::getenv("SSH_CONNECTION") != nullptr)
    fmt::print("from your machine: ssh -L {0}:127.0.0.1:{0} {1}@{2}, then http://127.0.0.1:{0}/\n", port, user_name(),
               host_name());
  std::fflush(stdout);
}

void serve(const ServeArguments& arguments) {
  require_folder(arguments.runs);
  ServeOptions options{.runs = arguments.runs, .access = {.host = arguments.host}, .facts = arguments.facts.options()};
  if (!arguments.host.empty()) options.access.token = random_token();
  options.access.cookie_name = fmt::format("trireme_{}", arguments.port);  // cookies do not tell ports apart
  // A run on the same machine goes first.
  ::setpriority(PRIO_PROCESS, 0, 10);
  const AccessRules access = options.access;
  std::unique_ptr<RunServer> runs;
  HttpServer server(arguments.host.empty() ? "127.0.0.1" : arguments.host, arguments.port,
                    [&](const HttpRequest& request) { return runs->answer(request); });
  runs = std::make_unique<RunServer>(std::move(options));
  const int stop = stop_descriptor();
  print_address(arguments, access, server.port());
  server.run(stop);
}

}  // namespace

void add_serve_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand("serve",
                                         "Show all runs of a folder in the browser, live. Nothing is written.\n\n"
                                         "examples:  trireme serve runs\n"
                                         "           trireme serve runs --port 8080\n");
  command->add_option("runs", arguments->runs, "the folder that holds the runs, ours, NeMo's or LitGPT's")->capture_default_str();
  command->add_option("--port", arguments->port, "where it listens; 0: any free port")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  command->add_option("--host", arguments->host,
                      "listen at this address, which other machines reach; a token is then required and printed; "
                      "else 127.0.0.1");
  arguments->facts.add_to(*command);
  command->callback([arguments, &status] {
    serve(*arguments);
    status = kDone;
  });
}

}  // namespace trireme
