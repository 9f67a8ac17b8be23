#include "serve/run_server.h"

#include <fmt/format.h>
#include <serve_page.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "base/start_threads.h"
#include "report/metrics.h"
#include "serve/log_tail.h"
#include "serve/prometheus.h"
#include "serve/rank_times.h"
#include "telemetry/task_scores.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostBytes = int64_t{2} << 30;
constexpr double kMetricsSeconds = 2;
constexpr double kReadSeconds = 0.2;  // per request, so that a long log appears piece by piece
constexpr double kForgottenSeconds = 60, kLeastPause = 2, kMostPause = 60, kPausePerScan = 200;

HttpResponse json_response(std::string text) { return {.type = "application/json; charset=utf-8", .body = std::move(text)}; }
HttpResponse json_response(const ordered_json& json) { return json_response(json_text(json, kOneLine)); }

int64_t number_in(const HttpRequest& request, const char* name, int64_t otherwise, int64_t least, int64_t most) {
  const std::string text = request.parameter(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::clamp(value, least, most) : otherwise;
}

constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

// What the page has of a quantity already: "loss:4:1200", groups of 4 points before step 1200.
struct Had {
  size_t group = 0;
  int64_t step = 0;
};
std::optional<Had> had_of(const std::string& list, std::string_view key) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = std::string_view(list).substr(begin, end - begin);
    const size_t first = item.find(':'), second = item.rfind(':');
    Had had;
    if (first != item.npos && second > first && item.substr(0, first) == key &&
        std::from_chars(item.data() + first + 1, item.data() + second, had.group).ec == std::errc{} &&
        std::from_chars(item.data() + second + 1, item.data() + item.size(), had.step).ec == std::errc{})
      return had;
    begin = end + 1;
  }
  return std::nullopt;
}

void append_positions(std::string& out, const ThinnedSeries& series, const History& axis) {
  out += "\"x\":[";
  for (size_t i = 0; i < series.steps.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, axis.at_or_before(series.steps[i]).value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  out += "],";
}

ordered_json latest_of(const RunFeed& feed) {
  ordered_json latest = ordered_json::object();
  for (size_t i = 0; i < static_cast<size_t>(Quantity::count_); ++i) {
    const History& history = feed.of(static_cast<Quantity>(i));
    if (history.empty()) continue;
    const Point last = history.back();
    latest[std::string(row_of(static_cast<Quantity>(i)).key)] = {
        {"step", last.step}, {"value", last.value}, {"recent", history.recent_median(kRecentSteps)}};
  }
  return latest;
}

ordered_json optional_json(const auto& value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

ordered_json row_json(const RunEntry& run) {
  return {{"id", run.id},
          {"name", run.name},
          {"state", name_of(run.state)},
          {"modified", run.modified},
          {"steps", optional_json(run.steps_done)},
          {"loss", optional_json(run.loss)},
          {"gone", run.is_gone}};
}

// Null if the model was not scored on tasks.
nlohmann::json last_task_scores(const std::filesystem::path& run) {
  const std::vector<std::string> lines = last_lines((run / kTaskScoresName).string(), 1, size_t{1} << 16);
  if (lines.empty()) return nullptr;
  nlohmann::json json = nlohmann::json::parse(lines.back(), nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("scores") && json["scores"].is_object() ? json : nlohmann::json(nullptr);
}

ordered_json about_json(const RunEntry& run, const RunFeed& feed) {
  const RunFacts& facts = feed.facts();
  ordered_json about = row_json(run);
  about["done"] = optional_json(feed.steps_done());
  about["planned"] = optional_json(feed.planned_steps());
  about["elapsed"] = feed.elapsed().empty() ? ordered_json() : ordered_json(feed.elapsed().back().value);
  about["latest"] = latest_of(feed);
  about["layout"] = layout_text(facts);
  about["accelerators"] = optional_json(facts.accelerators);
  about["tokens_per_step"] = optional_json(facts.tokens_per_step());
  about["peak"] = facts.peak ? fmt::format("{:g} TFLOP/s, {}", facts.peak->tflops, facts.peak->name) : "";
  about["goodput"] = feed.summary().is_object() ? feed.summary().value("goodput", nlohmann::json()) : nlohmann::json();
  about["tasks"] = last_task_scores(run.folder);
  about["log"] = feed.log_path();
  about["notes"] = feed.notes();
  for (const std::string& warning : facts.warnings) about["notes"].push_back(warning);
  return about;
}

}  // namespace

RunServer::RunServer(ServeOptions options)
    : options_(std::move(options)), index_(options_.runs), feeds_(options_.facts, kMostBytes) {
  facts_of({}, options_.facts);  // a mistake in them is found before anybody looks
  scanner_ = start_thread([this] { scan_while_asked(); });
}

RunServer::~RunServer() {
  stop_ = true;
  {
    const std::lock_guard lock(mutex_);
    is_asked_ = true;
  }
  asked_.notify_all();
  scanner_.join();
}

void RunServer::wake() {
  const std::lock_guard lock(mutex_);
  const double now = system_clock().seconds();
  is_asked_ = is_asked_ || now - asked_at_ > kForgottenSeconds || !index_.is_complete();
  asked_at_ = now;
  if (is_asked_) asked_.notify_all();
}

// Pauses are so long that scanning takes little of a core, and without end while nobody looks.
void RunServer::scan_while_asked() {
  while (!stop_) {
    const Stopwatch watch;
    index_.scan(stop_);
    const double pause = std::clamp(watch.seconds() * kPausePerScan, kLeastPause, kMostPause);
    std::unique_lock lock(mutex_);
    is_asked_ = false;
    asked_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return stop_.load(); });
    const auto is_watched = [&] { return is_asked_ || system_clock().seconds() - asked_at_ < kForgottenSeconds; };
    while (!stop_ && !is_watched()) asked_.wait(lock);
  }
}

HttpResponse RunServer::answer(const HttpRequest& request) {
  const std::string why = refusal(options_.access, request);
  HttpResponse response = why.empty() ? route(request) : HttpResponse{.status = 403, .body = why + "\n"};
  for (std::string& header : protective_headers()) response.headers.push_back(std::move(header));
  if (why.empty() && !options_.access.token.empty() && !request.parameter("token").empty())
    response.headers.push_back(
        fmt::format("Set-Cookie: {}={}; HttpOnly; SameSite=Lax; Path=/", options_.access.cookie_name, options_.access.token));
  return response;
}

HttpResponse RunServer::route(const HttpRequest& request) {
  wake();
  if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(kServeHtml)};
  if (request.path == "/page.css") return {.type = "text/css; charset=utf-8", .body = std::string(kServeStyle)};
  if (request.path == "/page.js") return {.type = "text/javascript; charset=utf-8", .body = std::string(kServeScript)};
  if (request.path == "/api/runs") return runs(request);
  if (request.path == "/metrics") return metrics();
  const std::optional<RunEntry> run = index_.find(request.parameter("run"));
  if (request.path.starts_with("/api/") && !run) return {.status = 404, .body = "there is no run of this id\n"};
  if (request.path == "/api/run") return about_run(*run, request);
  if (request.path == "/api/series") return series(*run, request);
  if (request.path == "/api/log") return log(*run, request);
  if (request.path == "/api/ranks") return ranks(*run, request);
  return {.status = 404, .body = "there is no such page\n"};
}

HttpResponse RunServer::runs(const HttpRequest& request) {
  const int64_t since = number_in(request, "since", 0, 0, kEver);
  ordered_json answer{{"version", index_.version()},      {"complete", index_.is_complete()},
                      {"folder", options_.runs.string()}, {"is_there", index_.is_root_there()},
                      {"now", std::time(nullptr)},        {"runs", ordered_json::array()}};
  for (const RunEntry& run : index_.changed_since(since)) answer["runs"].push_back(row_json(run));
  return json_response(answer);
}

HttpResponse RunServer::about_run(const RunEntry& run, const HttpRequest& request) {
  return feeds_.with(run, kReadSeconds, [&](const RunFeed& feed) {
    ordered_json answer = about_json(run, feed);
    if (request.parameter("settings") == "1") answer["settings"] = feed.parameters();
    return json_response(answer);
  });
}

HttpResponse RunServer::series(const RunEntry& run, const HttpRequest& request) {
  const int64_t first = number_in(request, "from", 0, 0, kEver), last = number_in(request, "to", kEver, 0, kEver);
  const auto points = static_cast<size_t>(number_in(request, "points", 600, 10, 4000));
  const int64_t generation = number_in(request, "generation", 0, 0, kEver);
  const std::string had_list = request.parameter("have"), axis = request.parameter("x");
  return feeds_.with(run, kReadSeconds, [&](const RunFeed& feed) {
    std::string text =
        fmt::format(R"({{"run":"{}","version":{},"generation":{},"progress":{:.4f},"series":{{)", run.id, feed.version(),
                    feed.generation(), feed.is_whole() ? 1.0 : std::min(feed.share_read(), 0.9999));
    for (size_t i = 0; i < static_cast<size_t>(Quantity::count_); ++i) {
      const History& history = feed.of(static_cast<Quantity>(i));
      if (history.empty()) continue;
      const std::string_view key = row_of(static_cast<Quantity>(i)).key;
      const size_t group = history.group_for(first, last, points);
      const std::optional<Had> had = generation == feed.generation() ? had_of(had_list, key) : std::nullopt;
      const bool continues = had && had->group == group && had->step > first;
      const ThinnedSeries thinned = history.groups(continues ? had->step : first, last, group);
      std::string more = continues ? "\"continues\":true," : "";
      if (axis == "time" && !feed.elapsed().empty()) append_positions(more, thinned, feed.elapsed());
      if (axis == "tokens" && !feed.tokens().empty()) append_positions(more, thinned, feed.tokens());
      fmt::format_to(std::back_inserter(text), "{}\"{}\":", text.back() == '{' ? "" : ",", key);
      append_json(text, thinned, more);
    }
    return json_response(text + "},\"about\":" + json_text(about_json(run, feed), kOneLine) + "}");
  });
}

HttpResponse RunServer::log(const RunEntry& run, const HttpRequest& request) const {
  const auto& logs = run.files.rank_logs;
  const auto index = static_cast<size_t>(number_in(request, "rank", 0, 0, kEver));
  ordered_json answer{{"ranks", logs.size()}, {"lines", ordered_json::array()}};
  if (index < logs.size())
    answer["lines"] = last_lines(logs[index], static_cast<size_t>(number_in(request, "lines", 100, 1, 2000)), size_t{1} << 20);
  return json_response(answer);
}

HttpResponse RunServer::ranks(const RunEntry& run, const HttpRequest& request) const {
  const RankTimes times = read_rank_times(run.files.rank_logs, number_in(request, "from", 0, 0, kEver),
                                          number_in(request, "to", kEver - 1, 0, kEver - 1));
  std::string text = fmt::format(R"({{"sampled":{},"ranks":{},"steps":{},"seconds":[)", times.is_sampled,
                                 json_text(ordered_json(times.ranks), kOneLine), json_text(ordered_json(times.steps), kOneLine));
  for (const std::vector<float>& row : times.seconds) {
    text += text.back() == '[' ? "[" : ",[";
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      append_number(text, row[i]);
    }
    text += ']';
  }
  return json_response(text + "]}");
}

// Runs that were never looked at take the longest; those for which there was no time are in the next answer.
HttpResponse RunServer::metrics() {
  PrometheusText text;
  const Stopwatch watch;
  for (const RunEntry& run : index_.changed_since(0)) {
    if (run.is_gone) continue;
    text.count(run);
    if (run.state == RunStatus::running && watch.seconds() < kMetricsSeconds)
      feeds_.with(run, kReadSeconds, [&](const RunFeed& feed) { text.add(run, feed); });
  }
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = text.text()};
}

}  // namespace trireme
