#include "support/nccl_stand_in/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tensor/dtype.h"

namespace nccl_stand_in {
namespace {

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "send", "receive"};
  return kNames[static_cast<size_t>(kind)];
}
const char* name_of(Type type) {
  constexpr const char* kNames[] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16"};
  const auto number = static_cast<size_t>(type);
  return number < std::size(kNames) ? kNames[number] : "of no type";
}

bool reduces(const Op& op) { return op.kind == Kind::all_reduce || op.kind == Kind::reduce_scatter; }

template <class T>
T reduced(T a, T b, Reduce reduce) {
  return reduce == Reduce::sum ? static_cast<T>(a + b) : std::max(a, b);
}

template <class T>
void reduce_all(std::byte* to, const std::byte* from, uint64_t count, Reduce reduce) {
  for (uint64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    a = reduced(a, b, reduce);
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}

// Every sum is rounded, as NCCL rounds it.
template <class T>
void reduce_narrow(std::byte* to, const std::byte* from, uint64_t count, Reduce reduce, T (*narrow)(float)) {
  for (uint64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + 2 * i, 2);
    std::memcpy(&b, from + 2 * i, 2);
    a = narrow(reduced(trireme::to_float(a), trireme::to_float(b), reduce));
    std::memcpy(to + 2 * i, &a, 2);
  }
}

bool has_reduction(Type type) {
  return type == Type::f32 || type == Type::bf16 || type == Type::f16 || type == Type::f64 || type == Type::i32 ||
         type == Type::i64;
}

// In place means exactly one place; anything else that overlaps is read after it was written.
std::string fault_of_places(const Op& op, int ranks, int rank) {
  if (op.from == nullptr || op.to == nullptr) return {};  // one buffer, or nothing to move
  const uint64_t piece = op.count * size_of(op.type), own = piece * static_cast<uint64_t>(rank);
  const auto length = [&](bool is_whole) { return is_whole ? piece * static_cast<uint64_t>(ranks) : piece; };
  const Range from{op.from, op.from + length(op.kind == Kind::reduce_scatter)};
  const Range to{op.to, op.to + length(op.kind == Kind::all_gather)};
  const bool is_in_place = op.kind == Kind::reduce_scatter ? op.to == op.from + own
                           : op.kind == Kind::all_gather   ? op.from == op.to + own
                                                           : op.from == op.to;
  if (is_in_place || !from.overlaps(to)) return {};
  return fmt::format("{}: its buffers overlap and are not in place", text_of(op));
}

}  // namespace

uint64_t size_of(Type type) {
  constexpr uint64_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kBytes[static_cast<size_t>(type)];
}

Range read_by(const Op& op, int ranks, int rank) {
  if (op.kind == Kind::receive || (op.kind == Kind::broadcast && op.peer != rank)) return {};
  const uint64_t pieces = op.kind == Kind::reduce_scatter ? static_cast<uint64_t>(ranks) : 1;
  return {op.from, op.from + pieces * op.count * size_of(op.type)};
}

Range written_by(const Op& op, int ranks, int /*rank*/) {
  if (op.kind == Kind::send) return {};
  const uint64_t pieces = op.kind == Kind::all_gather ? static_cast<uint64_t>(ranks) : 1;
  return {op.to, op.to + pieces * op.count * size_of(op.type)};
}

std::string text_of(const Op& op) {
  const std::string text = fmt::format("{} of {} {}", name_of(op.kind), op.count, name_of(op.type));
  if (reduces(op)) return fmt::format("{} ({})", text, op.reduce == Reduce::sum ? "sum" : "max");
  if (op.kind == Kind::all_gather) return text;
  return fmt::format("{} {} rank {}", text, op.kind == Kind::send ? "to" : "from", op.peer);
}

bool match(const Op& a, const Op& b) {
  if (a.kind != b.kind || a.count != b.count || a.type != b.type) return false;
  return reduces(a) ? a.reduce == b.reduce : a.kind != Kind::broadcast || a.peer == b.peer;
}

std::string fault_of(const Op& op, int ranks, int rank) {
  const auto type = static_cast<int>(op.type), reduce = static_cast<int>(op.reduce);
  if (type < 0 || type > static_cast<int>(Type::bf16)) return fmt::format("{}: no data type {}", name_of(op.kind), type);
  if (reduces(op) && op.reduce != Reduce::sum && op.reduce != Reduce::max)
    return fmt::format("{}: the stand-in has no reduction {}", name_of(op.kind), reduce);
  if (reduces(op) && !has_reduction(op.type))
    return fmt::format("{}: the stand-in does not reduce {}", name_of(op.kind), name_of(op.type));
  const bool has_peer = op.kind == Kind::broadcast || !op.is_collective();
  if (has_peer && (op.peer < 0 || op.peer >= ranks)) return fmt::format("{}: there are {} ranks", text_of(op), ranks);
  const bool reads = op.kind != Kind::receive && (op.kind != Kind::broadcast || op.peer == rank);
  if (op.count > 0 && ((reads && op.from == nullptr) || (op.kind != Kind::send && op.to == nullptr)))
    return fmt::format("{}: its buffer is null", text_of(op));
  return fault_of_places(op, ranks, rank);
}

std::string fault_of(const Unit& unit, int ranks, int rank) {
  for (const Op& op : unit.ops()) {
    if (std::string fault = fault_of(op, ranks, rank); !fault.empty()) return fault;
    if (unit.count == 1 && !op.is_collective() && op.peer == rank)
      return fmt::format("{}, which is itself, outside a group: it would wait for ever", text_of(op));
    if (unit.count > 1 && op.is_collective())
      return fmt::format("{} in a group: the stand-in has groups of sends and receives only", text_of(op));
    for (const Op& other : unit.ops())
      if (&op != &other && (written_by(op, ranks, rank).overlaps(written_by(other, ranks, rank)) ||
                            written_by(op, ranks, rank).overlaps(read_by(other, ranks, rank))))
        return fmt::format("{} overlaps {} of the same group", text_of(op), text_of(other));
  }
  return {};
}

void reduce_into(std::byte* to, const std::byte* from, uint64_t count, Type type, Reduce reduce) {
  switch (type) {
    case Type::f32:
      return reduce_all<float>(to, from, count, reduce);
    case Type::f64:
      return reduce_all<double>(to, from, count, reduce);
    case Type::i32:
      return reduce_all<int32_t>(to, from, count, reduce);
    case Type::i64:
      return reduce_all<int64_t>(to, from, count, reduce);
    case Type::f16:
      return reduce_narrow<trireme::f16>(to, from, count, reduce, trireme::to_f16);
    default:
      return reduce_narrow<trireme::bf16>(to, from, count, reduce, trireme::to_bf16);
  }
}

}  // namespace nccl_stand_in
