#include "support/nccl_stand_in/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <vector>

namespace nccl_stand_in {
namespace {

// Of the ops that a rank has not done: how many go the same way as `op` to or from the same rank, up to `op` itself.
int64_t place_in_line(const Board& board, size_t index) {
  const Op& op = board.unit.list[index];
  int64_t place = 0;
  for (size_t i = 0; i <= index; ++i)
    place += !board.is_done[i] && board.unit.list[i].kind == op.kind && board.unit.list[i].peer == op.peer;
  return place;
}

int64_t counterparts(const Board& board, Kind kind, int peer) {
  int64_t count = 0;
  for (size_t i = 0; i < board.unit.count; ++i)
    count += !board.is_done[i] && board.unit.list[i].kind == kind && board.unit.list[i].peer == peer;
  return count;
}

// Whether op `index` of rank `a` waits for a later unit of rank `b`: then `a` waits until `b` is done with the one that it is in.
bool waits_for_next_unit(const Room& room, int a, size_t index, int b) {
  const Board &mine = room.boards[a], &theirs = room.boards[b];
  const Op& op = mine.unit.list[index];
  if (a == b || mine.is_done[index] || !theirs.is_active) return false;
  if (op.is_collective()) return theirs.collectives < mine.collectives;
  if (op.peer != b) return false;
  const Kind other = op.kind == Kind::send ? Kind::receive : Kind::send;
  return counterparts(theirs, other, a) < place_in_line(mine, index);
}

struct Edge {
  int rank = 0;
  size_t op = 0;
};

// Ranks of which each waits for the next one's next unit, and the last for the first's: none of them ever goes on.
bool find_ring(const Room& room, int ranks, int from, int target, std::vector<bool>& seen, std::vector<Edge>& ring) {
  const Board& board = room.boards[from];
  for (size_t op = 0; board.is_active && op < board.unit.count; ++op)
    for (int other = 0; other < ranks; ++other) {
      if (!waits_for_next_unit(room, from, op, other)) continue;
      ring.push_back({from, op});
      if (other == target) return true;
      if (!seen[static_cast<size_t>(other)]) {
        seen[static_cast<size_t>(other)] = true;
        if (find_ring(room, ranks, other, target, seen, ring)) return true;
      }
      ring.pop_back();
    }
  return false;
}

struct Used {
  const InUse* user = nullptr;
  Range range;
  bool is_written = false;
  std::string text;
};
struct AllInUse {
  std::mutex mutex;
  std::list<Used> used;
};
AllInUse& in_use() {
  static auto* const all = new AllInUse;
  return *all;
}

}  // namespace

std::string fault_among_ranks(const Room& room, int ranks, int rank) {
  const Board& own = room.boards[rank];
  for (int other = 0; other < ranks && own.unit.list[0].is_collective(); ++other) {
    const Board& board = room.boards[other];
    if (board.collectives == own.collectives && !match(own.collective, board.collective))
      return fmt::format("rank {} calls {}, where rank {} calls {}", rank, text_of(own.collective), other,
                         text_of(board.collective));
  }
  std::vector<bool> seen(static_cast<size_t>(ranks));
  std::vector<Edge> ring;
  if (!find_ring(room, ranks, rank, rank, seen, ring)) return {};
  std::string text = "a deadlock:";
  for (const Edge& edge : ring)
    text += fmt::format("{} rank {} is in {}", &edge == ring.data() ? "" : ",", edge.rank,
                        text_of(room.boards[edge.rank].unit.list[edge.op]));
  return text + "; calls that wait for each other belong in a group, or in the same order on all ranks";
}

InUse::InUse(const Unit& unit, int ranks, int rank, std::string& fault) {
  const std::lock_guard lock(in_use().mutex);
  const auto add = [&](const Op& op, const Range& range, bool is_written) {
    if (range.begin == range.end) return;
    for (const Used& other : in_use().used)
      if (other.user != this && (is_written || other.is_written) && range.overlaps(other.range))
        fault = fmt::format("{} uses memory that {} is using on another stream at the same time", text_of(op), other.text);
    in_use().used.push_back({this, range, is_written, text_of(op)});
  };
  for (const Op& op : unit.ops()) {
    add(op, read_by(op, ranks, rank), false);
    add(op, written_by(op, ranks, rank), true);
  }
}

InUse::~InUse() {
  const std::lock_guard lock(in_use().mutex);
  std::erase_if(in_use().used, [&](const Used& used) { return used.user == this; });
}

}  // namespace nccl_stand_in
