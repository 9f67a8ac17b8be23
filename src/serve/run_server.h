// What `trireme serve` answers: the page, its data, and /metrics. Nothing is written, and runs are named by their ids, never by a
// path.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "report/run_facts.h"
#include "serve/access.h"
#include "serve/feed_cache.h"
#include "serve/http_server.h"
#include "serve/run_index.h"

namespace trireme {

struct ServeOptions {
  std::filesystem::path runs;
  AccessRules access;
  FactOptions facts;
};

class RunServer {
 public:
  explicit RunServer(ServeOptions options);
  ~RunServer();
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;

  HttpResponse answer(const HttpRequest& request);  // from any thread

 private:
  HttpResponse route(const HttpRequest& request);
  HttpResponse runs(const HttpRequest& request);
  HttpResponse about_run(const RunEntry& run, const HttpRequest& request);
  HttpResponse series(const RunEntry& run, const HttpRequest& request);
  HttpResponse log(const RunEntry& run, const HttpRequest& request) const;
  HttpResponse ranks(const RunEntry& run, const HttpRequest& request) const;
  HttpResponse metrics();

  void wake();  // somebody looks
  void scan_while_asked();

  const ServeOptions options_;
  RunIndex index_;
  FeedCache feeds_;

  std::mutex mutex_;
  std::condition_variable asked_;
  double asked_at_ = 0;
  bool is_asked_ = false;
  std::atomic<bool> stop_ = false;
  std::thread scanner_;  // last, so that it starts with everything else there
};

}  // namespace trireme
