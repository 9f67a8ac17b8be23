// tokenizer_bench TOKENIZER DOCUMENTS ROUNDS [cpu|wall]: how fast one thread encodes. DOCUMENTS is a file of documents, each with
// its length in front (uint32, little-endian). Prints one line a round: the seconds with a new encoder (its making not included),
// those with the same encoder once more, of this thread's CPU time or of the wall's, and how many tokens there are.
// tokenizer_bench TOKENIZER DOCUMENTS hashes: prints one line a document, the number of its tokens and a hash of them. compare.py
// drives both and prints the peers beside it.
#include <fmt/format.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/load_tokenizer.h"

namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<std::string_view> split_documents(std::string_view all) {
  std::vector<std::string_view> documents;
  while (all.size() >= 4) {
    uint32_t length = 0;
    std::memcpy(&length, all.data(), 4);
    documents.push_back(all.substr(4, length));
    all.remove_prefix(4 + length);
  }
  return documents;
}

void print_hashes(const trireme::Tokenizer& tokenizer, const std::vector<std::string_view>& documents) {
  const auto encoder = tokenizer.make_encoder();
  trireme::TokenBuffer tokens;
  for (const std::string_view document : documents) {
    tokens.clear();
    encoder->encode(document, tokens);
    uint64_t hash = 0, factor = 0x9E3779B97F4A7C15U;
    for (const int32_t token : tokens.tokens()) {
      hash += (static_cast<uint64_t>(token) + 1) * factor;
      factor += 2 * 0x9E3779B97F4A7C15U;
    }
    fmt::print("{} {}\n", tokens.size(), hash);
  }
}

void print_speed(const trireme::Tokenizer& tokenizer, const std::vector<std::string_view>& documents, int rounds,
                 clockid_t clock) {
  trireme::TokenBuffer tokens;
  for (; rounds > 0; --rounds) {
    double seconds[2];
    const auto encoder = tokenizer.make_encoder();
    int64_t count = 0;
    for (double& taken : seconds) {
      count = 0;
      const double begin = seconds_of(clock);
      for (const std::string_view document : documents) {
        tokens.clear();
        encoder->encode(document, tokens);
        count += static_cast<int64_t>(tokens.size());
      }
      taken = seconds_of(clock) - begin;
    }
    fmt::print("{:.6f} {:.6f} {}\n", seconds[0], seconds[1], count);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5)
    return fmt::print(stderr, "usage: tokenizer_bench TOKENIZER DOCUMENTS ROUNDS|hashes [cpu|wall]\n"), 2;
  const bool by_wall = argc == 5 && std::string_view(argv[4]) == "wall";
  const auto tokenizer = trireme::load_tokenizer(argv[1]);
  const std::string file = trireme::read_file(argv[2], int64_t{1} << 36);
  const auto documents = split_documents(file);
  if (std::string_view(argv[3]) == "hashes")
    print_hashes(*tokenizer, documents);
  else
    print_speed(*tokenizer, documents, std::atoi(argv[3]), by_wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
}
