// One call of the stand-in, and what is wrong with it as far as one rank can tell. Values are those of NCCL's interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nccl_stand_in {

enum class Result : int {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};
enum class Type : int { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16 };
enum class Reduce : int { sum, product, max, min, average };
enum class Kind : int { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };

struct Op {
  Kind kind = Kind::all_reduce;
  Type type = Type::f32;
  Reduce reduce = Reduce::sum;  // of all_reduce and reduce_scatter
  int peer = 0;                 // the root of a broadcast, the other rank of a send or receive
  uint64_t count = 0;           // elements, as NCCL counts them: of the smaller buffer where two differ
  const std::byte* from = nullptr;
  std::byte* to = nullptr;

  bool is_collective() const { return kind != Kind::send && kind != Kind::receive; }
};

// Calls that NCCL launches together: one, or all of a group.
struct Unit {
  static constexpr size_t kMost = 8;
  std::array<Op, kMost> list{};
  size_t count = 0;

  std::span<Op> ops() { return std::span(list).first(count); }
  std::span<const Op> ops() const { return std::span(list).first(count); }
};

struct Range {
  const std::byte *begin = nullptr, *end = nullptr;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

uint64_t size_of(Type type);
Range read_by(const Op& op, int ranks, int rank);     // empty for a receive, and for a broadcast on other ranks than its root
Range written_by(const Op& op, int ranks, int rank);  // empty for a send

std::string text_of(const Op& op);     // "all_reduce of 8 f32 (sum)", "send of 8 f32 to rank 1"
bool match(const Op& a, const Op& b);  // whether two ranks may make these two collective calls together

// What is wrong with a call, or with the calls of a group, on a communicator of `ranks` ranks; empty: nothing.
std::string fault_of(const Op& op, int ranks, int rank);
std::string fault_of(const Unit& unit, int ranks, int rank);

// to[i] = to[i] + from[i], or the larger of the two, in the type itself as NCCL does.
void reduce_into(std::byte* to, const std::byte* from, uint64_t count, Type type, Reduce reduce);

}  // namespace nccl_stand_in
