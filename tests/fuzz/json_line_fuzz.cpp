// libFuzzer: a line of JSON is read without touching a byte outside of it, and what comes out is no longer than what went in. The
// text is then repaired and cut, which must lose nothing.
#include <cstdlib>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "data/prepare/json_line.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  using namespace trireme::prepare;
  const std::vector<char> line(data, data + size);  // exactly as long as the line, for the sanitizer
  static const JsonLineReader reader("text");
  TextScratch scratch;
  scratch.reset(line.size());
  const LineText result = reader.read({line.data(), line.size()}, scratch);
  require(result.text.size() <= line.size());
  require(result.problem_at <= line.size());
  require((result.status == LineStatus::malformed) == (result.problem[0] != '\0'));
  std::string repaired;
  replace_invalid_utf8(result.text, repaired);
  require(valid_utf8_prefix(repaired) == repaired.size());
  require((valid_utf8_prefix(result.text) == result.text.size()) == (repaired == result.text));
  return 0;
}
