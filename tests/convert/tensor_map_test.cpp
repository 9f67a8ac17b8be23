// Where each element goes, on tensors small enough to write down.
#include "convert/tensor_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "convert/hf_files.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

std::vector<float> counting(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::vector<float> there(const MappedTensor& tensor) {
  std::vector<float> to(static_cast<size_t>(tensor.count()));
  rearrange_to_theirs(tensor, counting(tensor.count()), to);
  return to;
}

std::vector<float> there_and_back(const MappedTensor& tensor) {
  std::vector<float> to(static_cast<size_t>(tensor.count()));
  rearrange_to_ours(tensor, there(tensor), to);
  return to;
}

TEST(TensorMap, TransposesForConv1d) {
  const MappedTensor tensor{.rows = 3, .width = 2, .layout = TensorLayout::transposed};
  EXPECT_EQ(there(tensor), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(there_and_back(tensor), counting(6));
  const MappedTensor larger_than_a_tile{.rows = 70, .width = 33, .layout = TensorLayout::transposed};
  EXPECT_EQ(there_and_back(larger_than_a_tile), counting(70 * 33));
  EXPECT_EQ(there(larger_than_a_tile)[1], 33);
}

// Ours: q of both heads, k of both heads, v of both heads. Theirs: q, k, v of the first head, then of the second.
TEST(TensorMap, InterleavesHeads) {
  const MappedTensor bias{.rows = 12, .width = 1, .heads = 2, .layout = TensorLayout::heads_interleaved};  // D = 2
  EXPECT_EQ(there(bias), (std::vector<float>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(there_and_back(bias), counting(12));
  const MappedTensor weight{.rows = 18, .width = 5, .heads = 3, .layout = TensorLayout::heads_interleaved};
  EXPECT_EQ(there_and_back(weight), counting(90));
  EXPECT_NE(there(weight), counting(90));
}

// Each family's table names every parameter of a model once, and every element of it.
TEST(TensorMap, CoversEveryParameter) {
  for (const char* text : {R"({"model_type":"gpt2","tie_word_embeddings":false})", R"({"model_type":"gpt_neox"})",
                           R"({"model_type":"llama","attention_bias":true,"mlp_bias":true,"num_key_value_heads":8})"}) {
    const HfModel model = read_hf_config(text, "config.json");
    std::map<std::string, int64_t> elements;
    for (const MappedTensor& tensor : map_tensors(model)) {
      EXPECT_EQ(tensor.side, TensorSide::both) << tensor.theirs;
      EXPECT_EQ(tensor.first_row * tensor.width, elements[tensor.ours]) << tensor.theirs;
      elements[tensor.ours] += tensor.count();
    }
    for (const ParameterRow& row : parameter_table(model.settings.model)) {
      EXPECT_EQ(elements[row.name], row.count()) << row.name;
      elements.erase(row.name);
    }
    EXPECT_TRUE(elements.empty()) << elements.begin()->first;
  }
}

}  // namespace
}  // namespace trireme
