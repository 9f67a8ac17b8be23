// A Megatron dataset of any bytes is read and copied, or refused with a UserError. The first two bytes say how long the .bin is.
#include "base/error.h"
#include "data/indexed/indexed_dataset.h"
#include "data/indexed/indexed_tools.h"
#include "fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz_file("x.idx", bytes.substr(2));
  fuzz_file("x.bin", std::string(static_cast<size_t>(data[0]) | static_cast<size_t>(data[1] & 3) << 8, '\1'));
  try {
    const std::string prefix = fuzz_folder() + "/x";
    const IndexedDataset dataset(prefix);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < dataset.sequences(); ++i) {
      tokens.resize(static_cast<size_t>(std::max<int64_t>(std::min<int64_t>(dataset.length(i), 1 << 16), 0)));
      try {
        dataset.read(i, 0, tokens);
      } catch (const UserError&) {  // damage of one sequence says nothing of the others
      }
    }
    copy_documents(prefix, {0, dataset.documents()}, fuzz_folder() + "/copy", Replace::yes, [](int64_t) {});
  } catch (const UserError&) {
  }
  return 0;
}
