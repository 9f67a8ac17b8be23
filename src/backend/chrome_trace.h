// Timelines for chrome://tracing and Perfetto: a JSON object whose list of events has one event per line.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace trireme {

void write_chrome_trace(const std::filesystem::path& path, const nlohmann::json& events);

// Writes the events of several such files into one.
void join_chrome_traces(const std::vector<std::filesystem::path>& files, const std::filesystem::path& path);

}  // namespace trireme
