// What a user may have meant by a word nobody knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Letters to insert, remove, replace, or swap with their neighbour to turn one word into the other.
int64_t edit_distance(std::string_view a, std::string_view b);

// The candidate most like the word; empty if none is like it. A dotted key whose last part equals the word's last part is like it
// wherever it stands, since a right key in the wrong group is the commonest mistake.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean X?", or empty.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme
