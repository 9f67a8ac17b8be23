// The pairwise cover of layouts: each gives the losses of one rank, executes what was planned for it, and makes exactly the
// collectives of the closed forms. Some run always, all of them with TRIREME_ALL_LAYOUTS set, as make test-layouts does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "support/layout_cover.h"
#include "support/skip.h"
#include "train/run_size.h"

namespace trireme {
namespace {

const std::vector<Layout>& cover() {
  static const std::vector<Layout> layouts = [] {
    std::vector<Layout> all;
    for (const Choices& choices : pairwise_cover()) all.push_back(layout_of(choices));
    return all;
  }();
  return layouts;
}

class LayoutsTest : public testing::TestWithParam<Layout> {};

// Calls by group and name, of one rank in one step.
using Calls = std::map<std::string, int64_t>;

Calls calls_of(const StepLog& log) {
  Calls calls;
  for (const OpRecord& record : log.records)
    if (record.kind == RecordKind::collective) calls[fmt::format("{} {}", record.group, record.name)] += 1;
  return calls;
}

// What the layout asks for, counted on the cost backend.
class ClosedForm {
 public:
  ClosedForm(const Layout& layout, int rank) : model_(layout.model), shape_(layout.shape) {
    tp_ = shape_.tp, cp_ = shape_.cp, pp_ = shape_.pp;
    stage_ = rank / (shape_.tp * shape_.cp * shape_.dp);
    first_ = stage_ == 0, last_ = stage_ == pp_ - 1;
    m_ = model_.global_batch_size / model_.micro_batch_size / shape_.dp;
    layers_ = model_.num_layers / pp_;
    full_ = model_.activations_checkpoint_granularity == RecomputeGranularity::full;
    zero_bubble_ = model_.pipeline_schedule == PipelineSchedule::zero_bubble;
    pieces_ = model_.ub_tp_comm_overlap ? std::min<int64_t>(4, rows() / (model_.sequence_parallel ? tp_ : 1)) : 1;
  }

  Calls calls() {
    tensor_parallel();
    context_parallel();
    pipeline();
    data_parallel();
    std::erase_if(calls_, [](const auto& row) { return row.second == 0; });
    return calls_;
  }

 private:
  int64_t rows() const { return model_.micro_batch_size * model_.encoder_seq_length / cp_; }
  bool tied() const { return model_.share_embeddings_and_output_weights; }

  void tensor_parallel() {
    if (tp_ == 1) return;
    // Forward has two row products a layer; recompute makes that of attention again (groups have one layer here).
    const int64_t row_products = m_ * layers_ * (full_ ? 3 : 2), column_products = m_ * layers_ * (full_ ? 4 : 2);
    const int64_t ends = first_ + last_;           // embedding and head: one product of the vocabulary each
    calls_["tp all_reduce"] = 1 + last_ * 3 * m_;  // squares of gradients; statistics of the cross entropy
    if (!model_.sequence_parallel) {
      calls_["tp all_reduce"] += row_products * pieces_ + 2 * m_ * layers_ + ends * m_;
      return;
    }
    // Gradients of norms; those of sharded blocks after every micro-batch.
    calls_["tp all_reduce"] += 2 * layers_ * (model_.fsdp && shape_.dp * cp_ > 1 ? m_ : 1) + last_;
    calls_["tp reduce_scatter"] = row_products * pieces_ + 2 * m_ * layers_ + ends * m_;
    // Backward gathers the outputs' gradients of row products and the inputs of column products; put off, the former twice.
    calls_["tp all_gather"] = column_products * pieces_ + 2 * m_ * layers_ * pieces_ + 2 * m_ * layers_ + ends * m_ +
                              (zero_bubble_ ? 2 * m_ * layers_ : 0);
  }

  void context_parallel() {
    const int64_t forwards = m_ * layers_ * (full_ ? 2 : 1);
    calls_["cp send"] = calls_["cp receive"] = cp_ == 1 ? 0 : forwards * (cp_ - 1) + m_ * layers_ * (2 * cp_ - 1);
  }

  void pipeline() {
    if (pp_ == 1) return;
    const int64_t v = model_.virtual_pipeline_model_parallel_size;
    const bool batched = model_.batch_p2p_comm && !model_.overlap_p2p_comm;
    // A chunk receives and sends once a direction, but for the two ends of the model.
    calls_[batched ? "pp exchange_receive" : "pp receive"] = m_ * (2 * v - first_ - last_);
    calls_[batched ? "pp exchange_send" : "pp send"] = m_ * (2 * v - first_ - last_);
    calls_["pp broadcast"] = 1;   // loss
    calls_["pp all_reduce"] = 1;  // squares
    calls_["embedding all_reduce"] = tied() && (first_ || last_);
  }

  void data_parallel() {
    if (shape_.dp * cp_ == 1) return;
    // The buckets: each block, the head (the final norm if the embedding is tied), the embedding.
    const int64_t buckets = layers_ + last_ + (first_ || (last_ && tied()));
    calls_["dp_cp all_reduce"] = 2;  // loss and squares
    if (!model_.shards_optimizer()) {
      calls_["dp_cp all_reduce"] += buckets;
      return;
    }
    calls_["dp_cp reduce_scatter"] = calls_["dp_cp all_gather"] = buckets;
    if (!model_.fsdp) return;
    calls_["dp_cp reduce_scatter"] += (m_ - 1) * layers_;     // blocks after every micro-batch
    calls_["dp_cp all_gather"] += block_gathers() - layers_;  // and blocks when they are used
  }

  // Of sharded blocks in one step: neighbours take turns with two slots, and a block that is still in its slot is not gathered.
  int64_t block_gathers() const {
    const int64_t chunks = model_.virtual_pipeline_model_parallel_size, each = layers_ / chunks;
    std::array<int64_t, 2> in_slot = {-1, -1};
    int64_t gathers = 0;
    const auto use = [&](int64_t chunk, int64_t i) {
      const int64_t layer = chunk * each + i;
      int64_t& held = in_slot[static_cast<size_t>((layers_ - 1 - layer) % 2)];
      gathers += held != layer;
      held = layer;
    };
    for (const Action& action : make_schedule(pipeline_of(model_, pp_, m_), stage_)) {
      if (!is_compute(action.kind)) continue;
      const bool is_forward = action.kind == ActionKind::forward;
      for (int64_t i = 0; i < each; ++i) use(action.chunk, is_forward ? i : each - 1 - i);
    }
    return gathers;
  }

  const ModelSettings& model_;
  MeshShape shape_;
  int64_t tp_, cp_, pp_, stage_, first_, last_, m_, layers_, pieces_;
  bool full_, zero_bubble_;
  Calls calls_;
};

bool runs_always(const Layout& layout) {
  const auto at = std::ranges::find(cover(), layout.name, &Layout::name) - cover().begin();
  return at % 8 == 0 || std::getenv("TRIREME_ALL_LAYOUTS") != nullptr;
}

TEST_P(LayoutsTest, MatchesOneRankAndThePlan) {
  const Layout& layout = GetParam();
  if (!runs_always(layout)) SKIP_FOR(layouts) << "make test-layouts runs all layouts";
  const std::vector<RankRun> runs = train(layout, steps_for(layout));
  expect_same_as_one_rank(layout, runs, train(on_one_rank(layout), steps_for(layout))[0]);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    expect_as_planned(runs[rank]);
    EXPECT_EQ(calls_of(runs[rank].executed), ClosedForm(layout, static_cast<int>(rank)).calls());
  }
}

INSTANTIATE_TEST_SUITE_P(Cover, LayoutsTest, testing::ValuesIn(cover()), [](const auto& test) { return test.param.name; });

// The plan of every layout of the cover, without running it.
TEST(LayoutPlans, PlansMakeTheCollectivesOfTheClosedForms) {
  for (const Layout& layout : cover())
    for (int rank = 0; rank < layout.shape.size(); ++rank) {
      SCOPED_TRACE(fmt::format("{} rank {}", layout.name, rank));
      const ModelSettings& model = layout.model;
      StepLog log;
      plan_memory({.model = model, .precision = layout.precision, .gradient_clip = 1.0}, CpuBackend(1),
                  model.global_batch_size / model.micro_batch_size / layout.shape.dp, {layout.shape, rank}, &log);
      ASSERT_EQ(calls_of(log), ClosedForm(layout, rank).calls());
    }
}

using Pair = std::array<size_t, 4>;  // two factors and their choices

std::vector<Pair> pairs_of(const Choices& c) {
  std::vector<Pair> pairs;
  for (size_t a = 0; a < kFactors; ++a)
    for (size_t b = a + 1; b < kFactors; ++b) pairs.push_back({a, static_cast<size_t>(c[a]), b, static_cast<size_t>(c[b])});
  return pairs;
}

TEST(LayoutCover, HasEveryPair) {
  std::set<Pair> open;
  for (const Choices& c : all_choices())
    for (const Pair& pair : pairs_of(c)) open.insert(pair);
  for (const Choices& c : pairwise_cover())
    for (const Pair& pair : pairs_of(c)) open.erase(pair);
  EXPECT_TRUE(open.empty());
  EXPECT_GE(pairwise_cover().size(), 35u);
}

}  // namespace
}  // namespace trireme
