#include "backend/chrome_trace.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

constexpr std::string_view kTraceHead = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
constexpr std::string_view kTraceTail = "\n]}\n";

// The lines between head and tail.
std::string events_of(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{4} << 30;
  std::string text = read_file(path, kMostBytes);
  if (!text.starts_with(kTraceHead) || !text.ends_with(kTraceTail)) throw Failure("{} is not a complete trace", path.string());
  text.resize(text.size() - kTraceTail.size());
  return text.erase(0, kTraceHead.size());
}

}  // namespace

void write_chrome_trace(const std::filesystem::path& path, const nlohmann::json& events) {
  std::string text(kTraceHead);
  for (const nlohmann::json& event : events) {
    if (text.size() > kTraceHead.size()) text += ",\n";
    text += json_text(event, kOneLine);
  }
  text += kTraceTail;
  atomic_write(path, bytes_of(text));
}

// One file at a time is in memory: those of many ranks may be large.
void join_chrome_traces(const std::vector<std::filesystem::path>& files, const std::filesystem::path& path) {
  const std::filesystem::path partial = path.string() + ".partial";
  File out = File::create(partial);
  out.write(kTraceHead);
  bool is_first = true;
  for (const std::filesystem::path& file : files) {
    const std::string events = events_of(file);
    if (events.empty()) continue;
    if (!is_first) out.write(",\n");
    out.write(events);
    is_first = false;
  }
  out.write(kTraceTail);
  std::error_code failed;
  std::filesystem::rename(partial, path, failed);
  if (failed) throw Failure("{} cannot be written: {}", path.string(), failed.message());
}

}  // namespace trireme
