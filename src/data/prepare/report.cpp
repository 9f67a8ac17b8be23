#include "data/prepare/report.h"

#include <sys/resource.h>

#include "base/error.h"
#include "base/process.h"
#include "base/units.h"

namespace trireme::prepare {
namespace {

using nlohmann::json;

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

json stage(double cpu_seconds, int64_t bytes) {
  json result = {{"cpu_seconds", cpu_seconds}};
  if (cpu_seconds > 0) result["mb_per_cpu_second"] = static_cast<double>(bytes) / 1e6 / cpu_seconds;
  return result;
}

}  // namespace

json usage_report(const Usage& usage, const PrepareSettings& settings, TokenType type) {
  rusage spent{};
  ::getrusage(RUSAGE_SELF, &spent);
  const double wall = usage.wall_seconds;
  const double user = seconds_of(spent.ru_utime), system = seconds_of(spent.ru_stime);
  json report = {{"tokenizer", settings.tokenizer},
                 {"format", name_of(settings.format)},
                 {"token_type", name_of(type)},
                 {"workers", settings.workers},
                 {"rank", settings.rank.rank},
                 {"ranks", settings.rank.ranks},
                 {"memory_limit_bytes", settings.memory},
                 {"wall_seconds", wall},
                 {"user_seconds", user},
                 {"system_seconds", system},
                 {"cpu_percent", wall > 0 ? 100 * (user + system) / wall : 0},
                 {"peak_memory_bytes", peak_resident_bytes()},
                 {"bytes_read", usage.bytes_read},
                 {"assemble_seconds", usage.assemble_seconds}};
  report["stages"] = {{"read", stage(usage.times.read, usage.input_bytes)},
                      {"parse", stage(usage.times.parse, usage.input_bytes)},
                      {"tokenize", stage(usage.times.tokenize, usage.input_bytes)},
                      {"write", stage(usage.times.write, usage.input_bytes)}};
  if (wall > 0) {
    report["mb_per_second"] = static_cast<double>(usage.input_bytes) / 1e6 / wall;
    report["tokens_per_second"] = static_cast<double>(usage.tokens) / wall;
  }
  return report;
}

void add_totals(json& report, const std::vector<FinishedPart>& parts, TokenType type) {
  int64_t documents = 0, tokens = 0, input_bytes = 0, text_bytes = 0;
  Tally tally;
  for (const FinishedPart& part : parts) {
    documents += part.state.documents;
    tokens += part.state.token_bytes / size_of(type);
    input_bytes += part.state.input_bytes;
    text_bytes += part.state.text_bytes;
    tally.add(part.state.tally);
  }
  report["documents"] = documents;
  report["tokens"] = tokens;
  report["input_bytes"] = input_bytes;
  report["text_bytes"] = text_bytes;
  report["findings"] = to_json(tally);
}

void require_output(const json& report) {
  for (const json& file : report.value("output", json::array())) {
    const std::string path = file.at("file");
    const auto stamp = find_stamp(path);
    const int64_t bytes = file.at("bytes");
    if (!stamp) throw UserError("{}: it is gone, though its report is there; remove the output and run again", path);
    if (stamp->bytes != bytes)
      throw UserError("{}: {} bytes, but its report says {}; remove the output and run again", path, stamp->bytes, bytes);
  }
}

std::string summary_of(const json& report) {
  const double wall = report.at("wall_seconds");
  std::string text = fmt::format("{} documents, {} tokens ({}) from {} of input in {}: {:.1f} MB/s, {} tokens/s\n",
                                 report.at("documents").get<int64_t>(), report.at("tokens").get<int64_t>(),
                                 report.at("token_type").get<std::string>(),
                                 format_bytes(report.at("input_bytes").get<int64_t>()), format_duration(wall),
                                 report.value("mb_per_second", 0.0), format_count(report.value("tokens_per_second", 0.0)));
  text += fmt::format("{:.2f} s wall, {:.2f} s user, {:.2f} s system, {:.0f} % CPU, {} of memory at most\n", wall,
                      report.at("user_seconds").get<double>(), report.at("system_seconds").get<double>(),
                      report.at("cpu_percent").get<double>(), format_bytes(report.at("peak_memory_bytes").get<int64_t>()));
  const Tally tally = tally_from_json(report.at("findings"));
  for (size_t i = 0; i < static_cast<size_t>(Finding::count); ++i) {
    const auto finding = static_cast<Finding>(i);
    const Tally::Entry& entry = tally[finding];
    if (entry.count == 0) continue;
    text += fmt::format("{} {}{}\n", entry.count, plural_of(finding), entry.first.empty() ? "" : "; first " + entry.first);
  }
  for (const json& file : report.value("output", json::array()))
    text += fmt::format("{}  {} bytes, crc32c {}\n", file.at("file").get<std::string>(), file.at("bytes").get<int64_t>(),
                        file.at("crc32c").get<std::string>());
  return text;
}

}  // namespace trireme::prepare
