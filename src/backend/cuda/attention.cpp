#include "backend/cuda/attention.h"

#include <cudnn_frontend.h>

#include <map>
#include <tuple>
#include <unordered_map>

#include "backend/cuda/attention_inputs.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/plain_attention.h"

namespace trireme::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorHandle = std::shared_ptr<fe::graph::Tensor_attributes>;
using TensorPack = std::unordered_map<int64_t, void*>;

constexpr int64_t kTile = 64;  // positions in a block of cuDNN's kernels

// Ids of the graph's tensors.
enum Id : int64_t { kQ = 1, kK, kV, kOut, kStats, kDOut, kDQ, kDK, kDV, kSeed, kOffset, kBias };

struct Problem {
  int64_t B, T, H, G, D, packed_heads;
  bool causal;
  float scale, dropout;
  bool documents;

  // A bias [B,1,T,T] separates documents.
  int64_t bias_bytes() const { return documents ? B * T * T * size_of(DType::bf16) : 0; }
  auto operator<=>(const Problem&) const = default;
};

template <class Op>
Problem problem_of(const Op& op) {
  const Tensor& packed = op.q.packed.tensor;
  return {.B = packed.shape[0],
          .T = packed.shape[1],
          .H = op.q.count,
          .G = op.k.count,
          .D = packed.shape[3],
          .packed_heads = packed.shape[2],
          .causal = op.causal == CausalMask::yes,
          .scale = op.scale,
          .dropout = op.dropout.probability,
          .documents = static_cast<bool>(op.document_starts)};
}

// Documents are supported only with the causal mask, where every query sees at least itself, and only for whole tiles, so that
// the bias is read in whole accesses.
template <class Op>
bool served(const Op& op) {
  const Tensor& packed = op.q.packed.tensor;
  const int64_t D = packed.shape[3];
  return packed.dtype == DType::bf16 && D % 8 == 0 && D <= 128 && op.k.packed.shape() == packed.shape &&
         op.v.packed.shape() == packed.shape && op.key_length == packed.shape[1] && op.first_key == 0 &&
         (!op.document_starts || (op.causal == CausalMask::yes && packed.shape[1] % kTile == 0));
}

void check(fe::error_t error, const char* what) {
  if (error.is_bad()) throw Failure("cuDNN {}: {}", what, error.get_message());
}

struct CachedGraph {
  fe::graph::Graph graph;
  int64_t workspace = 0;
  int64_t bias_bytes = 0;

  // The dropout seed and offset, and the bias, follow the graph's own workspace.
  int64_t seeds_at() const { return round_up(workspace, 256); }
  int64_t bias_at() const { return round_up(seeds_at() + 2 * size_of(DType::i64), 256); }
  int64_t bytes() const { return bias_at() + bias_bytes; }
};

TensorHandle heads(fe::graph::Graph& graph, Id id, const Problem& s, int64_t count, int64_t packed) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_dim({s.B, count, s.T, s.D})
                          .set_stride({s.T * packed * s.D, s.D, packed * s.D, 1}));
}

void set_heads(const TensorHandle& tensor, Id id, const Problem& s, int64_t count, int64_t packed) {
  tensor->set_output(true).set_uid(id).set_dim({s.B, count, s.T, s.D}).set_stride({s.T * packed * s.D, s.D, packed * s.D, 1});
}

TensorHandle seed(fe::graph::Graph& graph, Id id) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_dim({1, 1, 1, 1})
                          .set_stride({1, 1, 1, 1})
                          .set_data_type(fe::DataType_t::INT64));
}

TensorHandle bias(fe::graph::Graph& graph, const Problem& s) {
  return graph.tensor(
      fe::graph::Tensor_attributes().set_uid(kBias).set_dim({s.B, 1, s.T, s.T}).set_stride({s.T * s.T, s.T * s.T, s.T, 1}));
}

std::unique_ptr<CachedGraph> new_graph(const Problem& s) {
  auto made = std::make_unique<CachedGraph>();
  made->bias_bytes = s.bias_bytes();
  made->graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return made;
}

void finish(CachedGraph& made, cudnnHandle_t handle) {
  check(made.graph.validate(), "validate");
  check(made.graph.build_operation_graph(handle), "build_operation_graph");
  check(made.graph.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
  check(made.graph.check_support(handle), "check_support");
  check(made.graph.build_plans(handle), "build_plans");
  check(made.graph.get_workspace_size(made.workspace), "get_workspace_size");
}

std::unique_ptr<CachedGraph> build_forward(const Problem& s, cudnnHandle_t handle) {
  auto made = new_graph(s);
  fe::graph::Graph& graph = made->graph;
  const TensorHandle q = heads(graph, kQ, s, s.H, s.packed_heads), k = heads(graph, kK, s, s.G, s.packed_heads),
                     v = heads(graph, kV, s, s.G, s.packed_heads);
  auto options = fe::graph::SDPA_attributes().set_name("attention_forward").set_generate_stats(true).set_attn_scale(s.scale);
  options.set_causal_mask(s.causal);
  if (s.dropout > 0) options.set_dropout(s.dropout, seed(graph, kSeed), seed(graph, kOffset));
  if (s.documents) options.set_bias(bias(graph, s));
  auto [out, stats] = graph.sdpa(q, k, v, options);
  set_heads(out, kOut, s, s.H, s.H);
  stats->set_output(true).set_uid(kStats).set_data_type(fe::DataType_t::FLOAT);
  finish(*made, handle);
  return made;
}

std::unique_ptr<CachedGraph> build_backward(const Problem& s, cudnnHandle_t handle) {
  auto made = new_graph(s);
  fe::graph::Graph& graph = made->graph;
  const TensorHandle q = heads(graph, kQ, s, s.H, s.packed_heads), k = heads(graph, kK, s, s.G, s.packed_heads),
                     v = heads(graph, kV, s, s.G, s.packed_heads);
  const TensorHandle out = heads(graph, kOut, s, s.H, s.H), d_out = heads(graph, kDOut, s, s.H, s.H);
  const TensorHandle stats = graph.tensor(fe::graph::Tensor_attributes()
                                              .set_uid(kStats)
                                              .set_dim({s.B, s.H, s.T, 1})
                                              .set_stride({s.H * s.T, s.T, 1, 1})
                                              .set_data_type(fe::DataType_t::FLOAT));
  auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward").set_attn_scale(s.scale);
  options.set_causal_mask(s.causal).set_deterministic_algorithm(true);
  if (s.dropout > 0) options.set_dropout(s.dropout, seed(graph, kSeed), seed(graph, kOffset));
  if (s.documents) options.set_bias(bias(graph, s));
  auto [d_q, d_k, d_v] = graph.sdpa_backward(q, k, v, out, d_out, stats, options);
  set_heads(d_q, kDQ, s, s.H, s.packed_heads);
  set_heads(d_k, kDK, s, s.G, s.packed_heads);
  set_heads(d_v, kDV, s, s.G, s.packed_heads);
  finish(*made, handle);
  return made;
}

void* first_head(const HeadsView& view) {
  return static_cast<char*>(view.packed.tensor.data) + view.first * view.packed.shape()[3] * size_of(view.packed.dtype());
}

}  // namespace

struct Attention::Graphs {
  cudnnHandle_t handle = nullptr;
  std::map<Problem, std::unique_ptr<CachedGraph>> forward, backward;

  CachedGraph& of(const AttentionForward& op) {
    auto& graph = forward[problem_of(op)];
    if (!graph) graph = build_forward(problem_of(op), handle);
    return *graph;
  }
  CachedGraph& of(const AttentionBackward& op) {
    auto& graph = backward[problem_of(op)];
    if (!graph) graph = build_backward(problem_of(op), handle);
    return *graph;
  }

  template <class Op>
  void execute(const Op& op, TensorPack& tensors, void* workspace, cudaStream_t stream) {
    CachedGraph& graph = of(op);
    if (op.dropout.active()) {
      auto* seeds = reinterpret_cast<int64_t*>(static_cast<char*>(workspace) + graph.seeds_at());
      write_attention_seed(op.dropout, seeds, stream);
      tensors[kSeed] = seeds;
      tensors[kOffset] = seeds + 1;
    }
    if (op.document_starts) {
      tensors[kBias] = static_cast<char*>(workspace) + graph.bias_at();
      write_document_bias(op.document_starts, problem_of(op).T, tensors[kBias], stream);
    }
    if (cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS) throw Failure("cuDNN: the stream could not be set");
    check(graph.graph.execute(handle, tensors, workspace), "execute");
  }
};

Attention::Attention() : graphs_(std::make_unique<Graphs>()) {
  if (const auto status = cudnnCreate(&graphs_->handle); status != CUDNN_STATUS_SUCCESS)
    throw Failure("cuDNN cannot be used: {}", cudnnGetErrorString(status));
}

Attention::~Attention() {
  graphs_->forward.clear();
  graphs_->backward.clear();
  cudnnDestroy(graphs_->handle);
}

bool Attention::serves(const AttentionForward& op) { return served(op); }
bool Attention::serves(const AttentionBackward& op) { return served(op); }
int64_t Attention::workspace_bytes(const AttentionForward& op) { return graphs_->of(op).bytes(); }
int64_t Attention::workspace_bytes(const AttentionBackward& op) { return graphs_->of(op).bytes(); }

void Attention::run(const AttentionForward& op, void* workspace, cudaStream_t stream) {
  TensorPack tensors{
      {kQ, first_head(op.q)}, {kK, first_head(op.k)}, {kV, first_head(op.v)}, {kOut, op.out.tensor.data}, {kStats, op.lse.data}};
  graphs_->execute(op, tensors, workspace, stream);
}

void Attention::run(const AttentionBackward& op, void* workspace, cudaStream_t stream) {
  TensorPack tensors{{kQ, first_head(op.q)},    {kK, first_head(op.k)},    {kV, first_head(op.v)},
                     {kOut, op.out.data},       {kStats, op.lse.data},     {kDOut, op.d_out.data},
                     {kDQ, first_head(op.d_q)}, {kDK, first_head(op.d_k)}, {kDV, first_head(op.d_v)}};
  graphs_->execute(op, tensors, workspace, stream);
}

}  // namespace trireme::cuda

namespace trireme {

int64_t CudaBackend::scratch_bytes(const AttentionForward& op) const {
  return cuda::Attention::serves(op) ? attention_->workspace_bytes(op) : 0;
}
int64_t CudaBackend::scratch_bytes(const AttentionBackward& op) const {
  return cuda::Attention::serves(op) ? attention_->workspace_bytes(op) : 0;
}

void CudaBackend::run(Stream where, const AttentionForward& op) {
  if (cuda::Attention::serves(op))
    attention_->run(op, scratch(scratch_bytes(op)), stream(where));
  else
    cuda::plain_attention_forward(op, stream(where));
  fill_copies(where, op.out);
}

void CudaBackend::run(Stream where, const AttentionBackward& op) {
  if (cuda::Attention::serves(op))
    attention_->run(op, scratch(scratch_bytes(op)), stream(where));
  else
    cuda::plain_attention_backward(op, stream(where));
  fill_copies(where, op.d_q.packed);
}

}  // namespace trireme
