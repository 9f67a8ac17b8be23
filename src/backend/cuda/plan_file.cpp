#include "backend/cuda/plan_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace trireme::cuda {
namespace {

constexpr const char* kFirstLine = "trireme gemm plans 3";
constexpr int64_t kMostBytes = int64_t{16} << 20;
constexpr size_t kWords = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t);

std::filesystem::path cache_folder() {
  const auto variable = [](const char* name) {
    return std::filesystem::path(std::getenv(name) != nullptr ? std::getenv(name) : "");
  };
  if (const auto folder = variable("TRIREME_CACHE"); !folder.empty()) return folder;
  if (const auto folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder / "trireme";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "trireme";
  return {};
}

std::string file_name(const std::string& device) {
  std::string name = fmt::format("gemm-{}-{}.txt", device, cublasLtGetVersion());
  for (char& c : name)
    if (c == ' ' || c == '/') c = '-';
  return name;
}

std::string line_of(const GemmShape& p, const cublasLtMatmulAlgo_t& algorithm) {
  std::string line = fmt::format("{} {} {} {} {} {} {} {} {} {} {}", p.m, p.n, p.k, static_cast<int>(p.a_transposed),
                                 static_cast<int>(p.b_transposed), static_cast<int>(p.a), static_cast<int>(p.b),
                                 static_cast<int>(p.out), static_cast<int>(p.epilogue), static_cast<int>(p.sums), p.alignment);
  for (const uint64_t word : algorithm.data) line += fmt::format(" {:016x}", word);
  return line + "\n";
}

std::optional<std::pair<GemmShape, cublasLtMatmulAlgo_t>> plan_of(const std::string& line) {
  std::istringstream text(line);
  GemmShape p;
  cublasLtMatmulAlgo_t algorithm{};
  int a_transposed = 0, b_transposed = 0, a = 0, b = 0, out = 0, epilogue = 0, sums = 0;
  text >> p.m >> p.n >> p.k >> a_transposed >> b_transposed >> a >> b >> out >> epilogue >> sums >> p.alignment;
  text >> std::hex;
  for (size_t i = 0; i < kWords; ++i) text >> algorithm.data[i];
  if (!text) return std::nullopt;
  p.a_transposed = static_cast<Transposed>(a_transposed);
  p.b_transposed = static_cast<Transposed>(b_transposed);
  p.a = static_cast<DType>(a);
  p.b = static_cast<DType>(b);
  p.out = static_cast<DType>(out);
  p.epilogue = static_cast<Epilogue>(epilogue);
  p.sums = static_cast<Sums>(sums);
  return std::pair(p, algorithm);
}

}  // namespace

PlanFile::PlanFile(const std::string& device) {
  if (const auto folder = cache_folder(); !folder.empty()) path_ = folder / file_name(device);
  read();
}

const cublasLtMatmulAlgo_t* PlanFile::find(const GemmShape& shape) const {
  const auto found = plans_.find(shape);
  return found == plans_.end() ? nullptr : &found->second;
}

void PlanFile::add(const GemmShape& shape, const cublasLtMatmulAlgo_t& algorithm) {
  plans_[shape] = algorithm;
  write();
}

// An unreadable file is treated as absent: its GEMMs are tuned again.
void PlanFile::read() {
  if (path_.empty() || !std::filesystem::exists(path_)) return;
  try {
    std::istringstream lines(read_file(path_, kMostBytes));
    std::string line;
    if (!std::getline(lines, line) || line != kFirstLine) return;
    while (std::getline(lines, line))
      if (const auto plan = plan_of(line)) plans_.insert(*plan);
  } catch (const Failure&) {
    plans_.clear();
  }
}

void PlanFile::write() const {
  if (path_.empty()) return;
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [shape, algorithm] : plans_) text += line_of(shape, algorithm);
  try {
    create_folders(path_.parent_path());
    atomic_write(path_, bytes_of(text));
  } catch (const Failure&) {  // for example no space left: the next run tunes again
  }
}

}  // namespace trireme::cuda
