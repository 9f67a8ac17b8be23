// What Slurm prints: objects of scontrol, lists of nodes, times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

using SlurmObject = std::map<std::string, std::string>;

// The objects of `scontrol --oneliner show ...`, one per line: Key=Value Key=Value. Values may contain spaces.
std::vector<SlurmObject> parse_slurm_objects(const std::string& text);
// The lines `Key = Value` of `scontrol show config`.
SlurmObject parse_slurm_config(const std::string& text);
// A value; empty if it is missing or one of Slurm's words for nothing.
std::string slurm_value(const SlurmObject& object, const std::string& key);
int64_t slurm_number(const SlurmObject& object, const std::string& key, int64_t otherwise);

std::vector<std::string> split_at(std::string_view text, char separator);  // without empty parts

// "n[1-3,07],login1" -> n1 n2 n3 n07 login1. Brackets that make no sense are kept as they are.
std::vector<std::string> expand_node_list(const std::string& list);

// MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS[:MINUTES[:SECONDS]]. Nothing for other texts, "UNLIMITED" too.
std::optional<int64_t> parse_slurm_seconds(const std::string& text);
std::string format_slurm_seconds(int64_t seconds);  // "4:00:00", "1-00:00:00"

// The GPUs of a gres list: 8 of "gpu:h100:8(S:0-1),nic:2", 6 of "gpu:a:4,gpu:b:2".
int64_t gpus_of_gres(const std::string& gres);

}  // namespace trireme
